// What holds for every policy in the catalogue, whatever the workload and whatever happens to hosts: never more GPUs
// than there are, never a job on a host that is down, work conserved where the policy promises it, every job ends when
// it can, same seed same outcome.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/estimates.h"
#include "ptc/run/policy/policies/quotas.h"
#include "ptc/run/policy/testing/support.h"
#include "sim/jobs/engine.h"
#include "sim/jobs/testing/checker.h"

namespace scalai::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A small cluster, its jobs, and what becomes of its hosts. All hosts are up at the end, so that every job can finish.
struct World {
  Fleet fleet;
  Workload workload;
  Availability availability;
  bool shares = false;
  double change_s = 0;
  jobs::Checkpoints checkpoints;
  double log_normal = 0;  // how far estimates of run times are off
  std::optional<Quotas> quotas;
};

int pick(Random& random, std::initializer_list<int> values) {
  return values.begin()[random.below(static_cast<int64_t>(values.size()))];
}

Fleet random_fleet(Random& random) {
  Fleet fleet;
  const int types = pick(random, {1, 1, 2, 3});
  for (int t = 0; t < types; ++t) {
    fleet.types.push_back(TypeSpec{.name = fmt::format("type{}", t), .price_per_gpu_hour = 1.0 + t});
    const int gpus = pick(random, {1, 4, 8});
    const int hosts = gpus == 1 ? pick(random, {4, 8, 11}) : pick(random, {1, 2, 3});
    fleet.hosts.insert(fleet.hosts.end(), static_cast<size_t>(hosts), HostSpec{.type = GpuType(t), .gpus = gpus});
  }
  return fleet;
}

// `single`: all of one GPU, for some policies know no others.
Workload random_workload(Random& random, bool single) {
  Workload workload;
  double at_s = 0;
  const int64_t jobs = random.between(3, 14);
  for (int64_t k = 0; k < jobs; ++k) {
    if (random.below(4) > 0) at_s += static_cast<double>(random.below(2000));
    const double seconds = static_cast<double>(random.between(1, 40)) * (random.below(2) == 0 ? 10 : 100);
    Job job =
        testing::rigid_job(fmt::format("job{}", k), at_s, single ? 1 : pick(random, {1, 1, 1, 2, 3, 4, 8}), seconds);
    job.type = fmt::format("model{}", random.below(3));
    job.weight = static_cast<double>(random.between(1, 3));
    job.entity = fmt::format("team{}", random.below(2));
    job.batch = 128;
    if (!single && random.below(2) == 0) {
      job.min_gpus = 1;
      job.max_gpus = job.gpus * 2;
    }
    if (random.below(2) == 0) job.deadline_s = at_s + seconds * static_cast<double>(random.between(1, 5));
    workload.jobs.push_back(std::move(job));
  }
  return workload;
}

Availability random_availability(Random& random, const Fleet& fleet) {
  Availability availability;
  const int hosts = static_cast<int>(fleet.hosts.size());
  for (int k = 0; k < hosts; ++k) availability.up.push_back(random.below(8) > 0 ? 1 : 0);
  double at_s = 0;
  const int64_t events = random.below(12);
  using Kind = FleetEvent::Kind;
  for (int64_t k = 0; k < events; ++k) {
    at_s += static_cast<double>(random.below(900));
    const HostId host(random.below(hosts));
    const int kind = pick(random, {0, 1, 2, 3});
    if (kind == 0) availability.events.push_back({.at_s = at_s, .kind = Kind::kUp, .hosts = {host}});
    if (kind == 1) availability.events.push_back({.at_s = at_s, .kind = Kind::kFailed, .hosts = {host}});
    if (kind == 2) {
      availability.events.push_back({.at_s = at_s, .kind = Kind::kNotice, .hosts = {host}, .until_s = at_s + 120});
      at_s += 120;
      availability.events.push_back({.at_s = at_s, .kind = Kind::kTaken, .hosts = {host}});
    }
    if (kind == 3) {
      availability.events.push_back({.at_s = at_s,
                                     .kind = Kind::kPrice,
                                     .type = fleet.hosts[0].type,
                                     .price = static_cast<double>(random.below(9))});
    }
  }
  FleetEvent all{.at_s = at_s + 500, .kind = Kind::kUp};
  for (int k = 0; k < hosts; ++k) all.hosts.push_back(HostId(k));
  availability.events.push_back(all);
  return availability;
}

// The two teams share each GPU type: some GPUs for each, the rest is for nobody.
Quotas random_quotas(Random& random, const World& world) {
  Quotas quotas{.clusters = {{"team0", {}}, {"team1", {}}}, .cluster_of = {}, .borrow = random.below(2) == 0};
  for (size_t t = 0; t < world.fleet.types.size(); ++t) {
    const int gpus = world.fleet.gpus(GpuType(static_cast<int64_t>(t)));
    const int first = static_cast<int>(random.between(1, gpus - 1));
    quotas.clusters[0].quota.push_back(first);
    quotas.clusters[1].quota.push_back(static_cast<int>(random.between(1, gpus - first)));
  }
  for (const Job& job : world.workload.jobs) quotas.cluster_of.push_back(job.entity == "team0" ? 0 : 1);
  return quotas;
}

World random_world(uint64_t seed) {
  Random random(seed);
  World world;
  world.fleet = random_fleet(random);
  world.workload = random_workload(random, seed % 4 == 0);
  if (random.below(3) > 0) world.availability = random_availability(random, world.fleet);
  world.shares = random.below(2) == 0;
  world.change_s = pick(random, {0, 0, 30});
  if (random.below(2) == 0) world.checkpoints = {.every_s = 100, .write_s = static_cast<double>(random.below(2) * 5)};
  if (random.below(3) == 0) world.log_normal = pick(random, {1, 3});
  if (random.below(3) == 0) world.quotas = random_quotas(random, world);
  return world;
}

std::unique_ptr<Throughput> throughput_of(const World& world) {
  return std::make_unique<testing::PlainThroughput>(std::vector<double>{1, 2, 0.5}, world.shares ? 0.7 : 0);
}

// A policy and parameters to try it with.
struct Variant {
  std::string name;
  std::vector<std::string> set;
};

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (const PolicyInfo& info : policies()) {
    list.push_back({info.name, {}});
    for (const ParameterInfo& parameter : info.parameters) {  // switches and words: each the other way
      if (parameter.unit == "flag") {
        const bool on = parameter.default_value == "true";
        list.push_back({info.name, {parameter.name + (on ? "=false" : "=true")}});
      }
      for (size_t from = 0; parameter.unit.find('|') != std::string::npos && from < parameter.unit.size();) {
        const size_t to = std::min(parameter.unit.find('|', from), parameter.unit.size());
        const std::string word = parameter.unit.substr(from, to - from);
        if (word != parameter.default_value) list.push_back({info.name, {parameter.name + "=" + word}});
        from = to + 1;
      }
    }
  }
  for (Variant& variant : list) {  // small clusters need no long search
    if (variant.name != "pollux") continue;
    variant.set.insert(variant.set.end(), {"population=16", "generations=8"});
  }
  list.push_back({"fifo-backfill", {"packing=1.3"}});
  list.push_back({"tiresias", {"threshold=0.05", "threshold-2=0.2", "promote=0.5"}});
  return list;
}

std::string bytes_of(const Outcome& outcome) {
  std::string text =
      fmt::format("{} {:a} {:a} {:a}\n", outcome.events, outcome.end_s, outcome.cost, outcome.training_gpu_s);
  for (const JobRecord& r : outcome.jobs) {
    text +=
        fmt::format("{} {} {:a} {:a} {:a} {:a} {} {} {} {:a}\n", r.job.value, static_cast<int>(r.end), r.first_start_s,
                    r.finish_s, r.attained_gpu_s, r.changing_gpu_s, r.restarts, r.preemptions, r.losses, r.cost);
  }
  return text;
}

// Shares that are applied continuously: no grants to wrap, and nobody has GPUs of its own.
bool gives_shares(const Variant& variant) { return variant.set == std::vector<std::string>{"ideal=true"}; }

// Whether quotas go with a policy: it says how many GPUs, not which.
bool grants_numbers(const std::string& name) {
  for (const PolicyInfo& info : policies()) {
    if (info.name == name) return info.family == "order" || info.family == "shares";
  }
  return false;
}

class EveryPolicy : public ::testing::TestWithParam<size_t> {
 protected:
  absl::StatusOr<Outcome> play(const World& world, jobs::testing::PlacementLog* log, PolicyTraits* traits) {
    const Variant variant = variants()[GetParam()];
    SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<Policy> policy, make_policy(variant.name, variant.set, 7));
    if (world.quotas && !gives_shares(variant) && grants_numbers(variant.name)) {
      std::vector<std::unique_ptr<Policy>> both;
      both.push_back(std::move(policy));
      both.push_back(make_policy(variant.name, variant.set, 7).value());
      policy = with_quotas(*world.quotas, std::move(both));
    }
    *traits = policy->traits();
    if (world.log_normal > 0 && !gives_shares(variant)) {
      const auto factors = estimate_factors({.log_normal = world.log_normal}, 7, world.workload.jobs.size());
      policy = with_estimates(std::move(policy), factors);
    }
    const std::unique_ptr<Throughput> throughput = throughput_of(world);
    const std::unique_ptr<jobs::ChangeModel> changes =
        jobs::make_constant_changes({.change_s = world.change_s, .start_s = world.change_s / 2});
    jobs::Setup setup{.workload = &world.workload,
                      .fleet = &world.fleet,
                      .availability = &world.availability,
                      .throughput = throughput.get(),
                      .policy = policy.get(),
                      .changes = changes.get(),
                      .options = {.checkpoints = world.checkpoints},
                      .watcher = {}};
    log->watch(&setup.watcher);
    return run(setup);
  }
};

void check_ends(const World& world, const Outcome& outcome) {
  for (const JobRecord& record : outcome.jobs) {
    const Job& job = world.workload.jobs[static_cast<size_t>(record.job.value)];
    EXPECT_NE(record.end, JobEnd::kUnfinished) << job.name << " of " << job.gpus << " GPUs";
    if (record.end != JobEnd::kFinished) continue;
    EXPECT_EQ(record.work_done, job.work) << job.name;
    EXPECT_GE(record.first_start_s, job.submit_s) << job.name;
    EXPECT_GE(record.finish_s, record.first_start_s) << job.name;
  }
}

TEST_P(EveryPolicy, KeepsTheRules) {
  const Variant variant = variants()[GetParam()];
  int played = 0;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE(fmt::format("policy {} {}, seed {}", variant.name, fmt::join(variant.set, " "), seed));
    const World world = random_world(seed);
    jobs::testing::PlacementLog log(world.workload, world.fleet, world.availability);
    PolicyTraits traits;
    const absl::StatusOr<Outcome> outcome = play(world, &log, &traits);
    if (absl::IsInvalidArgument(outcome.status())) continue;  // it cannot serve this fleet, and says so
    ASSERT_TRUE(outcome.ok()) << message_of(outcome.status());
    ++played;
    EXPECT_THAT(log.problems(traits.work_conserving), IsEmpty());
    check_ends(world, *outcome);
    EXPECT_LE(outcome->training_gpu_s, outcome->up_gpu_s * (1 + 1e-9));
    for (const auto& [job, gpu_s] : log.gpu_seconds()) {
      if (gives_shares(variant)) break;
      EXPECT_NEAR(gpu_s, outcome->jobs[static_cast<size_t>(job.value)].attained_gpu_s, 1e-6 * (1 + gpu_s));
    }
    jobs::testing::PlacementLog log_again(world.workload, world.fleet, world.availability);
    const absl::StatusOr<Outcome> again = play(world, &log_again, &traits);
    ASSERT_TRUE(again.ok()) << message_of(again.status());
    EXPECT_EQ(bytes_of(*outcome), bytes_of(*again));
    if (HasFailure()) return;
  }
  EXPECT_GT(played, 2);
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EveryPolicy, ::testing::Range(size_t{0}, variants().size()),
                         [](const ::testing::TestParamInfo<size_t>& param) {
                           const Variant variant = variants()[param.param];
                           std::string name = variant.name;
                           for (const std::string& set : variant.set) name += "_" + set;
                           for (char& c : name) {
                             const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                             if (!plain) c = '_';
                           }
                           return name;
                         });

// The checker itself: it sees what it is there for.
TEST(PlacementLog, FindsEachKindOfProblem) {
  const Fleet fleet = testing::plain_fleet(2, 2);
  Workload workload;
  for (int k = 0; k < 3; ++k) workload.jobs.push_back(testing::rigid_job(fmt::format("job{}", k), 0, 2, 100));
  Availability availability;
  availability.events.push_back({.at_s = 50, .kind = FleetEvent::Kind::kFailed, .hosts = {HostId(1)}});
  const auto on = [](int host) { return Placement{.type = GpuType(0), .hosts = {{HostId(host), 2}}}; };
  jobs::testing::PlacementLog log(workload, fleet, availability);
  jobs::Watcher watcher;
  log.watch(&watcher);
  watcher.placed(0, JobId(0), on(0), JobId());
  watcher.placed(10, JobId(1), on(0), JobId());
  watcher.placed(20, JobId(1), on(1), JobId());
  watcher.placed(60, JobId(2), on(1), JobId(1));
  EXPECT_THAT(log.problems(true),
              ElementsAre("at 0 s: job 1 waits for 2 GPUs, 2 are free", "at 0 s: job 2 waits for 2 GPUs, 2 are free",
                          "at 10 s: 4 GPUs of host 0 in use", "at 10 s: job 2 waits for 2 GPUs, 2 are free",
                          "at 50 s: job 1 on host 1, which is down", "at 60 s: job 1 on host 1, which is down"));
}

}  // namespace
}  // namespace scalai::policy
