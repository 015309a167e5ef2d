#include "ptc/run/policy/policies/goodput/profiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "ptc/base/file.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/testing/profiles.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

TEST(StepGain, IsThePublishedFormula) {
  // var 3, sqr 1: (3 + 1) / (3 / 2 + 1) at twice the batch.
  EXPECT_DOUBLE_EQ(step_gain({1, 3}, 2), 1.6);
  EXPECT_DOUBLE_EQ(step_gain({1, 3}, 1), 1);
  // Scale x efficiency, with noise scale phi = M0 var / sqr: (phi + M0) / (phi + M).
  const double m0 = 8, m = 40, phi = m0 * 3;
  EXPECT_DOUBLE_EQ(step_gain({1, 3}, m / m0), m / m0 * (phi + m0) / (phi + m));
  EXPECT_EQ(step_gain({0, 0}, 4), 1);
}

TEST(StepGain, GrowsWithTheBatchAndNeverBeyondIt) {
  Random random(7);
  for (int k = 0; k < 200; ++k) {
    const GradientNoise noise = {random.uniform() * 10, random.uniform() * 10 + 1e-6};
    double before = 1;
    for (double scale = 1; scale < 100; scale *= 1.7) {
      const double gain = step_gain(noise, scale);
      EXPECT_GE(gain, before * (1 - 1e-12));
      EXPECT_LE(gain, scale * (1 + 1e-12));
      before = gain;
    }
  }
}

TEST(Application, ReadsWhatWasMeasured) {
  const testing::TinyProfiles tiny;
  const auto app = Application::load("tiny", tiny.folder() + "/tiny");
  ASSERT_TRUE(app.ok()) << message_of(app.status());
  EXPECT_EQ(app->initial_batch(), 8);
  EXPECT_EQ(app->most_batch(), 32);
  EXPECT_EQ(app->least_local(), 4);
  EXPECT_EQ(app->most_local(), 16);
  EXPECT_EQ(app->epochs(), 2);
  EXPECT_DOUBLE_EQ(app->epoch_end(0), 100);  // the least of the two batches
  EXPECT_DOUBLE_EQ(app->work(), 200);
  EXPECT_EQ(app->epoch_at(0), 0);
  EXPECT_EQ(app->epoch_at(99.9), 0);
  EXPECT_EQ(app->epoch_at(100), 1);
  EXPECT_EQ(app->epoch_at(500), 1);
}

TEST(Application, InterpolatesTheLocalBatchAndTurnsTheRing) {
  const testing::TinyProfiles tiny;
  const auto app = Application::load("tiny", tiny.folder() + "/tiny");
  ASSERT_TRUE(app.ok());
  const int one[] = {1}, two_one[] = {2, 1}, one_two[] = {1, 2}, five[] = {5};
  EXPECT_DOUBLE_EQ(app->step_time(one, 4)->step_s, 1);
  EXPECT_DOUBLE_EQ(app->step_time(one, 6)->step_s, 1.5);  // halfway to 8
  EXPECT_DOUBLE_EQ(app->step_time(one, 6)->sync_s, 0.15);
  EXPECT_FALSE(app->step_time(one, 3).has_value());
  EXPECT_FALSE(app->step_time(one, 17).has_value());
  EXPECT_FALSE(app->step_time(five, 4).has_value());
  EXPECT_DOUBLE_EQ(app->step_time(two_one, 4)->step_s, app->step_time(one_two, 4)->step_s);
  const int three_one[] = {3, 1};
  EXPECT_DOUBLE_EQ(app->step_time(three_one, 4)->step_s, 5);  // "13", not the mean of four GPUs on two hosts
}

TEST(Application, InterpolatesBetweenNodeCountsAtTheSameDensity) {
  const testing::TinyProfiles tiny;
  const auto app = Application::load("tiny", tiny.folder() + "/tiny");
  ASSERT_TRUE(app.ok());
  // Two nodes: "11" 2 s, "12" 3 s, "22" 4 s at batch 4; six nodes: 6 GPUs 6 s, 12 GPUs 10 s.
  EXPECT_DOUBLE_EQ(app->step_time(2, 2, 4)->step_s, 2);
  EXPECT_DOUBLE_EQ(app->step_time(6, 12, 4)->step_s, 10);
  EXPECT_DOUBLE_EQ(app->step_time(6, 9, 4)->step_s, 8);     // between the rows of 6 and 12
  EXPECT_DOUBLE_EQ(app->step_time(4, 4, 4)->step_s, 4);     // between "11" and 6 on 6
  EXPECT_DOUBLE_EQ(app->step_time(4, 8, 4)->step_s, 7.25);  // between 4.5 ("13" and "22") and 12 on 6
  EXPECT_FALSE(app->step_time(4, 17, 4).has_value());       // more than four a node
  EXPECT_FALSE(app->step_time(3, 2, 4).has_value());
  EXPECT_FALSE(app->step_time(8, 8, 4).has_value());  // nothing measured beyond six
}

TEST(Application, InterpolatesNoiseAndIterationsBetweenBatches) {
  const testing::TinyProfiles tiny;
  const auto app = Application::load("tiny", tiny.folder() + "/tiny");
  ASSERT_TRUE(app.ok());
  EXPECT_DOUBLE_EQ(app->noise(8, 0).sqr, 1);
  EXPECT_DOUBLE_EQ(app->noise(32, 1).var, 8);
  EXPECT_DOUBLE_EQ(app->noise(20, 0).sqr, 2);  // halfway between 1 and 3
  EXPECT_DOUBLE_EQ(app->noise(4, 0).sqr, 1);   // below: the smallest measured
  EXPECT_DOUBLE_EQ(app->iterations(8, 0), 0);
  EXPECT_DOUBLE_EQ(app->iterations(20, 1), 70);  // between 100 and 40
}

TEST(Application, CutsABatchIntoPassesThatFit) {
  const testing::TinyProfiles tiny;
  const auto app = Application::load("tiny", tiny.folder() + "/tiny");
  ASSERT_TRUE(app.ok());
  EXPECT_EQ(app->cut(8, 1), (BatchCut{8, 0}));    // the initial batch in one pass
  EXPECT_EQ(app->cut(16, 1), (BatchCut{8, 1}));   // it would fit, but noise needs two passes
  EXPECT_EQ(app->cut(32, 2), (BatchCut{16, 0}));  // 16 each
  EXPECT_EQ(app->cut(32, 1), (BatchCut{16, 1}));
  EXPECT_EQ(app->cut(32, 3), (BatchCut{10, 0}));  // 11 each would be more than the largest batch
}

TEST(Application, NamesFileRowAndFieldOfWhatIsWrong) {
  const testing::TinyProfiles tiny;
  const std::string folder = tiny.folder() + "/tiny";
  const auto problem = [&](const std::string& file, const std::string& text) {
    const std::string path = folder + "/" + file;
    const std::string before = *read_file(path);
    EXPECT_TRUE(write_file(path, text).ok());
    const std::string message = message_of(Application::load("tiny", folder).status());
    EXPECT_TRUE(write_file(path, before).ok());
    return message;
  };
  const std::string header = "placement,local_bsz,step_time,sync_time\n";
  EXPECT_NE(problem("placements.csv", "a,b\n").find("placements.csv:1: the header"), std::string::npos);
  EXPECT_NE(problem("placements.csv", header + "1,4,x,0\n").find("csv:2: field 3 \"x\""), std::string::npos);
  EXPECT_NE(problem("placements.csv", header + "1,4,1\n").find("csv:2: field 4"), std::string::npos);
  EXPECT_NE(problem("placements.csv", header + "1,4,1,0,9\n").find("more than 4"), std::string::npos);
  EXPECT_NE(problem("placements.csv", header + "15,4,1,0\n").find("placement 15"), std::string::npos);
  EXPECT_NE(problem("placements.csv", header).find("no rows"), std::string::npos);
  EXPECT_NE(problem("placements.csv", header + "11,4,1,0\n").find("no placement on one node"), std::string::npos);
  EXPECT_NE(problem("placements.csv", header + "1,4,inf,0\n").find("field 3"), std::string::npos);
  EXPECT_NE(problem("validation-8.csv", "progress,iteration,metric,grad_sqr,grad_var\n5,1,0,1,1\n5,2,0,1,1\n")
                .find("progress does not grow in epoch 2"),
            std::string::npos);
  EXPECT_TRUE(Application::load("tiny", folder).ok());
  EXPECT_FALSE(Profiles::load(folder).ok());  // one level too deep
  EXPECT_EQ(Profiles::load(tiny.folder())->names(), std::vector<std::string>{"tiny"});
  EXPECT_EQ(Profiles::load(tiny.folder())->find("other"), nullptr);
}

// Every measured row comes back as it is.
TEST(Application, PublicProfilesComeBackExactly) {
  const std::string folder = testing::data_path("pollux/profiles");
  if (folder.empty()) GTEST_SKIP() << testing::data_hint("pollux/profiles");
  const auto profiles = Profiles::load(folder);
  ASSERT_TRUE(profiles.ok()) << message_of(profiles.status());
  ASSERT_EQ(profiles->names().size(), 6U);
  int64_t rows = 0;
  for (const std::string& name : profiles->names()) {
    const Application& app = *profiles->find(name);
    std::ifstream in(folder + "/" + name + "/placements.csv");
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      long long digits = 0, local = 0;
      double step = 0, sync = 0;
      ASSERT_EQ(sscanf(line.c_str(), "%lld,%lld,%lf,%lf", &digits, &local, &step, &sync), 4);
      std::vector<int> gpus;
      for (const char digit : std::to_string(digits)) gpus.push_back(digit - '0');
      const auto time = app.step_time(gpus, local);
      ASSERT_TRUE(time.has_value()) << name << " " << line;
      EXPECT_NEAR(time->step_s, step, 1e-9 * step) << name << " " << line;
      EXPECT_NEAR(time->sync_s, sync, 1e-9 * step) << name << " " << line;
      ++rows;
    }
  }
  EXPECT_EQ(rows, 5542);
  EXPECT_EQ(profiles->find("yolov3")->most_local(), 8);
  EXPECT_EQ(profiles->find("imagenet")->epochs(), 90);
}

}  // namespace
}  // namespace scalai::policy
