// Hosts that fail, are taken or come back under a job: what it loses, and what a change model is told.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "ptc/base/status.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"

namespace scalai::jobs {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::Pair;

// Gives every waiting job what it asks for if it fits.
class Eager : public policy::Policy {
 public:
  policy::PolicyTraits traits() const override { return {}; }
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event>) override {
    policy::Decision decision;
    int free = view.capacity(policy::GpuType(0));
    for (const policy::JobId id : view.active()) {
      for (const policy::HostShare& share : view.progress(id).placement.hosts)
        free -= view.capacity(share.host) > 0 ? share.gpus : 0;
    }
    for (const policy::JobId id : view.active()) {
      if (!view.progress(id).placement.empty() || view.job(id).gpus > free) continue;
      free -= view.job(id).gpus;
      decision.grants.push_back({.job = id, .type = policy::GpuType(0), .gpus = view.job(id).gpus});
    }
    return decision;
  }
};

// Writes down what it is told; changes take 10 s, and those after a loss redo 5 iterations.
class Noting : public ChangeModel {
 public:
  absl::StatusOr<double> begin(const Change& change) override {
    constexpr const char* kCauses[] = {"start", "resume", "policy", "lost", "taken"};
    std::string line =
        fmt::format("{} {} {}", change.now_s, change.job.value, kCauses[static_cast<size_t>(change.cause)]);
    for (const HostId host : change.lost) line += fmt::format(" -{}", host.value);
    notes.push_back(line + fmt::format(" r{} w{}", change.restarts, change.work_done));
    const absl::StatusOr<double> ignored = timed_->begin(change);
    return change.cause == ChangeCause::kLost ? 5.0 : 0.0;
  }
  void cancel(policy::JobId job, double now_s) override {
    notes.push_back(fmt::format("{} {} cancelled", now_s, job.value));
    timed_->cancel(job, now_s);
  }
  double next_end_s() const override { return timed_->next_end_s(); }
  std::vector<ChangeEnd> advance(double to_s) override { return timed_->advance(to_s); }
  double expected_s(const policy::Job&, int, int) const override { return 10; }
  std::string description() const override { return "noting"; }

  // Traffic of the second change on slows the training ones to half.
  uint64_t step_rate_version() const override { return step_rate_version_; }
  bool slows_training() const override { return true; }
  double step_rate(policy::JobId) const override { return step_rate_; }
  void set_step_rate(double step_rate) {
    step_rate_ = step_rate;
    ++step_rate_version_;
  }
  void training(policy::JobId job, const policy::Job&, const policy::Placement&, double now_s) override {
    notes.push_back(fmt::format("{} {} trains", now_s, job.value));
  }
  void idle(policy::JobId job, double now_s) override { notes.push_back(fmt::format("{} {} idle", now_s, job.value)); }

  std::vector<std::string> notes;

 private:
  std::unique_ptr<ChangeModel> timed_ = make_constant_changes({.change_s = 10, .start_s = 10});
  double step_rate_ = 1;
  uint64_t step_rate_version_ = 0;
};

struct Bench {
  policy::Fleet fleet = policy::testing::plain_fleet(2, 2);
  policy::Workload workload{.name = "", .jobs = {policy::testing::rigid_job("a", 0, 4, 100)}};
  policy::Availability availability;
  policy::testing::PlainThroughput throughput;
  Eager policy;
  Noting noting;
  Options options;

  policy::Outcome play(ChangeModel* changes) {
    absl::StatusOr<policy::Outcome> outcome = run(jobs::Setup{.workload = &workload,
                                                              .fleet = &fleet,
                                                              .availability = &availability,
                                                              .throughput = &throughput,
                                                              .policy = &policy,
                                                              .changes = changes,
                                                              .options = options,
                                                              .watcher = {}});
    EXPECT_TRUE(outcome.ok()) << message_of(outcome.status());
    return outcome.ok() ? *std::move(outcome) : policy::Outcome{};
  }
  void happens(double at_s, policy::FleetEvent::Kind kind, int host) {
    availability.events.push_back({.at_s = at_s, .kind = kind, .hosts = {HostId(host)}});
  }
};

using Kind = policy::FleetEvent::Kind;

TEST(Failures, AChangeModelIsToldWhatIsGone) {
  Bench bench;
  bench.happens(30, Kind::kFailed, 1);
  bench.happens(50, Kind::kUp, 1);
  bench.happens(55, Kind::kNotice, 0);
  bench.happens(55, Kind::kTaken, 0);
  bench.happens(60, Kind::kUp, 0);
  const policy::Outcome outcome = bench.play(&bench.noting);
  EXPECT_THAT(bench.noting.notes, ElementsAre("0 0 start r0 w0", "10 0 trains", "30 0 idle", "50 0 lost -1 r0 w20",
                                              "55 0 cancelled", "60 0 taken -0 r1 w15", "70 0 trains", "155 0 idle"));
  EXPECT_EQ(outcome.jobs[0].losses, 2);
  EXPECT_EQ(outcome.jobs[0].restarts, 2);
  EXPECT_THAT(outcome.jobs[0].lost_gpu_s, DoubleEq(5 * 4));
  EXPECT_THAT(outcome.lost_gpu_s, DoubleEq(5 * 4));
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(70 + 85));
}

// A checkpoint each 20 s of training, 5 s to write: at 95 s, 65 s after the change: two are complete and 15 s are gone.
TEST(Failures, WorkSinceTheLastCheckpointIsDoneAgain) {
  Bench bench;
  bench.options.checkpoints = {.every_s = 20, .write_s = 5};
  bench.happens(65, Kind::kFailed, 0);
  bench.happens(65, Kind::kUp, 0);
  const std::unique_ptr<ChangeModel> free = make_constant_changes({});
  const policy::Outcome outcome = bench.play(free.get());
  // 65 s are 20 + 5 + 20 + 5 + 15; from 40 on 60 s of training and two checkpoints
  EXPECT_THAT(outcome.jobs[0].lost_gpu_s, DoubleEq(15 * 4));
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(65 + 60 + 2 * 5));
}

TEST(Failures, AnUnfinishedCheckpointDoesNotCount) {
  Bench bench;
  bench.options.checkpoints = {.every_s = 20, .write_s = 5};
  bench.happens(22, Kind::kFailed, 0);
  bench.happens(22, Kind::kUp, 0);
  const std::unique_ptr<ChangeModel> free = make_constant_changes({});
  EXPECT_THAT(bench.play(free.get()).jobs[0].lost_gpu_s, DoubleEq(20 * 4));
}

TEST(Failures, AJobThatFinishesAtThatVeryInstantIsDone) {
  Bench bench;
  bench.happens(100, Kind::kFailed, 0);
  const std::unique_ptr<ChangeModel> free = make_constant_changes({});
  const policy::Outcome outcome = bench.play(free.get());
  EXPECT_EQ(outcome.jobs[0].end, policy::JobEnd::kFinished);
  EXPECT_EQ(outcome.jobs[0].losses, 0);
}

TEST(Failures, HostsThatNeverComeMakeAJobTooLarge) {
  Bench bench;
  bench.availability.up = {1, 0};
  const std::unique_ptr<ChangeModel> free = make_constant_changes({});
  EXPECT_EQ(bench.play(free.get()).jobs[0].end, policy::JobEnd::kTooLarge);
  bench.happens(50, Kind::kUp, 1);
  const policy::Outcome outcome = bench.play(free.get());
  EXPECT_EQ(outcome.jobs[0].finish_s, 150);
  EXPECT_EQ(outcome.up_gpu_s, 50 * 2 + 100 * 4);
}

// The largest is placed first; the two on the second host lose theirs, the one on the first goes on.
TEST(Failures, OnlyJobsOnTheHostAreHit) {
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 1, 100), policy::testing::rigid_job("b", 0, 1, 100),
                         policy::testing::rigid_job("c", 0, 2, 100)};
  bench.happens(40, Kind::kFailed, 1);
  bench.happens(50, Kind::kUp, 1);
  const std::unique_ptr<ChangeModel> free = make_constant_changes({});
  const policy::Outcome outcome = bench.play(free.get());
  std::map<double, int> losses;
  for (const policy::JobRecord& record : outcome.jobs) losses[record.finish_s] += record.losses;
  EXPECT_THAT(losses, ElementsAre(Pair(100, 0), Pair(110, 2)));
}

// Host 0 comes back and fails again while job a is on its way from there to host 1: 5 iterations are lost with the
// first failure and 7 with the second, of which the engine tells nobody but the model.
TEST(Failures, AChangeUnderWayLosesWhatAHostStillHeld) {
  class Sourced : public Noting {
   public:
    absl::StatusOr<std::vector<LostWork>> host_lost(HostId host, ChangeCause cause, double now_s) override {
      lost.push_back(fmt::format("{} {} {}", now_s, host.value, cause == ChangeCause::kTaken));
      if (now_s < 35) return std::vector<LostWork>{};
      return std::vector<LostWork>{{.job = policy::JobId(0), .iterations = 7}};
    }
    std::vector<std::string> lost;
  } sourced;
  Bench bench;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 2, 100)};
  bench.happens(30, Kind::kFailed, 0);
  bench.happens(31, Kind::kFailed, 0);  // is down: no news
  bench.happens(33, Kind::kUp, 0);
  bench.happens(35, Kind::kTaken, 0);
  const policy::Outcome outcome = bench.play(&sourced);
  EXPECT_THAT(sourced.lost, ElementsAre("30 0 false", "35 0 true"));
  EXPECT_THAT(outcome.jobs[0].lost_gpu_s, DoubleEq((5 + 7) * 2));
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(40 + 80 + 5 + 7));
  EXPECT_EQ(outcome.jobs[0].losses, 1);
}

// While the fabric is busy training is slower; the engine asks again when told so.
TEST(Failures, ThePaceOfTrainingMayChange) {
  Bench bench;
  class Slowing : public Noting {
   public:
    absl::StatusOr<double> begin(const Change& change) override {
      if (change.job.value == 1) set_step_rate(0.5);
      return Noting::begin(change);
    }
    std::vector<ChangeEnd> advance(double to_s) override {
      std::vector<ChangeEnd> ends = Noting::advance(to_s);
      for (const ChangeEnd& end : ends) {
        if (end.job.value == 1) set_step_rate(1);
      }
      return ends;
    }
  } slowing;
  bench.workload.jobs = {policy::testing::rigid_job("a", 0, 2, 100), policy::testing::rigid_job("b", 40, 2, 10)};
  const policy::Outcome outcome = bench.play(&slowing);
  EXPECT_THAT(outcome.jobs[0].finish_s, DoubleEq(10 + 100 + 5));  // 10 s at half the step rate
}

}  // namespace
}  // namespace scalai::jobs
