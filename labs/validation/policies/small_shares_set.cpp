// Policies by linear programs on random small cases, against small/best_shares.h. Seeds 1, 2, …: a case each. The
// programs alone, to what the solver promises; and the policies by name, from the time that each job had on each GPU
// type in 4,000 rounds, to 2 %.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "labs/validation/policies/internal/sets.h"
#include "labs/validation/policies/small/best_shares.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/allocation.h"
#include "ptc/run/policy/policies/shares/water_filling.h"

namespace scalai::policy::validation {
namespace {

using small::ShareCase;
using small::ShareTable;

constexpr char kShareSet[] = "small-shares";
constexpr int kPrograms = 50;
constexpr int kPlayed = 20;
constexpr int kRounds = 4000;  // of a second
constexpr double kPlayedWithin = 0.02;
constexpr double kForever = 1e9;  // iterations

// Three jobs on two types. `plain`: of one GPU, all can run everywhere, so that rounds can give them any shares.
ShareCase random_case(uint64_t seed, bool plain) {
  Random random(seed);
  ShareCase one;
  for (int j = 0; j < 2; ++j) one.gpus.push_back(static_cast<int>(random.between(1, plain ? 2 : 4)));
  for (int m = 0; m < 3; ++m) {
    ShareCase::Job job;
    job.gpus = plain ? 1 : static_cast<int>(random.between(1, *std::max_element(one.gpus.begin(), one.gpus.end())));
    job.weight = 0.5 + random.uniform();
    for (const int gpus : one.gpus) {
      const bool runs = plain || (gpus >= job.gpus && random.below(5) != 0);
      job.rates.push_back(runs ? 0.2 + random.uniform() * 3 : 0);
    }
    if (*std::max_element(job.rates.begin(), job.rates.end()) == 0) job.gpus = 1, job.rates[0] = 1;
    job.left = plain ? kForever * (0.5 + random.uniform()) : 100 + random.uniform() * 10000;
    job.age_s = plain ? 0 : random.uniform() * 3000;
    job.isolated_s = plain ? 0 : job.age_s * random.uniform();
    one.jobs.push_back(job);
  }
  for (size_t j = 0; j < one.gpus.size(); ++j) one.price.push_back(0.3 + random.uniform() * 2);
  for (ShareCase::Job& job : one.jobs) {  // needs up to half of the best rate: some cases have no shares for that
    const double best = *std::max_element(job.rates.begin(), job.rates.end());
    if (random.below(3) != 0) job.due_s = job.left / (best * (0.1 + 0.4 * random.uniform()));
  }
  return one;
}

// As fast everywhere as on the type that is the fastest for the jobs on average.
ShareCase levelled(ShareCase one) {
  std::vector<double> worth(one.gpus.size(), 0);
  for (const ShareCase::Job& job : one.jobs) {
    for (size_t j = 0; j < worth.size(); ++j)
      worth[j] += job.rates[j] / *std::max_element(job.rates.begin(), job.rates.end());
  }
  const auto fastest = std::max_element(worth.begin(), worth.end()) - worth.begin();
  for (ShareCase::Job& job : one.jobs) job.rates.assign(one.gpus.size(), job.rates[static_cast<size_t>(fastest)]);
  return one;
}

ShareCase all_alike(ShareCase one) {
  for (ShareCase::Job& job : one.jobs) job.rates.assign(one.gpus.size(), 1);
  return one;
}

ShareCase without_prices(ShareCase one) {
  one.price.clear();
  return one;
}

// ---- programs ------------------------------------------------------------------------------------------------------
ShareProblem problem_of(const ShareCase& one) {
  ShareProblem problem{.gpus = one.gpus, .prices = one.price, .jobs = {}, .pairs = {}};
  for (const ShareCase::Job& job : one.jobs) {
    ShareJob& copy = problem.jobs.emplace_back();
    copy.id = JobId(static_cast<int64_t>(problem.jobs.size() - 1));
    copy.gpus = job.gpus;
    copy.weight = job.weight;
    copy.rates = job.rates;
    copy.remaining = job.left;
    copy.age_s = job.age_s;
    copy.isolated_s = job.isolated_s;
    copy.time_left_s = job.due_s > 0 ? job.due_s : kNever;
  }
  return problem;
}

// What `measure` says of the shares, relative to `best`, case by case; 0 where they are not allowed.
absl::StatusOr<Tally> solved(const std::function<absl::StatusOr<Shares>(const ShareProblem&)>& solve,
                             const std::function<std::vector<double>(const ShareCase&)>& best,
                             const std::function<std::vector<double>(const ShareCase&, const ShareTable&)>& measure,
                             double within) {
  Tally tally;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const ShareCase one = random_case(seed, false);
    SCALAI_ASSIGN_OR_RETURN(const Shares shares, solve(problem_of(one)));
    const std::vector<double> reference = best(one), ours = measure(one, shares.alone);
    const bool ok = small::allowed(one, shares.alone);
    for (size_t k = 0; k < reference.size(); ++k) tally.add(1, ok ? ours[k] / reference[k] : 0, within);
  }
  return tally;
}

// ---- policies ------------------------------------------------------------------------------------------------------
// The part of the time that each job had on each type.
absl::StatusOr<ShareTable> played(const std::string& policy, const ShareCase& one, uint64_t seed) {
  Workload workload;
  RatesByJob::Rates rates;
  std::vector<std::pair<std::string, int>> types;
  for (size_t j = 0; j < one.gpus.size(); ++j) types.emplace_back(fmt::format("gpu-{}", j), one.gpus[j]);
  Fleet fleet = fleet_of(types, 1);
  for (size_t j = 0; j < one.price.size(); ++j) fleet.types[j].price_per_gpu_hour = one.price[j];
  for (const ShareCase::Job& entry : one.jobs) {
    Job job;
    job.name = fmt::format("{}", workload.jobs.size());
    job.batch = static_cast<int64_t>(workload.jobs.size());
    job.gpus = job.min_gpus = job.max_gpus = entry.gpus;
    job.weight = entry.weight;
    job.work = entry.left;
    job.deadline_s = entry.due_s > 0 ? entry.due_s : kNever;
    std::vector<std::vector<double>>& by_type = rates.emplace_back();
    for (const double rate : entry.rates) by_type.emplace_back(static_cast<size_t>(entry.gpus), rate);
    workload.jobs.push_back(job);
  }
  const RatesByJob throughput(std::move(rates));
  ShareTable time(one.jobs.size(), std::vector<double>(one.gpus.size(), 0));
  std::vector<std::pair<double, int>> since(one.jobs.size(), {0, -1});  // and on which type
  const auto until = [&](size_t m, double now_s) {
    if (since[m].second >= 0) time[m][static_cast<size_t>(since[m].second)] += (now_s - since[m].first) / kRounds;
  };
  PolicyRun run{.policy = policy,
                .set = {"round=1s", "fill=false"},
                .seed = seed,
                .workload = &workload,
                .fleet = &fleet,
                .throughput = &throughput};
  run.until_s = kRounds;
  run.watcher.placed = [&](double now_s, JobId job, const Placement& placement, JobId) {
    const auto m = static_cast<size_t>(job.value);
    until(m, now_s);
    since[m] = {now_s, placement.empty() ? -1 : static_cast<int>(placement.type.value)};
  };
  SCALAI_RETURN_IF_ERROR(run_policy(run).status());
  for (size_t m = 0; m < since.size(); ++m) until(m, kRounds);
  return time;
}

using Knows = ShareCase (*)(ShareCase);
ShareCase all(ShareCase one) { return one; }

// Fairness: level by level, relative.
absl::StatusOr<Tally> played_levels(const std::string& policy, Knows knows) {
  Tally tally;
  for (uint64_t seed = 1; seed <= kPlayed; ++seed) {
    const ShareCase one = random_case(seed, true), known = knows(one);
    SCALAI_ASSIGN_OR_RETURN(const ShareTable time, played(policy, one, seed));
    const std::vector<double> reference = small::fairest_levels(known);
    const std::vector<double> ours = small::levels_of(known, small::rates_of(known, time));
    for (size_t k = 0; k < reference.size(); ++k) tally.add(1, ours[k] / reference[k], kPlayedWithin);
  }
  return tally;
}

absl::StatusOr<Tally> played_ratio(const std::string& policy, Knows knows) {
  Tally tally;
  for (uint64_t seed = 1; seed <= kPlayed; ++seed) {
    const ShareCase one = random_case(seed, true), known = knows(one);
    SCALAI_ASSIGN_OR_RETURN(const ShareTable time, played(policy, one, seed));
    tally.add(1, small::worst_ratio(known, small::rates_of(known, time)) / small::least_ratio(known), kPlayedWithin);
  }
  return tally;
}

absl::StatusOr<Tally> played_sum(const std::string& policy, Knows knows, bool due) {
  Tally tally;
  for (uint64_t seed = 1; seed <= kPlayed; ++seed) {
    const ShareCase one = random_case(seed, true), known = knows(one);
    SCALAI_ASSIGN_OR_RETURN(const ShareTable time, played(policy, one, seed));
    const std::optional<double> in_time = small::best_sum(known, due);
    tally.add(1, small::sum_of(known, time) / in_time.value_or(*small::best_sum(known, false)), kPlayedWithin);
    for (size_t m = 0; due && in_time.has_value() && m < one.jobs.size(); ++m) {  // and nobody is late
      const ShareCase::Job& job = one.jobs[m];
      if (job.due_s > 0)
        tally.add(1, std::min(1.0, small::rates_of(known, time)[m] * job.due_s / job.left), kPlayedWithin);
    }
  }
  return tally;
}

// On one type an even number of jobs of one GPU and some of two, so that isolated and proportional shares differ; or
// jobs of one GPU on two types. Rounds of other mixes leave GPUs idle that no job fits on, and no shares come out.
absl::StatusOr<Tally> played_table(const std::string& policy, ShareTable (*definition)(const ShareCase&)) {
  Tally tally;
  for (uint64_t seed = 1; seed <= kPlayed; ++seed) {
    Random random(seed);
    const bool mixed = seed % 2 == 0;
    ShareCase one;
    one.gpus.push_back(2 * static_cast<int>(random.between(1, 2)));
    if (!mixed) one.gpus.push_back(static_cast<int>(random.between(1, 4)));
    const int64_t singles = 2 * random.between(2, 3), doubles = mixed ? random.between(2, 3) : 4;
    for (int64_t k = 0; k < singles + doubles; ++k) {
      one.jobs.push_back({.gpus = mixed && k >= singles ? 2 : 1, .left = kForever});
      for (size_t j = 0; j < one.gpus.size(); ++j) one.jobs.back().rates.push_back(1 + random.uniform());
    }
    SCALAI_ASSIGN_OR_RETURN(const ShareTable time, played(policy, one, seed));
    const ShareTable table = definition(one);
    for (size_t m = 0; m < table.size(); ++m) {
      for (size_t j = 0; j < one.gpus.size(); ++j) tally.add(table[m][j], time[m][j], kPlayedWithin);
    }
  }
  return tally;
}

absl::Status add_programs(std::vector<ReferenceRow>& rows) {
  const std::string cases = fmt::format("{} programs", kPrograms);
  SCALAI_ASSIGN_OR_RETURN(
      const Tally filling,
      solved([](const ShareProblem& problem) { return water_filling_shares(problem, {}); }, small::fairest_levels,
             [](const ShareCase& one, const ShareTable& shares) {
               return small::levels_of(one, small::rates_of(one, shares));
             },
             3e-5));  // each level stops within 1e-5 of the next
  filling.rows(kShareSet, "gavel-water-filling", cases + ", levels of 3 jobs", "of the best", 1e-5, rows);
  SCALAI_ASSIGN_OR_RETURN(
      const Tally ratio,
      solved(
          finish_time_shares, [](const ShareCase& one) { return std::vector<double>{small::least_ratio(one)}; },
          [](const ShareCase& one, const ShareTable& shares) {
            return std::vector<double>{small::worst_ratio(one, small::rates_of(one, shares))};
          },
          2e-6));  // bisection to 1e-6
  ratio.rows(kShareSet, "gavel-finish-time", cases + ", worst ratios", "of the best", 2e-6, rows);
  for (const auto& [policy, value, due] : {std::tuple("gavel-throughput", Value::kThroughput, false),
                                           std::tuple("gavel-cost", Value::kThroughputPerDollar, false),
                                           std::tuple("gavel-cost-slo", Value::kThroughputPerDollar, true)}) {
    const auto known = value == Value::kThroughput ? without_prices : all;
    SCALAI_ASSIGN_OR_RETURN(const Tally sum,
                            solved([value = value, due = due](
                                       const ShareProblem& problem) { return throughput_shares(problem, value, due); },
                                   [known, due = due](const ShareCase& one) {
                                     const auto in_time = small::best_sum(known(one), due);
                                     return std::vector<double>{in_time.value_or(*small::best_sum(known(one), false))};
                                   },
                                   [known](const ShareCase& one, const ShareTable& shares) {
                                     return std::vector<double>{small::sum_of(known(one), shares)};
                                   },
                                   1e-6));
    sum.rows(kShareSet, policy, cases + ", sums", "of the best", 1e-6, rows);
  }
  return absl::OkStatus();
}

}  // namespace

Rows small_shares(const std::string& /*data*/) {
  std::vector<ReferenceRow> rows;
  SCALAI_RETURN_IF_ERROR(add_programs(rows));
  const auto add = [&rows](const char* policy, const char* what, const absl::StatusOr<Tally>& tally) -> absl::Status {
    if (tally.ok())
      tally->rows(kShareSet, policy, fmt::format("{} clusters, {} rounds, {}", kPlayed, kRounds, what), "of the best",
                  kPlayedWithin, rows);
    return tally.status();
  };
  SCALAI_RETURN_IF_ERROR(add("gavel-water-filling", "levels", played_levels("gavel-water-filling", all)));
  SCALAI_RETURN_IF_ERROR(
      add("gavel-water-filling-agnostic", "levels", played_levels("gavel-water-filling-agnostic", all_alike)));
  SCALAI_RETURN_IF_ERROR(add("gavel-finish-time", "worst ratios", played_ratio("gavel-finish-time", all)));
  SCALAI_RETURN_IF_ERROR(
      add("gavel-finish-time-agnostic", "worst ratios", played_ratio("gavel-finish-time-agnostic", levelled)));
  SCALAI_RETURN_IF_ERROR(add("gavel-throughput", "sums", played_sum("gavel-throughput", without_prices, false)));
  SCALAI_RETURN_IF_ERROR(add("gavel-cost", "sums", played_sum("gavel-cost", all, false)));
  SCALAI_RETURN_IF_ERROR(add("gavel-cost-slo", "sums", played_sum("gavel-cost-slo", all, true)));
  SCALAI_RETURN_IF_ERROR(add("gavel-isolated", "time by type", played_table("gavel-isolated", small::isolated)));
  SCALAI_RETURN_IF_ERROR(
      add("gavel-proportional", "time by type", played_table("gavel-proportional", small::proportional)));
  return rows;
}

}  // namespace scalai::policy::validation
