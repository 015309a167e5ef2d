#include "ptc/run/policy/decision.h"

#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"

namespace scalai::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two hosts of four GPUs and one of another type. Jobs: "a" runs on four GPUs of h0, "b" waits, "c" comes later, "d"
// has left.
class FakeView final : public View {
 public:
  FakeView() {
    all.types.push_back({.name = "other"});
    all.hosts.push_back({.type = GpuType(1), .gpus = 4});
    for (const char* name : {"a", "b", "c", "d"}) jobs_.push_back(testing::rigid_job(name, 0, 4, 100));
  }
  double now_s() const override { return 10; }
  const Fleet& fleet() const override { return all; }
  int capacity(GpuType type) const override { return all.gpus(type); }
  int capacity(HostId) const override { return 4; }
  double price(GpuType) const override { return 0; }
  const Job& job(JobId id) const override { return jobs_.at(static_cast<size_t>(id.value)); }
  Progress progress(JobId id) const override {
    Progress progress;
    if (id == JobId(0)) progress.placement = {.type = GpuType(0), .hosts = {{HostId(0), 4}}};
    return progress;
  }
  std::span<const JobId> active() const override { return {}; }
  const Throughput& throughput() const override { return throughput_; }
  double change_cost_s(JobId, int) const override { return 0; }

  Fleet all = testing::plain_fleet(2, 4);

 private:
  std::vector<Job> jobs_;
  testing::PlainThroughput throughput_;
};

Grant grant(int job, int gpus, std::vector<HostShare> hosts = {}, int beside = -1) {
  return {.job = JobId(job),
          .type = GpuType(0),
          .gpus = gpus,
          .hosts = std::move(hosts),
          .beside = beside < 0 ? JobId() : JobId(beside)};
}

class DecisionTest : public ::testing::Test {
 protected:
  absl::StatusOr<Grants> check(const Decision& decision) const { return check_decision(decision, view_, rules_); }
  std::string problem(std::vector<Grant> grants) const {
    return message_of(check({.grants = std::move(grants), .refused = {}}).status());
  }

  FakeView view_;
  Rules rules_{
      .jobs = 4, .presence = [](JobId id) {
        constexpr Presence kOf[] = {Presence::kRunning, Presence::kWaiting, Presence::kFuture, Presence::kLeft};
        return kOf[id.value];
      }};
};

TEST_F(DecisionTest, GrantsAreByJob) {
  const Decision decision{.grants = {grant(1, 4), grant(0, 0)}, .refused = {}};
  const auto grants = check(decision);
  ASSERT_TRUE(grants.ok()) << grants.status();
  EXPECT_THAT(*grants, ElementsAre(&decision.grants[1], &decision.grants[0]));
  EXPECT_EQ(find_grant(*grants, JobId(1)), &decision.grants[0]);
  EXPECT_EQ(find_grant(*grants, JobId(2)), nullptr);
}

TEST_F(DecisionTest, JobsAreThereAndNamedOnce) {
  EXPECT_THAT(problem({grant(7, 4)}), HasSubstr("the policy broke a rule: a grant to job 7, of 4"));
  EXPECT_THAT(problem({grant(-1, 4)}), HasSubstr("a grant to job -1"));
  EXPECT_THAT(problem({grant(2, 4)}), HasSubstr("job \"c\", which was not submitted yet"));
  EXPECT_THAT(problem({grant(3, 4)}), HasSubstr("job \"d\", which has left"));
  EXPECT_THAT(problem({grant(1, 4), grant(0, 4), grant(1, 2)}), HasSubstr("two grants to job 1"));
}

TEST_F(DecisionTest, GpusAreThereAndAddUp) {
  EXPECT_THAT(problem({grant(0, -1)}), HasSubstr("-1 GPUs for job \"a\""));
  Grant typed = grant(0, 4);
  typed.type = GpuType(2);
  EXPECT_THAT(problem({typed}), HasSubstr("GPU type 2 for job \"a\", of 2 types"));
  typed.gpus = 0;
  EXPECT_EQ(problem({typed}), "") << "no GPUs have no type";
  EXPECT_THAT(problem({grant(0, 4, {{HostId(0), 3}})}), HasSubstr("4 GPUs for job \"a\", but 3 on hosts"));
  const std::vector<std::vector<HostShare>> wrong = {{{HostId(9), 4}},                  // unknown
                                                     {{HostId(2), 4}},                  // of another type
                                                     {{HostId(0), 2}, {HostId(0), 2}},  // twice
                                                     {{HostId(1), 2}, {HostId(0), 2}},  // not ascending
                                                     {{HostId(0), 4}, {HostId(1), 0}}};
  for (const std::vector<HostShare>& hosts : wrong)
    EXPECT_THAT(problem({grant(0, 4, hosts)}), HasSubstr("hosts of the type, ascending, each with some GPUs"));
  EXPECT_EQ(problem({grant(0, 4, {{HostId(0), 1}, {HostId(1), 3}})}), "");
}

TEST_F(DecisionTest, AJobBesideAnotherHasItsNumberAndType) {
  EXPECT_EQ(problem({grant(1, 4, {}, 0)}), "");
  EXPECT_THAT(problem({grant(1, 2, {}, 0)}), HasSubstr("job \"b\" with 2 GPUs beside \"a\" with 4"));
  EXPECT_EQ(problem({grant(0, 2), grant(1, 2, {}, 0)}), "") << "of the same decision";
  EXPECT_THAT(problem({grant(1, 4, {}, 1)}), HasSubstr("beside job 1"));
  EXPECT_THAT(problem({grant(1, 4, {{HostId(0), 4}}, 0)}), HasSubstr("hosts for job \"b\" and beside \"a\""));
  EXPECT_THAT(problem({grant(0, 4, {}, 1), grant(1, 4, {}, 0)}), HasSubstr("itself beside another"));
  rules_.sharing = false;
  EXPECT_THAT(problem({grant(1, 4, {}, 0)}), HasSubstr("take a policy without space sharing"));
}

TEST_F(DecisionTest, OnlyJobsThatWaitAreRefused) {
  const auto refuses = [&](std::vector<JobId> refused, std::vector<Grant> grants = {}) {
    return message_of(check({.grants = std::move(grants), .refused = std::move(refused)}).status());
  };
  EXPECT_EQ(refuses({JobId(1)}), "");
  EXPECT_THAT(refuses({JobId(0)}), HasSubstr("job 0 is refused, which does not wait"));
  EXPECT_THAT(refuses({JobId(7)}), HasSubstr("job 7 is refused"));
  EXPECT_THAT(refuses({JobId(1), JobId(1)}), HasSubstr("job 1 is refused, which does not wait"));
  EXPECT_THAT(refuses({JobId(1)}, {grant(1, 4)}), HasSubstr("job \"b\", which has left"));
}

TEST_F(DecisionTest, AWakeUpIsLaterThanNow) {
  const auto wakes = [&](double at_s) {
    return message_of(check({.grants = {}, .refused = {}, .wake_at_s = at_s}).status());
  };
  EXPECT_EQ(wakes(10.5), "");
  EXPECT_THAT(wakes(10), HasSubstr("woken at 10 s, which is not after now (10 s)"));
  rules_.armed_s = 10;
  EXPECT_EQ(wakes(10), "") << "it was asked for earlier, and comes yet";
}

TEST_F(DecisionTest, PartsOfGpusAreGrantedByNumberAsAskedFor) {
  FakeView view;
  view.all.per_gpu = 7;
  const auto problem = [&](const Grant& one) {
    return message_of(check_decision({.grants = {one}, .refused = {}}, view, rules_).status());
  };
  EXPECT_EQ(problem(grant(1, 4)), "");
  EXPECT_THAT(problem(grant(1, 3)), HasSubstr("3 slices of GPUs that are cut"));
  EXPECT_THAT(problem(grant(1, 4, {{HostId(0), 4}})), HasSubstr("of which only numbers are granted"));
}

TEST_F(DecisionTest, TheSameGpusAreNoChange) {
  const Placement now{.type = GpuType(0), .hosts = {{HostId(0), 1}, {HostId(1), 3}}};
  EXPECT_TRUE(same_gpus(grant(0, 4), now));
  EXPECT_TRUE(same_gpus(grant(0, 4, now.hosts), now));
  EXPECT_FALSE(same_gpus(grant(0, 4, {{HostId(0), 4}}), now));
  EXPECT_FALSE(same_gpus(grant(0, 3), now));
  EXPECT_FALSE(same_gpus(grant(0, 0), Placement{}));
}

TEST_F(DecisionTest, NamedHostsAreTakenThenLargeGrantsPlacedThenThoseBesideOthers) {
  const Grant named = grant(3, 1, {{HostId(0), 1}}), large = grant(2, 8), small = grant(0, 1), other = grant(1, 1),
              beside = grant(0, 9, {}, 2);
  std::vector<const Grant*> order = {&beside, &other, &small, &large, &named};
  std::sort(order.begin(), order.end(), [](const Grant* a, const Grant* b) { return placed_before(*a, *b); });
  EXPECT_THAT(order, ElementsAre(&named, &large, &small, &other, &beside));
}

TEST_F(DecisionTest, PlacesOnNamedHostsOrWhereTheLedgerDoes) {
  HostLedger ledger(view_.fleet(), nullptr);
  const auto place = [&](const Grant& one) { return place_grant(one, view_, {}, ledger); };
  EXPECT_EQ(place(grant(0, 1, {{HostId(1), 1}}))->hosts, (std::vector<HostShare>{{HostId(1), 1}}));
  EXPECT_EQ(place(grant(1, 3))->hosts, (std::vector<HostShare>{{HostId(1), 3}})) << "the fullest that has room";
  EXPECT_THAT(message_of(place(grant(1, 5)).status()),
              HasSubstr("job \"b\" is to have 5 GPUs of gpu, of which 4 are free"));
  EXPECT_THAT(message_of(place(grant(1, 1, {{HostId(1), 1}})).status()),
              HasSubstr("job \"b\" is to have 1 GPUs of host 1, which has 0 free"));
}

}  // namespace
}  // namespace scalai::policy
