// Planned changes on the shared fabric, through the engine of many jobs; and against the simulator of single scenarios.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/jobs/change_fabric.h"
#include "sim/jobs/engine.h"
#include "sim/jobs/planned/change_plan.h"
#include "sim/jobs/planned/model_throughput.h"
#include "sim/jobs/planned/planned.h"
#include "sim/jobs/planned/testing/support.h"
#include "sim/testing/simulation.h"

namespace scalai::sim {
namespace {

using jobs::Configuration;
using jobs::testing::Machine;
using jobs::testing::World;
using policy::Job;
using policy::JobId;

jobs::ChangeStrategy planned_strategy(const scenario::Strategy& given) {
  return {.planner = given.planner,
          .placement = given.placement,
          .from_checkpoint = given.from_checkpoint,
          .costs = given.costs};
}

// ---- against `scalai sim` -------------------------------------------------------------------------------------------

// Four hosts of four GPUs with NICs of 2.5 GB/s, two to a leaf, half the way out of it; gpt3-xl.
constexpr const char* kScenario = R"(
  schema_version: 1
  name: "one change"
  until: "3000s"
  cluster {{
    name: "four"
    hosts {{ count: 4 gpus: 4 gpu: "a100-80g" nics: 2 nic: "2.5GB/s" pcie: "20GB/s" gpu_link: "200GB/s"
            store_ingest: "3GB/s" store_serve: "4GB/s" }}
    fabric {{ kind: LEAF_SPINE leaf_hosts: 2 oversubscription: 2 }}
    storage {{ read: "5GB/s" write: "5GB/s" }}
  }}
  jobs {{
    name: "job" model: "gpt3-xl" precision: "fp16" global_batch: 64 gpus: {} checkpoint {{ every_steps: 1000000 }}
    configs {{ layout: "{}" step_time: "1s" }}
    configs {{ layout: "{}" step_time: "1s" }}
  }}
  events {{ at: "100s" resize {{ gpus: {} }} }}
)";

struct Resized {
  std::string from, to;
};

// Both sides: the same layouts on the same GPUs, the same strategy. Transfers and the whole change, but for the step
// that `scalai sim` lets end.
void expect_as_simulated(const Resized& resized, const std::string& name) {
  SCOPED_TRACE(fmt::format("{}: {} to {}", name, resized.from, resized.to));
  const auto from = collection::parse_layout(resized.from).value(), to = collection::parse_layout(resized.to).value();
  const scenario::Scenario scenario =
      control::testing::scenario_of(fmt::format(kScenario, from.world(), resized.from, resized.to, to.world())).value();
  const scenario::Strategy strategy = scenario::find_strategy(name, {}).value();
  const control::RunReport report = testing::simulate(scenario, strategy);
  ASSERT_EQ(report.jobs.front().reconfigurations.size(), 1U);
  const control::ReconfigurationRecord& record = report.jobs.front().reconfigurations.front();
  ASSERT_TRUE(record.completed);

  const jobs::JobModel model = jobs::job_model({.model = "gpt3-xl", .global_batch = 64, .precision = "fp16"}).value();
  const Configuration target{.model = &model, .config = to, .training = model.training};
  jobs::HeldState held{.model = &model, .config = from, .devices = {}};
  for (int d = 0; d < from.world(); ++d) held.devices.emplace_back(d);
  std::vector<DeviceId> devices;
  for (int d = 0; d < to.world(); ++d) devices.emplace_back(d);
  jobs::ChangePlanner planner(scenario.cluster, planned_strategy(strategy));
  const auto source =
      strategy.from_checkpoint ? jobs::ChangePlanner::Source::kStorage : jobs::ChangePlanner::Source::kDevices;
  const auto planned =
      planner.plan({.from = &held, .lost = {}, .to = &target, .devices = devices, .source = source}).value();
  EXPECT_EQ(planned.shape->bytes, record.plan->bytes());
  const auto fabric = make_change_fabric(scenario.cluster);
  double transfer_s = 0, total_s = 0;
  for (const jobs::ChangeStage& stage : planned.shape->stages) {
    const double stage_s = stage.wait_s + (stage.flows == nullptr ? 0 : fabric->alone_s(stage.flows, planned.hosts));
    total_s += stage_s;
    if (stage.is_transfer) transfer_s += stage_s;
  }
  EXPECT_NEAR(transfer_s, record.phases.transfer, 1e-6 * record.phases.transfer);
  const double stage_s = strategy.staged() ? record.phases.stop : 0;  // it ends at a whole second, with a step
  EXPECT_NEAR(total_s, record.phases.total() - record.phases.stop + stage_s, 1e-6 * total_s);
}

TEST(PlannedChange, TakesWhatTheSimulatorSays) {
  for (const std::string strategy :
       {"reshard", "tenplex", "central", "dp-only", "full-migration", "checkpoint-restart"}) {
    for (const Resized& resized :
         {Resized{"tp4,dp2", "tp4,dp4"}, Resized{"tp4,dp4", "tp4,dp2"}, Resized{"tp4,pp2", "tp4,pp2,dp2"},
          Resized{"tp2,pp2,dp2", "tp4,pp4"}, Resized{"tp4,dp2,zero1", "tp4,dp4,zero1"}}) {
      if (strategy == "dp-only" && resized.to == "tp4,pp4") continue;  // it would wait
      expect_as_simulated(resized, strategy);
    }
  }
}

// ---- one job's change slows another down ----------------------------------------------------------------------------

// Two jobs of two hosts' halves on hosts with one NIC: the second one is given its GPUs by this list.
class Listed : public policy::Policy {
 public:
  struct Move {
    double at_s = 0;
    policy::Grant grant;
  };
  explicit Listed(std::vector<Move> moves) : moves_(std::move(moves)) {}
  policy::PolicyTraits traits() const override { return {.preemptive = true, .elastic = true}; }
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event>) override {
    policy::Decision decision;
    while (next_ < moves_.size() && moves_[next_].at_s <= view.now_s())
      decision.grants.push_back(moves_[next_++].grant);
    if (next_ < moves_.size()) decision.wake_at_s = moves_[next_].at_s;
    return decision;
  }

 private:
  std::vector<Move> moves_;
  size_t next_ = 0;
};

policy::Grant grant(int job, std::vector<policy::HostShare> hosts) {
  int gpus = 0;
  for (const policy::HostShare& share : hosts) gpus += share.gpus;
  return {.job = policy::JobId(job),
          .type = policy::GpuType(0),
          .gpus = gpus,
          .hosts = std::move(hosts),
          .beside = policy::JobId()};
}

struct TwoJobs {
  double first_finish_s = 0;
  double second_change_gpu_s = 0;
  jobs::PlannedCounts counts;
};

// Both train gpt3-2.7b over hosts 0 and 1. At 50 s the second one moves to hosts 2 and 3, so its state leaves through
// the NICs that the first one trains over.
TwoJobs run_two_jobs(bool second_moves, bool shared) {
  World world(Machine{.hosts = 4, .gpus = 8, .nics = 1, .nic_bytes_per_s = 3e9}, {.pins = "tp4"});
  world.add("gpt3-2.7b", 64, 300);
  world.add("gpt3-2.7b", 64, 1000);
  for (policy::Job& job : world.workload.jobs) job.min_gpus = 1, job.max_gpus = 16;
  const auto throughput = jobs::make_model_throughput(*world.configurations);
  std::unique_ptr<jobs::Fabric> fabric =
      shared ? make_change_fabric(world.cluster) : jobs::make_unshared_fabric(world.cluster);
  jobs::PlannedOptions options;
  const auto changes = jobs::make_planned_changes(*world.configurations, *fabric, options);
  std::vector<Listed::Move> moves = {{0, grant(0, {{HostId(0), 4}, {HostId(1), 4}})},
                                     {0, grant(1, {{HostId(0), 4}, {HostId(1), 4}})}};
  if (second_moves) moves.push_back({50, grant(1, {{HostId(2), 4}, {HostId(3), 4}})});
  Listed policy(std::move(moves));
  const auto outcome = jobs::run({.workload = &world.workload,
                                  .fleet = &world.fleet,
                                  .throughput = throughput.get(),
                                  .policy = &policy,
                                  .changes = changes.get()});
  SCALAI_CHECK(outcome.ok(), message_of(outcome.status()));
  return {.first_finish_s = outcome->jobs[0].finish_s,
          .second_change_gpu_s = outcome->jobs[1].changing_gpu_s,
          .counts = changes->counts()};
}

TEST(PlannedChanges, OneJobsChangeSlowsAnotherDown) {
  const TwoJobs still = run_two_jobs(false, true), moving = run_two_jobs(true, true),
                unshared = run_two_jobs(true, false);
  EXPECT_GT(moving.counts.bytes.cross_host, 30'000'000'000);
  // The first job finishes later because the second one's state went over its NICs …
  EXPECT_GT(moving.first_finish_s, still.first_finish_s + 0.5);
  EXPECT_EQ(unshared.first_finish_s, still.first_finish_s);
  // … and the second one's change takes longer than on idle NICs.
  EXPECT_GT(moving.second_change_gpu_s, unshared.second_change_gpu_s * 1.01);
}

TEST(PlannedChanges, TheSameRunTwiceIsTheSame) {
  const TwoJobs one = run_two_jobs(true, true), other = run_two_jobs(true, true);
  EXPECT_EQ(one.first_finish_s, other.first_finish_s);
  EXPECT_EQ(one.second_change_gpu_s, other.second_change_gpu_s);
  EXPECT_EQ(one.counts.bytes, other.counts.bytes);
}

// ---- a large job ----------------------------------------------------------------------------------------------------

// All GPUs that are up, up to so many.
class Everything : public policy::Policy {
 public:
  explicit Everything(int most) : most_(most) {}
  policy::PolicyTraits traits() const override { return {.preemptive = true, .elastic = true}; }
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event>) override {
    policy::Decision decision;
    const int gpus = std::min(most_, view.capacity(policy::GpuType(0)));
    for (const policy::JobId job : view.active()) {
      if (view.progress(job).placement.gpus() == gpus) continue;
      decision.grants.push_back(
          {.job = job, .type = policy::GpuType(0), .gpus = gpus, .hosts = {}, .beside = policy::JobId()});
    }
    return decision;
  }

 private:
  int most_;
};

// llama3-8b in 16 replicas on as many hosts, with two spare ones: whichever host fails, another one takes its place,
// and all of these changes are one shape.
TEST(PlannedChanges, FailuresInSymmetricPlacesArePlannedOnce) {
  World world(Machine{.hosts = 18, .gpus = 8, .nics = 8, .nic_bytes_per_s = 50e9, .gpu = "h100-80g"},
              {.pins = "tp8,pp1,cp1,dp16,zero0"});
  world.add("llama3-8b", 128, 1e9);
  world.workload.jobs[0].gpus = world.workload.jobs[0].max_gpus = 128;
  const auto throughput = jobs::make_model_throughput(*world.configurations);
  const auto fabric = make_change_fabric(world.cluster);
  const auto changes = jobs::make_planned_changes(*world.configurations, *fabric, {});
  policy::Availability availability;
  for (int k = 0; k < 40; ++k) {
    const HostId host(k * 5 % 18);
    availability.events.push_back(
        {.at_s = 1000.0 + 500 * k, .kind = policy::FleetEvent::Kind::kFailed, .hosts = {host}});
    availability.events.push_back({.at_s = 1300.0 + 500 * k, .kind = policy::FleetEvent::Kind::kUp, .hosts = {host}});
  }
  Everything policy(128);
  const auto outcome = jobs::run({.workload = &world.workload,
                                  .fleet = &world.fleet,
                                  .availability = &availability,
                                  .throughput = throughput.get(),
                                  .policy = &policy,
                                  .changes = changes.get(),
                                  .options = {.until_s = 30000}});
  ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
  const jobs::PlannedCounts& counts = changes->counts();
  EXPECT_GT(counts.from_survivors, 30);
  EXPECT_EQ(counts.from_survivors, outcome->jobs[0].losses);
  EXPECT_EQ(counts.plans, 1);
  EXPECT_EQ(counts.plan_hits, counts.from_survivors - 1);
  EXPECT_EQ(fabric->counts().alone_solved, 1);
}

}  // namespace
}  // namespace scalai::sim
