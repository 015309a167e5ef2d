#include "ptc/run/policy/policies/shares/round_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr double kSlack =
    1e-6;  // s a round goes on after its last job is done: our sum and the engine's differ in the last bit

// Types are all the same: one pool of GPUs on which each job runs at its rate. (To give every type that rate is the
// same program with as many optima as there are ways to spread a share over types, and at a vertex a job may have the
// slowest type alone.)
ShareProblem pooled(const ShareProblem& problem, const std::vector<double>& rates) {
  ShareProblem pool;
  pool.gpus = {std::accumulate(problem.gpus.begin(), problem.gpus.end(), 0)};
  pool.prices = {0};
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    pool.jobs.push_back(problem.jobs[m]);
    pool.jobs.back().rates = {rates[m]};
  }
  return pool;
}

std::vector<double> alike(const ShareProblem& problem) {
  std::vector<double> rates;
  for (const ShareJob& job : problem.jobs) rates.push_back(job.runs() ? 1.0 : 0.0);
  return rates;
}

// By job on the fastest type that runs it; which is the fastest goes by all jobs.
std::vector<double> on_the_fastest(const ShareProblem& problem) {
  const std::vector<GpuType> order = fastest_first(problem);
  std::vector<double> rates;
  for (const ShareJob& job : problem.jobs) {
    const auto type = std::find_if(order.begin(), order.end(),
                                   [&job](GpuType one) { return job.rates[static_cast<size_t>(one.value)] > 0; });
    rates.push_back(type == order.end() ? 0 : job.rates[static_cast<size_t>(type->value)]);
  }
  return rates;
}

// A share of the pool is one of every type, by their number of GPUs; nothing where the job cannot run.
Shares spread(const ShareProblem& problem, const Shares& pooled) {
  Shares shares = pooled;
  const double total = std::accumulate(problem.gpus.begin(), problem.gpus.end(), 0.0);
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    std::vector<double>& row = shares.alone[m];
    row.assign(problem.gpus.size(), pooled.alone[m][0] / total);
    for (size_t j = 0; j < row.size(); ++j) row[j] *= problem.jobs[m].rates[j] > 0 ? problem.gpus[j] : 0;
  }
  return shares;
}

bool sits(const Progress& progress, GpuType type, int gpus, JobId beside) {
  return !progress.placement.empty() && progress.placement.type == type && progress.placement.gpus() == gpus &&
         progress.beside == beside;
}

}  // namespace

RoundPolicy::RoundPolicy(const RoundOptions& options, std::unique_ptr<ShareRule> rule, PolicyTraits traits)
    : options_(options), rule_(std::move(rule)), traits_(traits), random_(options.seed), rounds_(options.round_s) {}

absl::Status RoundPolicy::begin(const View& /*view*/) {
  SCALAI_CHECK(!options_.packing || options_.speeds == RoundOptions::Speeds::kTrue, "a pool has no pairs");
  if (!(options_.round_s > 0)) {
    return invalid(fmt::format("round={}s: a round lasts longer than 0 s", options_.round_s));
  }
  return absl::OkStatus();
}

// Whether the round that is under way ends here and now.
bool RoundPolicy::take_note(const View& view, std::span<const Event> events) {
  bool ends = view.now_s() >= round_ends_s_;
  for (const Event& event : events) {
    switch (event.kind) {
      case Event::Kind::kSubmitted: stale_ = true; break;
      case Event::Kind::kFinished:
        rounds_.finished(event.job);
        stale_ = true;
        break;
      case Event::Kind::kLost: ends = true; break;
      case Event::Kind::kCapacity:
        disturbed_ = true;
        ends = true;
        break;
      case Event::Kind::kRate:
      case Event::Kind::kTimer: break;
    }
  }
  return ends;
}

void RoundPolicy::close_round(double now_s) {
  for (const Pick& pick : picks_) rounds_.ran(pick, now_s - round_began_s_);
}

ShareProblem RoundPolicy::problem_of(const View& view) const {
  ShareProblem problem;
  for (size_t j = 0; j < view.fleet().types.size(); ++j) {
    const GpuType type(static_cast<int64_t>(j));
    problem.gpus.push_back(view.capacity(type));
    problem.prices.push_back(view.price(type));
  }
  std::vector<const Job*> specs;
  for (JobId id : view.active()) {
    const Job& spec = view.job(id);
    const double done = view.progress(id).work_done;
    ShareJob& job = problem.jobs.emplace_back();
    job.id = id;
    job.gpus = spec.gpus;
    job.weight = spec.weight;
    job.remaining = std::max(0.0, spec.work - done);
    job.age_s = view.now_s() - spec.submit_s;
    job.time_left_s = spec.deadline_s - view.now_s();
    job.entity = spec.entity;
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      const bool fits = spec.gpus <= problem.gpus[j];
      job.rates.push_back(fits ? view.throughput().rate(spec, GpuType(static_cast<int64_t>(j)), spec.gpus, done).per_s
                               : 0);
    }
    specs.push_back(&spec);
  }
  if (options_.packing) add_pairs(problem, specs, view.throughput());
  return problem;
}

absl::StatusOr<Shares> RoundPolicy::solve(const ShareProblem& problem) {
  if (options_.speeds == RoundOptions::Speeds::kTrue) return rule_->shares(problem);
  const bool fastest = options_.speeds == RoundOptions::Speeds::kFastest;
  absl::StatusOr<Shares> shares = rule_->shares(pooled(problem, fastest ? on_the_fastest(problem) : alike(problem)));
  return shares.ok() ? spread(problem, *shares) : shares;
}

absl::StatusOr<std::vector<JobShare>> RoundPolicy::shares_of(const View& view) {
  const ShareProblem problem = problem_of(view);
  SCALAI_ASSIGN_OR_RETURN(const Shares shares, solve(problem));
  std::vector<JobShare> list;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (size_t j = 0; j < problem.gpus.size(); ++j) {
      const double share = shares.alone[m][j], rate = problem.jobs[m].rates[j];
      if (share > 0 && rate > 0)
        list.push_back({problem.jobs[m].id, GpuType(static_cast<int64_t>(j)), share, rate, false});
    }
  }
  for (size_t k = 0; k < shares.paired.size(); ++k) {
    const SharePair& pair = problem.pairs[k];
    if (shares.paired[k] <= 0) continue;
    const auto id = [&](int index) { return problem.jobs[static_cast<size_t>(index)].id; };
    list.push_back({id(pair.first), pair.type, shares.paired[k], pair.first_rate, false});
    list.push_back({id(pair.second), pair.type, shares.paired[k], pair.second_rate, true});
  }
  return list;
}

absl::Status RoundPolicy::allocate(const View& view) {
  const ShareProblem problem = problem_of(view);
  order_ = fastest_first(problem);
  const absl::StatusOr<Shares> shares = solve(problem);
  SCALAI_RETURN_IF_ERROR(shares.status());
  rounds_.adopt(problem, *shares, view.now_s());
  allocated_s_ = view.now_s();
  stale_ = false;
  disturbed_ = false;
  return absl::OkStatus();
}

std::vector<Pick> RoundPolicy::choose(const View& view) {
  std::vector<int> gpus;
  for (size_t j = 0; j < view.fleet().types.size(); ++j) {
    gpus.push_back(view.capacity(GpuType(static_cast<int64_t>(j))));
  }
  std::vector<GpuType> order = order_;
  for (size_t k = order.size(); options_.shuffle_types && k > 1; --k) {
    std::swap(order[k - 1], order[static_cast<size_t>(random_.below(static_cast<int64_t>(k)))]);
  }
  return rounds_.pick(gpus, order, options_.with_share_only);
}

// Only what changes; the large jobs first, so that they are placed on few hosts.
void RoundPolicy::grant(const View& view, Decision& decision) const {
  std::vector<JobId> stay;
  for (const Pick& pick : picks_) {
    stay.push_back(pick.first);
    if (pick.second.valid()) stay.push_back(pick.second);
  }
  std::sort(stay.begin(), stay.end());
  for (JobId job : view.active()) {
    if (!std::binary_search(stay.begin(), stay.end(), job) && !view.progress(job).placement.empty()) {
      decision.grants.push_back({.job = job, .type = GpuType(0), .gpus = 0, .hosts = {}, .beside = JobId()});
    }
  }
  std::vector<Pick> sorted = picks_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Pick& a, const Pick& b) { return a.gpus > b.gpus; });
  for (const Pick& pick : sorted) {
    if (!sits(view.progress(pick.first), pick.type, pick.gpus, pick.second)) {
      decision.grants.push_back(
          {.job = pick.first, .type = pick.type, .gpus = pick.gpus, .hosts = {}, .beside = JobId()});
    }
    if (pick.second.valid() && !sits(view.progress(pick.second), pick.type, pick.gpus, pick.first)) {
      decision.grants.push_back(
          {.job = pick.second, .type = pick.type, .gpus = pick.gpus, .hosts = {}, .beside = pick.first});
    }
  }
}

double RoundPolicy::round_length(const View& view, const Decision& decision) const {
  const auto micro_task = [&](JobId id, double rate, int gpus) {
    if (rate <= 0) return 0.0;
    const bool moves = std::any_of(decision.grants.begin(), decision.grants.end(),
                                   [&](const Grant& grant) { return grant.job == id; });
    const double left = view.job(id).work - view.progress(id).work_done;
    return std::min(options_.round_s, left / rate + (moves ? view.change_cost_s(id, gpus) : 0));
  };
  double longest = 0;
  for (const Pick& pick : picks_) {
    const Job& first = view.job(pick.first);
    if (!pick.second.valid()) {
      const double rate =
          view.throughput().rate(first, pick.type, pick.gpus, view.progress(pick.first).work_done).per_s;
      longest = std::max(longest, micro_task(pick.first, rate, pick.gpus));
      continue;
    }
    const auto [a, b] = view.throughput().shared_rate(first, view.job(pick.second), pick.type, pick.gpus);
    longest = std::max({longest, micro_task(pick.first, a, pick.gpus), micro_task(pick.second, b, pick.gpus)});
  }
  return longest > 0 && longest < options_.round_s ? longest + kSlack : options_.round_s;
}

absl::StatusOr<Decision> RoundPolicy::decide(const View& view, std::span<const Event> events) {
  Decision decision;
  if (!take_note(view, events)) {
    decision.wake_at_s = round_ends_s_;
    return decision;
  }
  close_round(view.now_s());
  picks_.clear();
  round_ends_s_ = -1;  // the next event begins a round
  if (view.active().empty()) return decision;
  const bool due = stale_ && (view.now_s() - allocated_s_ >= options_.reset_s || allocated_s_ <= 0);
  if (disturbed_ || due) SCALAI_RETURN_IF_ERROR(allocate(view));
  picks_ = choose(view);
  if (picks_.empty() && stale_) {
    SCALAI_RETURN_IF_ERROR(allocate(view));
    picks_ = choose(view);
  }
  grant(view, decision);
  if (picks_.empty()) {
    return decision;  // nobody can run on what is up
  }
  ++count_;
  round_began_s_ = view.now_s();
  round_ends_s_ = round_began_s_ + round_length(view, decision);
  decision.wake_at_s = round_ends_s_;
  return decision;
}

absl::Status IdealShares::begin(const View& /*view*/) {
  return absl::FailedPreconditionError(
      "ideal=true applies shares of GPUs continuously: only to the jobs of a workload, without virtual_clusters and "
      "estimates");
}

absl::StatusOr<Decision> IdealShares::decide(const View& view, std::span<const Event> /*events*/) {
  return begin(view);
}

std::string RoundPolicy::remarks() const {
  const std::string rule = rule_->remarks();
  return fmt::format("{} rounds{}{}", count_, rule.empty() ? "" : "; ", rule);
}

}  // namespace scalai::policy
