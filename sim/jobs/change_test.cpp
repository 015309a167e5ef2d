#include "sim/jobs/change.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

policy::Placement on(int gpus) {
  return gpus == 0 ? policy::Placement{} : policy::Placement{.type = policy::GpuType(0), .hosts = {{HostId(0), gpus}}};
}

// Seconds a preset takes for a change.
double seconds(const std::string& preset, const std::string& type, int from, int to, ChangeCause cause,
               int fleet_gpus = 64) {
  const policy::Fleet fleet = policy::testing::plain_fleet(1, fleet_gpus);
  const absl::StatusOr<std::unique_ptr<ChangeModel>> model = make_preset_changes(preset, fleet);
  EXPECT_TRUE(model.ok()) << message_of(model.status());
  policy::Job job = policy::testing::rigid_job("job", 0, to, 100);
  job.type = type;
  const policy::Placement before = on(from), after = on(to);
  EXPECT_TRUE(
      (*model)
          ->begin({.job = policy::JobId(0), .spec = &job, .from = &before, .to = &after, .cause = cause, .now_s = 5})
          .ok());
  return (*model)->next_end_s() - 5;
}

TEST(Constant, EndsInOrderAndMayBeReplacedOrCancelled) {
  const std::unique_ptr<ChangeModel> model = make_constant_changes({.change_s = 10, .start_s = 3});
  const policy::Job job = policy::testing::rigid_job("job", 0, 1, 100);
  const policy::Placement none, one = on(1);
  const auto begin = [&](int id, double now_s, ChangeCause cause) {
    const absl::StatusOr<double> lost = model->begin(
        {.job = policy::JobId(id), .spec = &job, .from = &none, .to = &one, .cause = cause, .now_s = now_s});
    EXPECT_EQ(*lost, 0);
  };
  EXPECT_EQ(model->next_end_s(), policy::kNever);
  begin(2, 0, ChangeCause::kStart);
  begin(1, 0, ChangeCause::kStart);
  begin(0, 1, ChangeCause::kPolicy);
  begin(3, 1, ChangeCause::kPolicy);
  EXPECT_EQ(model->next_end_s(), 3);
  EXPECT_THAT(model->advance(2), IsEmpty());
  EXPECT_THAT(model->advance(3),
              ElementsAre(Field(&ChangeEnd::job, policy::JobId(1)), Field(&ChangeEnd::job, policy::JobId(2))));
  model->cancel(policy::JobId(3), 4);
  begin(0, 4, ChangeCause::kPolicy);
  EXPECT_EQ(model->next_end_s(), 14);
  EXPECT_THAT(model->advance(20), ElementsAre(Field(&ChangeEnd::job, policy::JobId(0))));
  EXPECT_EQ(model->next_end_s(), policy::kNever);
  EXPECT_EQ(model->expected_s(job, 0, 1), 10);
}

TEST(Presets, ChargeWhatWasPublished) {
  constexpr ChangeCause kPolicy = ChangeCause::kPolicy, kStart = ChangeCause::kStart, kLost = ChangeCause::kLost;
  EXPECT_EQ(seconds("none", "bert", 4, 8, kPolicy), 0);
  EXPECT_EQ(seconds("gavel-sim", "bert", 4, 8, kPolicy), 0);
  EXPECT_EQ(seconds("pollux", "bert", 4, 8, kPolicy), 30);
  EXPECT_EQ(seconds("pollux", "bert", 0, 8, kStart), 30);
  EXPECT_EQ(seconds("sia", "imagenet", 4, 8, kPolicy), 250);
  EXPECT_EQ(seconds("sia", "yolov3", 4, 8, kPolicy), 80);
  EXPECT_EQ(seconds("sia", "ncf", 4, 8, kPolicy), 30);
  EXPECT_EQ(seconds("elasticflow", "vgg16", 4, 8, kPolicy), 2 + 2 * 4 + 20);
  EXPECT_EQ(seconds("elasticflow", "vgg16", 4, 8, kPolicy, 256), 7 + 2 * 4 + 27);
  EXPECT_EQ(seconds("elasticflow", "vgg16", 0, 1, kStart), 2 + 2);
  EXPECT_EQ(seconds("oobleck", "GPT-3-2_7b", 8, 7, kLost), 6);
  EXPECT_EQ(seconds("bamboo", "BERT-large", 8, 7, kLost), 76);
  EXPECT_EQ(seconds("varuna", "gpt3-6.7b", 8, 7, kLost), 701);
  EXPECT_EQ(seconds("varuna", "gpt3-6.7b", 0, 7, kStart), 0);
  EXPECT_DOUBLE_EQ(seconds("parcae", "gpt", 30, 32, kPolicy), 6.6 + 37.588);
  EXPECT_DOUBLE_EQ(seconds("parcae", "gpt", 32, 8, kPolicy), 6.6 + 69.429);
  EXPECT_DOUBLE_EQ(seconds("parcae", "gpt", 1, 6, kPolicy), 6.6 + (36.189 + 40.882) / 2);
  EXPECT_DOUBLE_EQ(seconds("parcae", "gpt", 64, 48, kPolicy), 6.6 + 95.427);
}

TEST(Presets, AreFoundByNameOrTheClosestIsNamed) {
  const policy::Fleet fleet = policy::testing::plain_fleet(1, 1);
  for (const std::string& name : change_preset_names()) EXPECT_TRUE(make_preset_changes(name, fleet).ok()) << name;
  const absl::Status status = make_preset_changes("polux", fleet).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr("did you mean \"pollux\""));
}

}  // namespace
}  // namespace scalai::jobs
