// Order policies and AlloX on random small cases, against small/players.h. Seeds 1, 2, …: a case each.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "labs/validation/policies/internal/sets.h"
#include "labs/validation/policies/small/players.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/tables.h"

namespace scalai::policy::validation {
namespace {

constexpr char kOrderSet[] = "small-orders";
constexpr int kOrderCases = 200;
constexpr double kSameEnd_s = 1e-6;

absl::StatusOr<std::vector<double>> ends_of(const PolicyRun& run) {
  SCALAI_ASSIGN_OR_RETURN(const Outcome outcome, run_policy(run));
  std::vector<double> ends;
  for (const JobRecord& record : outcome.jobs) ends.push_back(record.finish_s);
  return ends;
}

template <typename Ends>
void compare(const Ends& reference, const std::vector<double>& ours, Tally& tally) {
  for (size_t m = 0; m < reference.size(); ++m) tally.add(reference[m], ours[m], kSameEnd_s);
}

// ---- rigid jobs of whole seconds -----------------------------------------------------------------------------------
absl::StatusOr<Tally> rigid(const std::string& policy, const std::vector<std::string>& set,
                            const std::function<std::vector<int>(const std::vector<small::RigidJob>&, int)>& play) {
  Tally tally;
  for (int seed = 1; seed <= kOrderCases; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    const int gpus = static_cast<int>(random.between(1, 6));
    std::vector<small::RigidJob> jobs;
    Workload workload;
    for (int64_t k = random.between(2, 8), submit = 0; k > 0; --k) {
      submit += random.below(30);
      jobs.push_back({static_cast<int>(submit), static_cast<int>(random.between(1, gpus)),
                      static_cast<int>(random.between(1, 90)), static_cast<int>(1 + jobs.size() % 3)});
      Job job;
      job.name = fmt::format("{}", jobs.size());
      job.submit_s = static_cast<double>(submit);
      job.gpus = job.min_gpus = job.max_gpus = jobs.back().gpus;
      job.work = job.duration_s = jobs.back().seconds;
      job.weight = jobs.back().weight;
      workload.jobs.push_back(job);
    }
    const Fleet fleet = fleet_of({{"gpu", gpus}}, 1);
    const std::unique_ptr<Throughput> throughput = duration_throughput(trace::Beyond::kRefuse);
    SCALAI_ASSIGN_OR_RETURN(
        const std::vector<double> ours,
        ends_of(
            {.policy = policy, .set = set, .workload = &workload, .fleet = &fleet, .throughput = throughput.get()}));
    compare(play(jobs, gpus), ours, tally);
  }
  return tally;
}

// ---- elastic jobs with diminishing returns -------------------------------------------------------------------------
absl::StatusOr<Tally> elastic(
    const std::string& policy,
    const std::function<std::vector<double>(const std::vector<small::ElasticJob>&, int)>& play) {
  Tally tally;
  for (int seed = 1; seed <= kOrderCases; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    const int gpus = static_cast<int>(random.between(2, 8));
    std::vector<small::ElasticJob> jobs;
    Workload workload;
    RatesByJob::Rates rates;
    double submit_s = 0;
    for (int64_t k = random.between(2, 6); k > 0; --k) {
      submit_s += random.uniform() * 20000;
      small::ElasticJob one{.submit_s = submit_s, .work = 1000 + random.uniform() * 60000, .per_s = {}};
      const double exponent = 0.4 + 0.6 * random.uniform();
      const int64_t most = random.between(1, 8);
      for (int64_t n = 1; n <= most; ++n) one.per_s.push_back(std::pow(static_cast<double>(n), exponent));
      Job job;
      job.name = fmt::format("{}", jobs.size());
      job.batch = static_cast<int64_t>(jobs.size());
      job.submit_s = submit_s;
      job.max_gpus = static_cast<int>(most);
      job.work = one.work;
      rates.push_back({one.per_s});
      workload.jobs.push_back(job);
      jobs.push_back(std::move(one));
    }
    const Fleet fleet = fleet_of({{"gpu", gpus}}, 1);
    const RatesByJob throughput(std::move(rates));
    SCALAI_ASSIGN_OR_RETURN(
        const std::vector<double> ours,
        ends_of({.policy = policy, .workload = &workload, .fleet = &fleet, .throughput = &throughput}));
    compare(play(jobs, gpus), ours, tally);
  }
  return tally;
}

// ---- jobs of one GPU on GPUs that differ by up to 30 % --------------------------------------------------------------
// With them a queue of two is worth it on no GPU while another is free. fill=false: by AlloX a job stays where it was
// put; Gavel's rounds let a GPU that is free take it from there.
absl::StatusOr<Tally> matched() {
  Tally tally;
  for (int seed = 1; seed <= kOrderCases / 4; ++seed) {
    Random random(static_cast<uint64_t>(seed));
    const int64_t gpus = random.between(1, 3);
    std::vector<small::MatchedJob> jobs;
    Workload workload;
    RatesByJob::Rates rates;
    std::vector<std::pair<std::string, int>> types;
    for (int64_t g = 0; g < gpus; ++g) types.emplace_back(fmt::format("gpu-{}", g), 1);
    for (int64_t k = random.between(2, 6), submit = 0; k > 0; --k) {
      submit += random.below(200);
      small::MatchedJob one{.submit_s = static_cast<int>(submit), .seconds = {}};
      const int64_t base = random.between(100, 700);
      Job job;
      job.name = fmt::format("{}", jobs.size());
      job.batch = static_cast<int64_t>(jobs.size());
      job.submit_s = static_cast<double>(submit);
      for (int64_t g = 0; g < gpus; ++g) {
        one.seconds.push_back(static_cast<int>(base + random.below(base * 3 / 10)));
        job.work *= one.seconds.back();
      }
      std::vector<std::vector<double>>& by_type = rates.emplace_back();
      for (const int seconds : one.seconds) by_type.push_back({job.work / seconds});  // whole numbers
      workload.jobs.push_back(job);
      jobs.push_back(std::move(one));
    }
    const Fleet fleet = fleet_of(types, 1);
    const RatesByJob throughput(std::move(rates));
    SCALAI_ASSIGN_OR_RETURN(const std::vector<double> ours, ends_of({.policy = "allox",
                                                                     .set = {"round=1s", "reset=0s", "fill=false"},
                                                                     .workload = &workload,
                                                                     .fleet = &fleet,
                                                                     .throughput = &throughput}));
    compare(small::play_allox(jobs), ours, tally);
  }
  return tally;
}

}  // namespace

Rows small_orders(const std::string& /*data*/) {
  std::vector<ReferenceRow> rows;
  constexpr int kLease_s = 25;
  SCALAI_ASSIGN_OR_RETURN(const Tally srsf, rigid("srsf", {}, small::play_srsf));
  srsf.rows(kOrderSet, "srsf", "ends of jobs in 200 cases", "s", 1e-9, rows);
  SCALAI_ASSIGN_OR_RETURN(const Tally priority, rigid("priority", {}, small::play_priority));
  priority.rows(kOrderSet, "priority", "ends of jobs in 200 cases", "s", 1e-9, rows);
  SCALAI_ASSIGN_OR_RETURN(const Tally themis,
                          rigid("themis", {fmt::format("lease={}s", kLease_s)},
                                [](const auto& jobs, int gpus) { return small::play_themis(jobs, gpus, kLease_s); }));
  themis.rows(kOrderSet, "themis", "ends of jobs in 200 cases", "s", 1e-9, rows);
  SCALAI_ASSIGN_OR_RETURN(const Tally afs_l, elastic("afs-l", small::play_afs_l));
  afs_l.rows(kOrderSet, "afs-l", "ends of jobs in 200 cases", "s", 1e-9, rows);
  SCALAI_ASSIGN_OR_RETURN(const Tally afs_p, elastic("afs-p", [](const auto& jobs, int gpus) {
                            return small::play_afs_p(jobs, gpus, 7200);
                          }));
  afs_p.rows(kOrderSet, "afs-p", "ends of jobs in 200 cases", "s", 1e-9, rows);
  SCALAI_ASSIGN_OR_RETURN(const Tally allox, matched());
  allox.rows(kOrderSet, "allox", "ends of jobs in 50 cases", "s", 1e-9, rows);
  return rows;
}

}  // namespace scalai::policy::validation
