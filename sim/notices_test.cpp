// Notices played to their end: whatever a job announces when it is told comes true, and no more bytes leave a host than
// its links carry.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/random.h"
#include "ptc/run/scenario/job_state.h"
#include "sim/testing/simulation.h"

namespace scalai::sim {
namespace notices_test {

using control::NoticeRecord;
using control::testing::job_text;

constexpr double kNic = 0.9e6;  // bytes/s that transfers reach

// Two hosts of one GPU. h1 is taken at 60.5 s plus the notice.
std::string two_hosts(double notice_s, const std::string& layout, const std::string& more = "") {
  return fmt::format(R"(
  schema_version: 1
  name: "notices"
  seed: 1
  until: "400s"
  cluster {{
    name: "two"
    hosts {{ count: 2 gpus: 1 gpu: "a6000-48g" nics: 1 nic: "1MB/s" pcie: "1GB/s" gpu_link: "1GB/s" }}
    fabric {{ kind: STAR }}
    storage {{ read: "1MB/s" write: "1GB/s" }}
  }}
  costs {{ plan: "0s" transfer_start: "0s" box: "0s" peer: "0s" communicator: "0s" detect: "2s" }}
  events {{ at: "60.5s" preempt {{ hosts: 1 notice: "{}s" }} }}
)",
                     notice_s) +
         job_text("a", fmt::format("gpus: 2 configs {{ layout: \"{}\" step_time: \"1s\" }} "
                                   "configs {{ layout: \"tp1\" step_time: \"2s\" }} {}",
                                   layout, more));
}

control::RunReport play(const std::string& text, const std::string& strategy = "reshard") {
  const absl::StatusOr<scenario::Scenario> scenario = control::testing::scenario_of(text);
  SCALAI_CHECK(scenario.ok(), message_of(scenario.status()));
  static std::vector<std::unique_ptr<scenario::Scenario>> kept;  // reports refer to theirs
  kept.push_back(std::make_unique<scenario::Scenario>(*scenario));
  return testing::simulate(*kept.back(), scenario::find_strategy(strategy, kept.back()->costs).value());
}

// State on the second stage alone: tensors that the first does not hold.
int64_t sole_bytes(const control::RunReport& report) {
  const scenario::JobSpec& job = report.scenario->jobs[0];
  const auto state = scenario::collection_of(job, job.configs[0].config, {DeviceId(0), DeviceId(1)});
  int64_t bytes = 0;
  for (size_t i = 0; i < state->tensors.size(); ++i) {
    if (state->pieces(TensorId(static_cast<int>(i)), LogicalRank(0)).pieces.empty()) bytes += state->tensors[i].bytes();
  }
  return bytes;
}

// S bytes leave by a NIC of B in T = S / B. With 1.5 T of notice nothing is lost; with T / 2 half of the bytes would be
// out and the job goes back to the checkpoint of step 40, which is 20 steps of 1 s behind.
TEST(Notices, HalfOfTheTimeIsNotEnough) {
  const std::string checkpoints = "checkpoint { every_steps: 40 before_change: false }";
  const int64_t sole = sole_bytes(play(two_hosts(100, "pp2")));
  const double takes_s = static_cast<double>(sole) / kNic;
  const control::RunReport enough = play(two_hosts(1.5 * takes_s, "pp2", checkpoints));
  const NoticeRecord& saved = enough.jobs[0].notices.at(0);
  EXPECT_EQ(saved.answer, "leaves");
  EXPECT_EQ(saved.only_there_bytes, sole);
  EXPECT_NEAR(saved.takes_s, takes_s, 1e-6);
  EXPECT_EQ(enough.jobs[0].lost_steps, 0);
  EXPECT_EQ(enough.jobs[0].reconfigurations.size(), 1u);
  EXPECT_EQ(enough.jobs[0].reconfigurations[0].aborted_attempts, 0);

  const control::RunReport half = play(two_hosts(takes_s / 2, "pp2", checkpoints));
  const NoticeRecord& back = half.jobs[0].notices.at(0);
  EXPECT_EQ(back.answer, "goes back");
  EXPECT_NEAR(static_cast<double>(back.in_time_bytes), static_cast<double>(sole) / 2, 1024) << "a row of a matrix";
  EXPECT_FALSE(back.lost.empty());
  EXPECT_EQ(back.step, 40);
  EXPECT_EQ(back.repeated_steps, half.jobs[0].lost_steps);
  EXPECT_NEAR(back.repeated_s, half.jobs[0].downtime.run_again_s, 1e-9);
  EXPECT_EQ(half.jobs[0].reconfigurations.size(), 1u) << "it is gone before the host is";
}

// Half a minute or five: with state on one host alone the longer notice trains longer on both; where replicas hold it
// all, both lose nothing.
TEST(Notices, ThirtySecondsAndFiveMinutes) {
  const control::RunReport shorter = play(two_hosts(30, "pp2")), longer = play(two_hosts(300, "pp2"));
  EXPECT_EQ(shorter.jobs[0].lost_steps, 0);
  EXPECT_EQ(longer.jobs[0].lost_steps, 0);
  // Steps of 1 s on both hosts, of 2 s on one: 270 s more on both are worth 135 steps.
  EXPECT_NEAR(static_cast<double>(longer.jobs[0].steps - shorter.jobs[0].steps), 135, 1);
  for (const double notice_s : {30.0, 300.0}) {
    const control::RunReport replicas = play(two_hosts(notice_s, "dp2"));
    EXPECT_EQ(replicas.jobs[0].notices.at(0).only_there_bytes, 0);
    EXPECT_EQ(replicas.jobs[0].lost_steps, 0);
    EXPECT_EQ(replicas.jobs[0].downtime.cut_off_s, 0) << "it leaves at a step boundary";
  }
}

// Without any copy to go back to as much as can be is saved, and the rest is what the job fails for.
TEST(Notices, WhatIsLostIsNamedBeforehand) {
  const double takes_s = static_cast<double>(sole_bytes(play(two_hosts(100, "pp2")))) / kNic;
  const control::RunReport report = play(two_hosts(takes_s / 2, "pp2"));
  const NoticeRecord& notice = report.jobs[0].notices.at(0);
  EXPECT_EQ(notice.answer, "loses");
  EXPECT_EQ(report.jobs[0].state, "failed");
  for (const std::string& line : notice.lost)
    EXPECT_NE(report.jobs[0].failure.find(line), std::string::npos) << line << "\n" << report.jobs[0].failure;
  int64_t arrived = 0;
  for (const control::TransferRecord& flow : report.recorder.transfers)
    arrived += flow.phase == "redundancy" && flow.status == "done" ? flow.bytes : 0;
  EXPECT_EQ(arrived, notice.in_time_bytes);
}

// Two jobs leave one host by one NIC: each begins as if the other went first, and both are out in time.
TEST(Notices, JobsThatShareAHostLeaveInTimeTogether) {
  const std::string job =
      "steps: 100000 configs { layout: \"pp2\" step_time: \"1s\" } configs { layout: \"tp1\" step_time: \"2s\" } ";
  std::string text = two_hosts(20, "pp2");
  text = text.substr(0, text.find("jobs {"));
  text.replace(text.find("gpus: 1"), 7, "gpus: 2");
  const control::RunReport report =
      play(text + job_text("a", "devices: [0, 2] " + job) + job_text("b", "devices: [1, 3] " + job));
  for (const control::JobRecord& one : report.jobs) {
    EXPECT_EQ(one.notices.at(0).answer, "leaves");
    EXPECT_EQ(one.state, "running") << one.failure;
    EXPECT_EQ(one.lost_steps, 0);
    ASSERT_EQ(one.reconfigurations.size(), 1u);
    EXPECT_EQ(one.reconfigurations[0].aborted_attempts, 0);
    EXPECT_GT(one.reconfigurations[0].phases.transfer, 1.1 * one.notices[0].takes_s) << "they do share it";
  }
}

// ---- whatever the scenario ------------------------------------------------------------------------------------------

struct Drawn {
  std::string text, strategy;
  double notice_s = 0, nic_bytes_per_s = 0;
  int taken = 0;
};

Drawn draw(uint64_t seed) {
  Random random(seed);
  const std::vector<std::string> layouts = {"pp4", "pp2,dp2", "tp2,pp2", "dp4,zero1", "dp4", "tp4"};
  const std::vector<std::string> strategies = {"reshard", "reshard", "tenplex", "full-migration", "checkpoint-restart"};
  Drawn drawn;
  drawn.strategy = strategies[static_cast<size_t>(random.below(std::ssize(strategies)))];
  drawn.notice_s = 0.25 * static_cast<double>(random.between(1, 100));
  drawn.nic_bytes_per_s = 1e5 * static_cast<double>(random.between(1, 20));
  drawn.taken = static_cast<int>(random.below(4));
  const bool saves = drawn.strategy == "checkpoint-restart" || random.below(2) == 0;
  std::string more;
  if (saves) more += "checkpoint { every_steps: 15 } ";
  if (random.below(3) == 0) more += "redundancy { copies: 1 every_steps: 10 } ";
  drawn.text = fmt::format(R"(
  schema_version: 1
  name: "drawn"
  seed: {}
  until: "300s"
  cluster {{
    name: "four"
    hosts {{ count: 4 gpus: 1 gpu: "a6000-48g" nics: 1 nic: "{}B/s" pcie: "1GB/s" gpu_link: "1GB/s" }}
    fabric {{ kind: STAR }}
    storage {{ read: "1MB/s" write: "1MB/s" }}
  }}
  costs {{ restart: "{}s" communicator: "0s" detect: "2s" }}
  events {{ at: "{}s" preempt {{ hosts: {} notice: "{}s" }} }}
)",
                           seed, drawn.nic_bytes_per_s, random.below(2) * 10,
                           40 + 0.5 * static_cast<double>(random.below(20)), drawn.taken, drawn.notice_s) +
               job_text("a", fmt::format("gpus: 4 configs {{ layout: \"{}\" step_time: \"1s\" }} "
                                         "configs {{ layout: \"pp2\" step_time: \"2s\" }} {}",
                                         layouts[static_cast<size_t>(random.below(std::ssize(layouts)))], more));
  return drawn;
}

TEST(Notices, ComeTrue) {
  std::map<std::string, int> answers;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    const Drawn drawn = draw(seed);
    SCOPED_TRACE(fmt::format("seed {} {}\n{}", seed, drawn.strategy, drawn.text));
    const control::RunReport report = play(drawn.text, drawn.strategy);
    const control::JobRecord& job = report.jobs[0];
    ASSERT_EQ(job.notices.size(), 1u);
    const NoticeRecord& notice = job.notices[0];
    ++answers[notice.answer];
    EXPECT_LE(notice.in_time_bytes, notice.only_there_bytes);
    if (notice.only_there_bytes > 0) {
      EXPECT_EQ(notice.lost.empty(), notice.in_time_bytes == notice.only_there_bytes);
    }
    EXPECT_EQ(notice.lost.empty(), notice.answer != "goes back" && notice.answer != "loses");
    // No way out of the host carries more: its NIC is the minimum cut.
    const double most = 0.9 * drawn.nic_bytes_per_s * drawn.notice_s;
    if (notice.answer != "checkpoint" && notice.answer != "goes back") {
      EXPECT_LE(static_cast<double>(notice.in_time_bytes), most * (1 + 1e-9));
    }
    double left = 0;
    for (const control::TransferRecord& flow : report.recorder.transfers) {
      const bool out =
          flow.status == "done" && flow.src.kind != plan::Location::Kind::kStorage && flow.src.index == drawn.taken;
      if (out && flow.start_s >= notice.at_s && flow.end_s <= notice.deadline_s && flow.dst.index != drawn.taken)
        left += static_cast<double>(flow.bytes);
    }
    EXPECT_LE(left, most * (1 + 1e-9));
    if (notice.answer == "loses") {
      EXPECT_EQ(job.state, "failed");
      continue;
    }
    EXPECT_EQ(job.state, "running") << job.failure;
    EXPECT_EQ(job.lost_steps, notice.repeated_steps);
    EXPECT_TRUE(notice.answer == "goes back" || job.lost_steps == 0);
  }
  for (const char* answer : {"leaves", "copies", "checkpoint", "goes back", "loses"})
    EXPECT_GT(answers[answer], 0) << answer;
}

}  // namespace notices_test
}  // namespace scalai::sim
