#include "ptc/run/policy/policies/goodput/sia.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/run/policy/answer_log.h"
#include "ptc/run/policy/policies/goodput/beliefs.h"
#include "ptc/run/policy/policies/goodput/kept_answers.h"
#include "ptc/run/policy/policies/goodput/packing.h"
#include "ptc/run/policy/policies/shares/program.h"

namespace scalai::policy {
namespace {

constexpr double kMostEntry = 3000;  // entries are clipped there (simulator_config.py)

double entry(double utility, double exponent) {
  if (utility <= 0) return exponent < 0 ? kMostEntry : 0;
  return std::min(std::round(std::pow(utility, exponent) * 100) / 100, kMostEntry);
}

// Of a choice in a minimisation.
double cost(const SiaJob& job, const SiaChoice& choice, const SiaSettings& settings) {
  const double value = entry(choice.utility, settings.exponent);
  return job.weight * ((settings.exponent < 0 ? value : -value) - settings.lambda);
}

// Those that may not change first, which fit together; then each job's cheapest choice that fits.
std::vector<int> one_after_the_other(std::span<const SiaJob> jobs, std::vector<int> left, const SiaSettings& settings) {
  std::vector<int> chosen(jobs.size(), -1);
  const auto take = [&](size_t k, int c) {
    chosen[k] = c;
    const SiaChoice& choice = jobs[k].choices[static_cast<size_t>(c)];
    left[static_cast<size_t>(choice.type.value)] -= choice.gpus;
  };
  for (size_t k = 0; k < jobs.size(); ++k) {
    if (jobs[k].locked >= 0) take(k, jobs[k].locked);
  }
  for (size_t k = 0; k < jobs.size(); ++k) {
    if (chosen[k] >= 0) continue;
    int best = -1;
    double least = 0;  // of a job without GPUs
    for (size_t c = 0; c < jobs[k].choices.size(); ++c) {
      const SiaChoice& choice = jobs[k].choices[c];
      const double value = cost(jobs[k], choice, settings);
      if (choice.gpus > left[static_cast<size_t>(choice.type.value)] || value >= least) continue;
      least = value;
      best = static_cast<int>(c);
    }
    if (best >= 0) take(k, best);
  }
  return chosen;
}

class Sia final : public Policy {
 public:
  explicit Sia(const SiaSettings& settings) : settings_(settings), beliefs_(settings.model == "fitted") {}

  PolicyTraits traits() const override { return {.preemptive = true, .elastic = true, .heterogeneous = true}; }

  absl::Status begin(const View& /*view*/) override {
    if (settings_.model != "fitted" && settings_.model != "oracle") {
      return invalid(fmt::format("sia: model \"{}\" is neither fitted nor oracle", settings_.model));
    }
    if (settings_.gap < 0) return invalid(fmt::format("sia: gap must not be below 0; it is {}", settings_.gap));
    if (settings_.limit_s <= 0) return invalid("sia: time-limit must be above 0: time-limit=5s");
    if (settings_.interval_s <= 0) return invalid("sia: the interval must be above 0: interval=60s");
    if (settings_.exponent == 0) return invalid("sia: p must not be 0: p=-0.5");
    if (settings_.lambda <= 1)
      return invalid("sia: lambda must be above 1, or it would rather leave jobs without GPUs");
    return absl::OkStatus();
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> /*events*/) override {
    Decision decision;
    if (view.active().empty()) return decision;
    const double ticks = std::floor(view.now_s() / settings_.interval_s + 1e-9);
    decision.wake_at_s = (ticks + 1) * settings_.interval_s;
    if (view.now_s() - ticks * settings_.interval_s >= 1e-6 || ticks <= last_tick_) return decision;
    last_tick_ = ticks;
    beliefs_.observe(view);
    SCALAI_ASSIGN_OR_RETURN(const bool hope, optimise(view, &decision));
    if (!hope) decision.wake_at_s = kNever;
    return decision;
  }

  bool keep_answers(AnswerLog* log) override {
    log_ = log;
    return true;
  }

  std::string remarks() const override {
    std::string text =
        fmt::format("sia: {} integer programs, {} columns in the largest, at most {:.2g} % from the optimum", programs_,
                    most_columns_, 100 * largest_gap_);
    if (cut_short_ > 0)
      text += fmt::format(" ({} of them ended at time-limit, which another machine reaches elsewhere)", cut_short_);
    if (without_ > 0)
      text += fmt::format(" ({} of them had no solution in time: then jobs chose one after the other)", without_);
    return text + "; ties as CBC finds them, one thread";
  }

 private:
  // False: nobody has or can use GPUs, so that waking up again is of no use.
  absl::StatusOr<bool> optimise(const View& view, Decision* decision) {
    std::vector<int> capacity;
    for (size_t h = 0; h < view.fleet().hosts.size(); ++h) {
      capacity.push_back(view.capacity(HostId(static_cast<int64_t>(h))));
    }
    std::vector<int> gpus(view.fleet().types.size(), 0);
    for (size_t h = 0; h < capacity.size(); ++h) {
      gpus[static_cast<size_t>(view.fleet().hosts[h].type.value)] += capacity[h];
    }
    const std::vector<SiaConfiguration> all = sia_configurations(view.fleet(), capacity);
    std::vector<SiaJob> jobs;
    bool hope = false;
    size_t columns = 0;
    for (const JobId id : view.active()) {
      jobs.push_back(choices_of(view, id, all, capacity));
      hope = hope || !jobs.back().choices.empty();
      columns += jobs.back().choices.size();
    }
    ++programs_;
    most_columns_ = std::max(most_columns_, columns);
    SCALAI_ASSIGN_OR_RETURN(const SiaSolution solution, solve(jobs, gpus));
    largest_gap_ = std::max(largest_gap_, solution.gap);
    cut_short_ += solution.found && solution.gap > settings_.gap * (1 + 1e-6) ? 1 : 0;
    without_ += solution.found ? 0 : 1;
    for (size_t type = 0; type < gpus.size(); ++type) {
      grant(view, jobs, solution.chosen, GpuType(static_cast<int64_t>(type)), capacity, decision);
    }
    return hope;
  }

  absl::StatusOr<SiaSolution> solve(const std::vector<SiaJob>& jobs, const std::vector<int>& gpus) const {
    const auto compute = [&]() -> absl::StatusOr<SiaSolution> {
      auto solution = solve_sia(jobs, gpus, settings_);
      if (!absl::IsInvalidArgument(solution.status())) return solution;
      std::vector<SiaJob> free = jobs;  // hosts are gone: nobody may insist on what it has
      for (SiaJob& job : free) job.locked = -1;
      return solve_sia(free, gpus, settings_);
    };
    if (log_ == nullptr) return compute();
    SCALAI_ASSIGN_OR_RETURN(const std::string bytes,
                            log_->answer(digest_of(jobs, gpus), [&]() -> absl::StatusOr<std::string> {
                              SCALAI_ASSIGN_OR_RETURN(const SiaSolution solution, compute());
                              return bytes_of(solution);
                            }));
    return solution_of(bytes, jobs);
  }

  SiaJob choices_of(const View& view, JobId id, const std::vector<SiaConfiguration>& all,
                    std::span<const int> capacity) const {
    const Job& job = view.job(id);
    const Progress now = view.progress(id);
    SiaJob result;
    result.weight = job.weight;
    const int least = std::max(job.min_gpus, 1);
    const int most =
        std::max(least, std::min({2 * beliefs_.scaled_to(id), job.max_gpus, std::max(settings_.most_gpus, least)}));
    double lowest = kNever;
    std::vector<double> goodputs;
    for (const SiaConfiguration& one : with_least(all, view.fleet(), capacity, least)) {
      const bool known = !settings_.explore || beliefs_.scaled_to(id, one.type) > 0;
      if (one.gpus < least || one.gpus > (known ? most : least) || one.gpus % least != 0) continue;
      const double goodput = beliefs_.goodput(view, id, one.type, one.hosts, one.gpus);
      if (goodput <= 0) continue;
      if (known) lowest = std::min(lowest, goodput);
      goodputs.push_back(known ? goodput : -1);
      result.choices.push_back({one.type, one.gpus, 0});
    }
    const double age = view.now_s() - job.submit_s;
    const double restart = view.change_cost_s(id, least);
    const double kept =
        age < restart || age + restart <= 0 ? 1 : std::max(age - now.restarts * restart, 0.0) / (age + restart);
    const bool busy = !now.placement.empty() && view.now_s() - now.last_change_s < restart;
    for (size_t k = 0; k < result.choices.size(); ++k) {
      SiaChoice& choice = result.choices[k];
      choice.utility = goodputs[k] < 0 ? least : least * goodputs[k] / lowest;
      if (now.placement.empty()) continue;
      const bool same = choice.type == now.placement.type && choice.gpus == now.placement.gpus();
      if (!same) choice.utility *= kept;
      if (same && busy) result.locked = static_cast<int>(k);  // it is still changing over
    }
    return result;
  }

  // A job that needs a number of GPUs that is no configuration gets its own.
  static std::vector<SiaConfiguration> with_least(std::vector<SiaConfiguration> all, const Fleet& fleet,
                                                  std::span<const int> capacity, int least) {
    for (size_t t = 0; t < fleet.types.size(); ++t) {
      const GpuType type(static_cast<int64_t>(t));
      const bool there = std::any_of(
          all.begin(), all.end(), [&](const SiaConfiguration& one) { return one.type == type && one.gpus == least; });
      int total = 0, largest = 0;
      for (size_t h = 0; h < capacity.size(); ++h) {
        if (fleet.hosts[h].type != type) continue;
        total += capacity[h];
        largest = std::max(largest, capacity[h]);
      }
      if (!there && least <= total) all.push_back({type, (least + largest - 1) / largest, least});
    }
    return all;
  }

  static void grant(const View& view, std::span<const SiaJob> jobs, std::span<const int> chosen, GpuType type,
                    std::span<const int> capacity, Decision* decision) {
    std::vector<int> free(capacity.begin(), capacity.end());
    for (size_t h = 0; h < free.size(); ++h) {
      if (view.fleet().hosts[h].type != type) free[h] = 0;
    }
    std::vector<JobId> ids;
    std::vector<PackRequest> requests;
    for (size_t k = 0; k < jobs.size(); ++k) {
      const JobId id = view.active()[k];
      const Placement now = view.progress(id).placement;
      if (chosen[k] < 0) {
        if (type.value == 0 && !now.empty())
          decision->grants.push_back(Grant{.job = id, .type = now.type, .gpus = 0, .hosts = {}, .beside = {}});
        continue;
      }
      const SiaChoice& choice = jobs[k].choices[static_cast<size_t>(chosen[k])];
      if (choice.type != type) continue;
      ids.push_back(id);
      requests.push_back({choice.gpus, now.type == type ? now.hosts : std::vector<HostShare>{}});
    }
    const auto shares = pack(free, requests);
    for (size_t k = 0; k < ids.size(); ++k) {
      const Placement now = view.progress(ids[k]).placement;
      if (now == Placement{type, shares[k]}) continue;
      decision->grants.push_back(
          Grant{.job = ids[k], .type = type, .gpus = requests[k].gpus, .hosts = shares[k], .beside = {}});
    }
  }

  SiaSettings settings_;
  Beliefs beliefs_;
  AnswerLog* log_ = nullptr;
  double last_tick_ = -1;
  int64_t programs_ = 0;
  size_t most_columns_ = 0;
  double largest_gap_ = 0;
  int64_t cut_short_ = 0, without_ = 0;  // programs
};

}  // namespace

std::vector<SiaConfiguration> sia_configurations(const Fleet& fleet, std::span<const int> capacity) {
  std::vector<SiaConfiguration> all;
  for (size_t t = 0; t < fleet.types.size(); ++t) {
    const GpuType type(static_cast<int64_t>(t));
    int largest = 0, whole = 0;
    for (size_t h = 0; h < capacity.size(); ++h) {
      if (fleet.hosts[h].type == type) largest = std::max(largest, capacity[h]);
    }
    for (size_t h = 0; h < capacity.size(); ++h) {
      if (fleet.hosts[h].type == type && capacity[h] == largest) ++whole;
    }
    for (int gpus = 1; gpus < largest; gpus *= 2) all.push_back({type, 1, gpus});
    for (int hosts = 1; largest > 0 && hosts <= whole; ++hosts) all.push_back({type, hosts, hosts * largest});
  }
  return all;
}

absl::StatusOr<SiaSolution> solve_sia(std::span<const SiaJob> jobs, std::span<const int> gpus,
                                      const SiaSettings& settings) {
  Program program(Program::Sense::kMinimise);
  std::vector<std::vector<Term>> used(gpus.size());
  std::vector<int> first;
  for (const SiaJob& job : jobs) {
    first.push_back(program.columns());
    std::vector<Term> one;
    for (size_t c = 0; c < job.choices.size(); ++c) {
      const SiaChoice& choice = job.choices[c];
      const int column = program.binary(cost(job, choice, settings));
      if (job.locked == static_cast<int>(c)) program.set_bounds(column, 1, 1);
      one.push_back({column, 1});
      used[static_cast<size_t>(choice.type.value)].push_back({column, static_cast<double>(choice.gpus)});
    }
    if (!one.empty()) program.at_most(one, 1);
  }
  SiaSolution result{.chosen = std::vector<int>(jobs.size(), -1)};
  if (program.columns() == 0) return result;
  for (size_t type = 0; type < gpus.size(); ++type) {
    if (!used[type].empty()) program.at_most(used[type], gpus[type]);
  }
  const auto solution = program.solve_within({.gap = settings.gap, .seconds = settings.limit_s});
  if (!solution.ok() && infeasible(solution.status())) return invalid("sia: jobs that may not change do not fit");
  if (absl::IsResourceExhausted(solution.status()) || absl::IsInternal(solution.status())) {
    result.chosen = one_after_the_other(jobs, {gpus.begin(), gpus.end()}, settings);
    result.found = false;
    return result;
  }
  SCALAI_RETURN_IF_ERROR(solution.status());
  for (size_t k = 0; k < jobs.size(); ++k) {
    for (size_t c = 0; c < jobs[k].choices.size(); ++c) {
      if (solution->values[static_cast<size_t>(first[k]) + c] > 0.5) result.chosen[k] = static_cast<int>(c);
    }
  }
  result.gap = solution->gap;
  return result;
}

double sia_objective(std::span<const SiaJob> jobs, std::span<const int> chosen, const SiaSettings& settings) {
  double sum = 0;
  for (size_t k = 0; k < jobs.size(); ++k) {
    sum += settings.lambda * jobs[k].weight;
    if (chosen[k] >= 0) sum += cost(jobs[k], jobs[k].choices[static_cast<size_t>(chosen[k])], settings);
  }
  return sum;
}

std::unique_ptr<Policy> make_sia(const SiaSettings& settings) { return std::make_unique<Sia>(settings); }

}  // namespace scalai::policy
