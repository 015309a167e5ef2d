#include "ptc/run/control/internal/policy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::control {
namespace {

using policy::Decision;
using policy::GpuType;
using policy::JobId;
using ::testing::HasSubstr;

Decision example() {
  Decision decision;
  decision.grants.push_back({.job = JobId(0), .type = GpuType(0), .gpus = 8, .hosts = {}, .beside = {}});
  decision.grants.push_back({.job = JobId(1),
                             .type = GpuType(2),
                             .gpus = 4,
                             .hosts = {{.host = HostId(2), .gpus = 1}, {.host = HostId(3), .gpus = 3}},
                             .beside = {}});
  decision.grants.push_back({.job = JobId(2), .type = GpuType(0), .gpus = 8, .hosts = {}, .beside = JobId(0)});
  decision.refused = {JobId(3)};
  decision.wake_at_s = 360.1;
  return decision;
}

TEST(PolicyText, IsReadable) {
  EXPECT_EQ(decision_text(example()), "0=8@0 1=4@2:h2*1+h3*3 2=8@0&0 !3 wake=360.1");
  EXPECT_EQ(decision_text({}), "");
}

TEST(PolicyText, ReadsBackAsItWas) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  Random random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Decision decision;
    for (int64_t n = random.below(4); n > 0; --n) {
      policy::Grant& grant = decision.grants.emplace_back();
      grant.job = JobId(random.below(100));
      grant.type = GpuType(random.below(3));
      grant.gpus = static_cast<int>(random.below(64));
      for (int64_t hosts = random.below(3); hosts > 0; --hosts)
        grant.hosts.push_back({.host = HostId(random.below(1000)), .gpus = static_cast<int>(random.between(1, 8))});
      if (random.below(5) == 0) grant.beside = JobId(random.below(9));
    }
    if (random.below(3) == 0) decision.refused.emplace_back(random.below(9));
    if (random.below(2) == 0) decision.wake_at_s = static_cast<double>(random.below(1000)) / 7;
    const std::string text = decision_text(decision);
    EXPECT_EQ(text.find(','), std::string::npos) << "it is a cell of a CSV file";
    const auto again = parse_decision(text);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(decision_text(*again), text);
    EXPECT_EQ(again->wake_at_s, decision.wake_at_s);
    EXPECT_EQ(again->grants.size(), decision.grants.size());
  }
}

TEST(PolicyText, NamesTheWordThatIsNone) {
  for (const std::string text : {"0=8", "0=8@", "0=8@0:", "0=8@0:h1", "0=8@0:h1*2+", "x=8@0", "0=8@0&", "!",
                                 "wake=", "wake=nan", "0=8@0x", "99999999999=1@0"}) {
    const auto read = parse_decision("1=2@0 " + text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_THAT(message_of(read.status()), HasSubstr("\"" + text + "\" is no part of a decision"));
  }
}

class NothingToSee final : public policy::View {
 public:
  double now_s() const override { return 7.5; }
  const policy::Fleet& fleet() const override { return fleet_; }
  int capacity(GpuType) const override { return 0; }
  int capacity(HostId) const override { return 0; }
  double price(GpuType) const override { return 0; }
  const policy::Job& job(JobId) const override { return job_; }
  policy::Progress progress(JobId) const override { return {}; }
  std::span<const JobId> active() const override { return {}; }
  const policy::Throughput& throughput() const override { std::abort(); }
  double change_cost_s(JobId, int) const override { return 0; }

 private:
  policy::Fleet fleet_;
  policy::Job job_;
};

TEST(RecordedPolicy, SaysWhatTheLogSaysAndNoMore) {
  RecordedPolicy policy;
  ASSERT_TRUE(policy.learn({{1, PolicyDecided{decision_text(example())}}}, "log").ok());
  EXPECT_EQ(message_of(policy.learn({{1, Started{}}, {1, PolicyDecided{"nonsense"}}}, "log")),
            "log: event 2: \"nonsense\" is no part of a decision");
  const NothingToSee view;
  const auto first = policy.decide(view, {});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(decision_text(*first), decision_text(example()));
  EXPECT_EQ(message_of(policy.decide(view, {}).status()), "the log has no decision of the policy at 7.5 s");
}

// A program that never says the same twice.
class Fickle final : public policy::Policy {
 public:
  policy::PolicyTraits traits() const override { return {}; }
  absl::StatusOr<policy::Decision> decide(const policy::View&, std::span<const policy::Event>) override {
    return policy::Decision{.wake_at_s = ++asked};
  }
  double asked = 0;
};

TEST(RecordedPolicy, AProgramIsAskedOnceAndItsAnswerIsWrittenDownFirst) {
  const NothingToSee view;
  Fickle program;
  std::vector<Event> log;
  const auto record = [&](const Event& event) {
    log.push_back(event);
    return log.size() < 4 ? absl::OkStatus() : absl::ResourceExhaustedError("full");
  };
  for (int run = 0; run < 3; ++run) {
    RecordedPolicy policy(&program, record);
    ASSERT_TRUE(policy.learn(log, "log").ok());
    for (int moment = 1; moment <= run + 1; ++moment) EXPECT_EQ(policy.decide(view, {})->wake_at_s, moment);
    EXPECT_EQ(program.asked, run + 1);
  }
  EXPECT_EQ(log[2].at_s, 7.5);
  RecordedPolicy policy(&program, record);
  EXPECT_EQ(message_of(policy.decide(view, {}).status()), "full") << "what is not written down does not count";
}

}  // namespace
}  // namespace scalai::control
