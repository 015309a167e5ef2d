#include "sim/jobs/recovery/published_costs.h"

#include "gtest/gtest.h"
#include "ptc/sched/testing/support.h"

namespace scalai::sched {
namespace {

constexpr RecoveryDesign kDesigns[] = {RecoveryDesign::kCheckpointRestart, RecoveryDesign::kRedundancy,
                                       RecoveryDesign::kTemplates};

// The constants here and the public table say the same.
TEST(PublishedCosts, AreThoseOfTheTable) {
  const std::string path = testing::data_path("oobleck/costs.csv");
  if (path.empty()) GTEST_SKIP() << testing::data_hint("oobleck/costs.csv");
  for (const RecoveryDesign design : kDesigns) {
    for (const std::string& model : published_models()) {
      const auto ours = published_costs(design, model);
      const auto table = read_host_costs(path, {published_system(design), model});
      ASSERT_TRUE(ours.ok() && table.ok()) << model;
      EXPECT_EQ(ours->change_s, table->change_s) << model;
      EXPECT_EQ(ours->samples_per_step, table->samples_per_step) << model;
      if (design == RecoveryDesign::kCheckpointRestart) {
        EXPECT_EQ(ours->checkpoint_s, table->checkpoint_s) << model;
      }
      if (design == RecoveryDesign::kRedundancy) {
        EXPECT_EQ(ours->fatal_s, table->fatal_s) << model;
      }
    }
  }
}

TEST(PublishedCosts, OfBertLargeUnderVarunaDependOnHosts) {
  const auto costs = published_costs(RecoveryDesign::kCheckpointRestart, "BERT-large");
  ASSERT_TRUE(costs.ok());
  const auto change = published_change(RecoveryDesign::kCheckpointRestart, "BERT-large", *costs);
  EXPECT_EQ(change({.from = 0, .to = 30, .lost = 0}), 76);
  EXPECT_EQ(change({.from = 30, .to = 29, .lost = 1}), 71.3);
  EXPECT_EQ(change({.from = 27, .to = 26, .lost = 1}), 49.1);
  EXPECT_NEAR(change({.from = 15, .to = 14, .lost = 1}), 71.3, 1e-9);
  HostCosts own;  // a user's table
  own.change_s = 5;
  EXPECT_EQ(published_change(RecoveryDesign::kCheckpointRestart, "BERT-large", own)({.from = 27, .to = 26, .lost = 1}),
            5);
  EXPECT_FALSE(published_rolls_back("BERT-large"));
  EXPECT_TRUE(published_rolls_back("GPT-3-6_7b"));
}

TEST(PublishedCosts, SayWhichThereAre) {
  const auto none = published_costs(RecoveryDesign::kTemplates, "GPT-5");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.status().ToString().find("GPT-3-6.7b"), std::string::npos);
  EXPECT_FALSE(published_costs(RecoveryDesign::kReshard, "GPT-2").ok());
  EXPECT_FALSE(parcae_costs("GPT-5").ok());
}

// One of Parcae's: to restart GPT 1.5B as 4 x 8 after growth takes 6.6 + 0.035 + 45 x 0.5 + 0.24 s and the build.
TEST(PublishedCosts, OfParcae) {
  auto costs = parcae_costs("gpt-1.5b");
  ASSERT_TRUE(costs.ok());
  costs->samples_per_s = {{{4, 8}, 43.468}};
  const double build_s = costs->build_s.at(8);
  EXPECT_NEAR(build_s, 0.2348 + 0.43 * 6, 1e-9);
  EXPECT_NEAR(Liveput(*costs, 60).restart_s({4, 8}, true), 6.6 + 0.035 + 22.5 + 0.24 + build_s, 1e-9);
  for (const char* model : {"gpt-6.7b", "bert", "resnet152", "vgg19"}) EXPECT_TRUE(parcae_costs(model).ok()) << model;
}

}  // namespace
}  // namespace scalai::sched
