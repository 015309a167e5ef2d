// Sia and ElasticFlow on random small cases. Sia: each decision of a run is held against every assignment of
// configurations. ElasticFlow: who is admitted, against progressive filling and against every way to give out GPUs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "labs/validation/policies/internal/sets.h"
#include "labs/validation/policies/small/market_players.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy::validation {
namespace {

constexpr char kDeadlineSet[] = "small-deadlines";
constexpr double kInterval_s = 60;

// ---- Sia -----------------------------------------------------------------------------------------------------------
// Asks a policy and notes the objective (SOSP'23) of its decisions beside the best of all assignments.
class SiaWatch : public Policy {
 public:
  SiaWatch(Policy& inner, double restart_s, Tally& tally) : inner_(inner), restart_s_(restart_s), tally_(tally) {}
  PolicyTraits traits() const override { return inner_.traits(); }
  absl::Status begin(const View& view) override { return inner_.begin(view); }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    SCALAI_ASSIGN_OR_RETURN(Decision decision, inner_.decide(view, events));
    for (const JobId id : view.active()) most_[id] = std::max(most_[id], view.progress(id).placement.gpus());
    if (std::fmod(view.now_s(), kInterval_s) == 0 && view.now_s() > 0 && !view.active().empty()) judge(view, decision);
    return decision;
  }

 private:
  struct Choice {
    size_t type = 0;
    int gpus = 0;
    double cost = 0;
  };

  // Powers of two on the one host of each type, up to twice the most that the job ever had.
  std::vector<Choice> choices_of(const View& view, JobId id) const {
    const Job& job = view.job(id);
    const Progress now = view.progress(id);
    std::vector<Choice> choices;
    std::vector<double> goodput;
    for (size_t type = 0; type < view.fleet().types.size(); ++type) {
      const GpuType gpu(static_cast<int64_t>(type));
      const int most = std::max(1, std::min({2 * most_.at(id), job.max_gpus, view.capacity(gpu)}));
      for (int gpus = 1; gpus <= most; gpus *= 2) {
        choices.push_back({type, gpus, 0});
        goodput.push_back(view.throughput().rate(job, gpu, gpus, now.work_done).per_s);
      }
    }
    const double least = *std::min_element(goodput.begin(), goodput.end()), age = view.now_s() - job.submit_s;
    const double kept = age < restart_s_ ? 1 : std::max(age - now.restarts * restart_s_, 0.0) / (age + restart_s_);
    for (size_t c = 0; c < choices.size(); ++c) {
      const bool same = !now.placement.empty() && static_cast<size_t>(now.placement.type.value) == choices[c].type &&
                        now.placement.gpus() == choices[c].gpus;
      const double utility = goodput[c] / least * (now.placement.empty() || same ? 1 : kept);
      choices[c].cost = utility <= 0 ? 3000 : std::min(std::round(std::pow(utility, -0.5) * 100) / 100, 3000.0);
    }
    return choices;
  }

  void judge(const View& view, const Decision& decision) {
    std::vector<std::vector<Choice>> jobs;
    std::vector<int> free;
    double chosen = 0;
    for (size_t type = 0; type < view.fleet().types.size(); ++type)
      free.push_back(view.capacity(GpuType(static_cast<int64_t>(type))));
    for (const JobId id : view.active()) {
      jobs.push_back(choices_of(view, id));
      Placement at = view.progress(id).placement;
      size_t type = at.empty() ? 0 : static_cast<size_t>(at.type.value);
      int gpus = at.gpus();
      for (const Grant& grant : decision.grants) {
        if (grant.job == id) type = static_cast<size_t>(grant.type.value), gpus = grant.gpus;
      }
      double cost = gpus == 0 ? kPenalty : std::numeric_limits<double>::infinity();
      for (const Choice& choice : jobs.back()) {
        if (choice.type == type && choice.gpus == gpus) cost = choice.cost;
      }
      chosen += cost;
    }
    tally_.add(best(jobs, 0, free), chosen, 1e-9);
  }

  double best(const std::vector<std::vector<Choice>>& jobs, size_t job, std::vector<int>& free) const {
    if (job == jobs.size()) return 0;
    double least = kPenalty + best(jobs, job + 1, free);
    for (const Choice& choice : jobs[job]) {
      if (choice.gpus > free[choice.type]) continue;
      free[choice.type] -= choice.gpus;
      least = std::min(least, choice.cost + best(jobs, job + 1, free));
      free[choice.type] += choice.gpus;
    }
    return least;
  }

  static constexpr double kPenalty = 1.1;  // lambda, of a job without GPUs
  Policy& inner_;
  double restart_s_;
  Tally& tally_;
  std::map<JobId, int> most_;
};

absl::StatusOr<Tally> sia() {
  Tally tally;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    Random random(seed);
    const Fleet fleet = fleet_of({{"a", 4}, {"b", static_cast<int>(random.between(1, 2)) * 2}}, 4);
    Workload workload;
    RatesByJob::Rates rates;
    double submit_s = 0;
    for (int64_t k = random.between(2, 4); k > 0; --k) {
      submit_s += random.uniform() * 300;
      Job job;
      job.name = fmt::format("{}", workload.jobs.size());
      job.batch = static_cast<int64_t>(workload.jobs.size());
      job.submit_s = submit_s;
      job.max_gpus = 1 << random.below(3);
      job.work = 200 + random.uniform() * 2000;
      std::vector<std::vector<double>>& by_type = rates.emplace_back();
      for (int type = 0; type < 2; ++type) {
        const double speed = 0.3 + random.uniform() * 2, exponent = 0.3 + 0.7 * random.uniform();
        std::vector<double>& row = by_type.emplace_back();
        for (int gpus = 1; gpus <= 4; ++gpus) row.push_back(speed * std::pow(gpus, exponent));
      }
      workload.jobs.push_back(job);
    }
    const RatesByJob throughput(std::move(rates));
    PolicyRun run{.policy = "sia", .set = {}, .workload = &workload, .fleet = &fleet, .throughput = &throughput};
    run.change_s = static_cast<double>(random.below(2) * random.between(1, 50));
    const std::vector<std::string> set = {"model=oracle", "explore=false", "gap=0"};
    SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Policy> inner, make_policy("sia", set, seed));
    SiaWatch watch(*inner, run.change_s, tally);
    SCALAI_RETURN_IF_ERROR(run_policy(run, watch).status());
  }
  return tally;
}

// ---- ElasticFlow ---------------------------------------------------------------------------------------------------
struct Promises {
  int64_t cases = 0, possible = 0;   // of them the admitted jobs can all end in time
  int64_t refused = 0, rightly = 0;  // of them progressive filling finds no room beside those admitted before
  int64_t admitted = 0, kept = 0;
};

absl::StatusOr<Promises> elasticflow() {
  Promises promises;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const int gpus = 1 << random.between(1, 2);
    std::vector<small::DueJob> jobs;
    Workload workload;
    RatesByJob::Rates rates;
    for (int64_t k = random.between(2, 4); k > 0; --k) {
      small::DueJob one{
          .work = 20 + random.uniform() * 300, .slots = static_cast<int>(random.between(1, 4)), .per_slot = {}};
      const double exponent = 0.4 + 0.6 * random.uniform();
      std::vector<double> row;
      for (int n = 1; n <= gpus; ++n) row.push_back(std::pow(n, exponent));
      for (int n = 1; n <= gpus; n *= 2) one.per_slot.push_back(row[static_cast<size_t>(n - 1)] * kInterval_s);
      rates.push_back({row});
      Job job;
      job.name = fmt::format("{}", jobs.size());
      job.batch = static_cast<int64_t>(jobs.size());
      job.max_gpus = gpus;
      job.work = one.work;
      job.deadline_s = one.slots * kInterval_s;
      workload.jobs.push_back(job);
      jobs.push_back(one);
    }
    const Fleet fleet = fleet_of({{"gpu", gpus}}, gpus);
    const RatesByJob throughput(std::move(rates));
    SCALAI_ASSIGN_OR_RETURN(
        const Outcome outcome,
        run_policy(
            {.policy = "elasticflow", .set = {}, .workload = &workload, .fleet = &fleet, .throughput = &throughput}));
    std::vector<small::DueJob> admitted;
    for (size_t m = 0; m < jobs.size(); ++m) {
      const JobRecord& record = outcome.jobs[m];
      admitted.push_back(jobs[m]);
      if (record.end == JobEnd::kRefused) {
        ++promises.refused;
        promises.rightly += small::fills(admitted, gpus) ? 0 : 1;
        admitted.pop_back();
        continue;
      }
      ++promises.admitted;
      promises.kept += record.finish_s <= workload.jobs[m].deadline_s * (1 + 1e-9) ? 1 : 0;
    }
    ++promises.cases;
    promises.possible += small::possible(admitted, gpus) ? 1 : 0;
  }
  return promises;
}

}  // namespace

Rows small_deadlines(const std::string& /*data*/) {
  std::vector<ReferenceRow> rows;
  SCALAI_ASSIGN_OR_RETURN(const Tally programs, sia());
  programs.rows(kDeadlineSet, "sia", "objectives of the programs of 30 runs", "objective", 1e-9, rows);
  SCALAI_ASSIGN_OR_RETURN(const Promises promises, elasticflow());
  const auto add = [&rows](const char* what, int64_t reference, int64_t ours) {
    rows.push_back({.set = kDeadlineSet,
                    .policy = "elasticflow",
                    .name = fmt::format("elasticflow: {}", what),
                    .unit = "count",
                    .reference = static_cast<double>(reference),
                    .ours = static_cast<double>(ours),
                    .tolerance = 0,
                    .note = ""});
  };
  add("200 cases, the admitted jobs can all end in time", promises.cases, promises.possible);
  add("refused jobs that progressive filling has no room for", promises.refused, promises.rightly);
  add("admitted jobs that end in time", promises.admitted, promises.kept);
  return rows;
}

}  // namespace scalai::policy::validation
