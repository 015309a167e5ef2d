#include "labs/validation/policies/emulations/gavel_rules.h"

#include <algorithm>
#include <numeric>

#include "ptc/run/policy/policies/shares/round_policy.h"

namespace scalai::policy::validation {

// Forgets the jobs that ended; returns the queue, and in `left` the GPUs that are free. The head of the queue takes the
// place of a job that ended, counted against the GPUs that earlier jobs left of all.
std::vector<size_t> GavelFifo::refill(const ShareProblem& problem, std::vector<int>& left) {
  std::map<JobId, size_t> places;
  std::vector<size_t> queue;
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    places[problem.jobs[m].id] = m;
    if (!type_of_.contains(problem.jobs[m].id)) queue.push_back(m);
  }
  std::map<JobId, size_t> next;
  for (const auto& [job, type] : type_of_) {
    if (const auto place = places.find(job); place != places.end()) {
      left[type] -= problem.jobs[place->second].gpus;
      next[job] = type;
      continue;
    }
    if (queue.empty()) continue;
    const ShareJob& head = problem.jobs[queue.front()];
    if (head.gpus > left[type] || head.rates[type] <= 0) continue;
    left[type] -= head.gpus;
    next[head.id] = type;
    queue.erase(queue.begin());
  }
  type_of_ = std::move(next);
  return queue;
}

void GavelFifo::place(const ShareProblem& problem, const std::vector<size_t>& queue, std::vector<int>& left) {
  std::vector<size_t> types;  // with room at first, the slowest first
  const std::vector<GpuType> order = fastest_first(problem);
  for (auto type = order.rbegin(); type != order.rend(); ++type) {
    if (left[static_cast<size_t>(type->value)] > 0) types.push_back(static_cast<size_t>(type->value));
  }
  for (const size_t m : queue) {
    const ShareJob& job = problem.jobs[m];
    const auto room = std::find_if(types.begin(), types.end(), [&](size_t j) { return left[j] >= job.gpus; });
    if (room == types.end()) break;
    const size_t type = types.back();
    if (job.rates[type] <= 0) continue;
    type_of_[job.id] = type;
    left[type] -= job.gpus;
    if (left[type] == 0) types.erase(room);
  }
}

absl::StatusOr<Shares> GavelFifo::shares(const ShareProblem& problem) {
  std::vector<int> left = problem.gpus;
  place(problem, refill(problem, left), left);
  Shares shares;
  shares.alone.assign(problem.jobs.size(), std::vector<double>(problem.gpus.size()));
  shares.paired.resize(problem.pairs.size());
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (const auto type = type_of_.find(problem.jobs[m].id); type != type_of_.end()) shares.alone[m][type->second] = 1;
  }
  return shares;
}

bool GavelGandiva::worth_it(const ShareProblem& problem, const std::vector<double>& by_type) const {
  return by_type.size() == problem.gpus.size() && std::accumulate(by_type.begin(), by_type.end(), 0.0) >= 1;
}

std::unique_ptr<Policy> make_gavel_emulation(const std::string& name, uint64_t seed) {
  RoundOptions options;
  options.seed = seed;
  const PolicyTraits traits = {.preemptive = true, .stochastic = true};
  if (name == "gandiva") {
    options.packing = true;
    return std::make_unique<RoundPolicy>(options, std::make_unique<GavelGandiva>(seed), traits);
  }
  if (name != "gavel-fifo") return nullptr;
  options.shuffle_types = true;
  options.with_share_only = true;
  return std::make_unique<RoundPolicy>(options, std::make_unique<GavelFifo>(), traits);
}

}  // namespace scalai::policy::validation
