#include "labs/policies/gandiva_allox.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/shares/program.h"
#include "ptc/run/policy/policies/shares/shares_policies.h"

namespace scalai::policy::labs {
namespace {

Shares no_shares(const ShareProblem& problem) {
  Shares shares;
  shares.alone.assign(problem.jobs.size(), std::vector<double>(problem.gpus.size()));
  shares.paired.resize(problem.pairs.size());
  return shares;
}

std::map<JobId, int> places_of(const ShareProblem& problem) {
  std::map<JobId, int> places;
  for (size_t m = 0; m < problem.jobs.size(); ++m) places[problem.jobs[m].id] = static_cast<int>(m);
  return places;
}

// A whole share on its type for every job that has one.
Shares whole_shares(const ShareProblem& problem, const std::map<JobId, size_t>& type_of) {
  Shares shares = no_shares(problem);
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    if (const auto type = type_of.find(problem.jobs[m].id); type != type_of.end()) shares.alone[m][type->second] = 1;
  }
  return shares;
}

std::vector<double> both_by_type(const ShareProblem& problem, const std::vector<int>& pairs) {
  std::vector<double> both;
  for (const int index : pairs) {
    const SharePair& pair = problem.pairs[static_cast<size_t>(index)];
    const auto type = static_cast<size_t>(pair.type.value);
    both.push_back(pair.first_rate / problem.jobs[static_cast<size_t>(pair.first)].rates[type] +
                   pair.second_rate / problem.jobs[static_cast<size_t>(pair.second)].rates[type]);
  }
  return both;
}

}  // namespace

bool GandivaRule::worth_it(const ShareProblem& /*problem*/, const std::vector<double>& by_type) const {
  return *std::max_element(by_type.begin(), by_type.end()) >= 1;
}

void GandivaRule::dissolve(const ShareProblem& problem, const PairIndex& pairs, const std::map<JobId, int>& places) {
  std::vector<JobId> gone;
  for (const auto& [job, partner] : partner_) {
    const auto first = places.find(job);
    const auto second = places.find(partner);
    bool keep = partner.valid() && first != places.end() && second != places.end();
    if (keep) {
      const auto carried = pairs.find(std::minmax(first->second, second->second));
      keep = carried != pairs.end() && worth_it(problem, both_by_type(problem, carried->second));
      dissolved_ += keep || partner < job ? 0 : 1;
    }
    if (!keep) gone.push_back(job);
  }
  for (JobId job : gone) partner_.erase(job);
}

void GandivaRule::pair_up(const ShareProblem& problem, const std::map<JobId, int>& places) {
  std::vector<JobId> free;
  for (const ShareJob& job : problem.jobs) {
    if (!partner_.contains(job.id)) free.push_back(job.id);
  }
  const auto take = [&] {
    const auto at = free.begin() + static_cast<std::ptrdiff_t>(random_.below(static_cast<int64_t>(free.size())));
    const JobId job = *at;
    free.erase(at);
    return job;
  };
  const auto gpus = [&](JobId job) { return problem.jobs[static_cast<size_t>(places.at(job))].gpus; };
  for (size_t tries = free.size(); tries > 0 && free.size() > 1; --tries) {
    const JobId first = take();
    const JobId second = take();
    if (gpus(first) != gpus(second)) {
      free.insert(std::lower_bound(free.begin(), free.end(), first), first);
      free.insert(std::lower_bound(free.begin(), free.end(), second), second);
      continue;
    }
    partner_[first] = second;
    partner_[second] = first;
    ++paired_;
  }
  for (JobId job : free) partner_[job] = JobId();
}

absl::StatusOr<Shares> GandivaRule::shares(const ShareProblem& problem) {
  const std::map<JobId, int> places = places_of(problem);
  PairIndex pairs;
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    pairs[{problem.pairs[p].first, problem.pairs[p].second}].push_back(static_cast<int>(p));
  }
  dissolve(problem, pairs, places);
  int wanted = 0;
  for (const ShareJob& job : problem.jobs) wanted += job.gpus;
  if (wanted <= std::accumulate(problem.gpus.begin(), problem.gpus.end(), 0)) return isolated_shares(problem);
  pair_up(problem, places);
  Shares shares = no_shares(problem);
  size_t combinations = 0;
  for (const auto& [job, partner] : partner_) combinations += partner.valid() && partner < job ? 0 : 1;
  for (const auto& [job, partner] : partner_) {
    const int first = places.at(job);
    const ShareJob& spec = problem.jobs[static_cast<size_t>(first)];
    std::vector<double> row;
    for (int gpus : problem.gpus) {
      row.push_back(static_cast<double>(gpus) / static_cast<double>(combinations) / spec.gpus);
    }
    const double sum = std::max(1.0, std::accumulate(row.begin(), row.end(), 0.0));
    for (size_t j = 0; j < row.size() && !partner.valid(); ++j) {
      shares.alone[static_cast<size_t>(first)][j] = spec.rates[j] > 0 ? row[j] / sum : 0;
    }
    if (!partner.valid() || partner < job) continue;
    if (const auto carried = pairs.find({first, places.at(partner)}); carried != pairs.end()) {
      for (int index : carried->second) {
        const auto type = static_cast<size_t>(problem.pairs[static_cast<size_t>(index)].type.value);
        shares.paired[static_cast<size_t>(index)] = row[type] / sum;
      }
    }
  }
  return shares;
}

std::string GandivaRule::remarks() const {
  return fmt::format("{} pairs made at random, {} dissolved as not worth it", paired_, dissolved_);
}

absl::StatusOr<Shares> AlloxRule::shares(const ShareProblem& problem) {
  std::vector<int> left = problem.gpus;
  std::map<JobId, size_t> keep;
  std::vector<size_t> queue;  // by age: ids are in order of submission
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    const ShareJob& job = problem.jobs[m];
    if (job.gpus != 1) {
      return invalid(fmt::format("allox serves jobs of one GPU; job {} asks for {}", job.id.value, job.gpus));
    }
    const auto type = type_of_.find(job.id);
    if (type != type_of_.end() && left[type->second] > 0 && job.rates[type->second] > 0) {
      keep.insert(*type);
      --left[type->second];
    } else if (job.runs()) {
      queue.push_back(m);
    }
  }
  type_of_ = std::move(keep);
  const int free = std::accumulate(left.begin(), left.end(), 0);
  const auto considered = static_cast<size_t>(std::max(alpha_ * static_cast<double>(queue.size()), 1.0 * free));
  queue.resize(std::min(queue.size(), considered));
  if (free > 0 && !queue.empty()) SCALAI_RETURN_IF_ERROR(match(problem, queue, left));
  return whole_shares(problem, type_of_);
}

// On n equal GPUs, positions fill evenly: nobody is i-th from the end on one while another has fewer than i - 1 jobs.
// So a type of n GPUs has ceil(jobs / n) positions of n places each, and the matching is a transport problem with a
// whole solution.
absl::Status AlloxRule::match(const ShareProblem& problem, const std::vector<size_t>& queue,
                              const std::vector<int>& left) {
  struct Choice {
    size_t place, type;
    int position, column;
  };
  Program program(Program::Sense::kMinimise);
  std::vector<Choice> choices;
  std::vector<std::vector<Term>> once(queue.size());
  for (size_t j = 0; j < left.size(); ++j) {
    const int positions = left[j] > 0 ? (static_cast<int>(queue.size()) + left[j] - 1) / left[j] : 0;
    for (int position = 1; position <= positions; ++position) {
      std::vector<Term> places;
      for (size_t k = 0; k < queue.size(); ++k) {
        const ShareJob& job = problem.jobs[queue[k]];
        if (job.rates[j] <= 0) continue;
        const int column = program.column({position * job.remaining / job.rates[j]});
        choices.push_back({k, j, position, column});
        once[k].push_back({column, 1});
        places.push_back({column, 1});
      }
      program.at_most(places, left[j]);
    }
  }
  for (const std::vector<Term>& terms : once) {
    if (!terms.empty()) program.equal(terms, 1);
  }
  if (choices.empty()) {
    return absl::OkStatus();  // no free GPU that one of them runs on
  }
  SCALAI_ASSIGN_OR_RETURN(const Solution solution, program.solve());
  // Those furthest from the end start: of each type as many as it has GPUs, ties by age.
  std::vector<Choice> chosen;
  for (const Choice& choice : choices) {
    if (solution.values[static_cast<size_t>(choice.column)] > 0.5) chosen.push_back(choice);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const Choice& a, const Choice& b) { return a.position > b.position; });
  std::vector<int> room = left;
  for (const Choice& choice : chosen) {
    if (room[choice.type]-- > 0) type_of_[problem.jobs[queue[choice.place]].id] = choice.type;
  }
  return absl::OkStatus();
}

namespace {

constexpr PolicyTraits kGandivaTraits = {.preemptive = true, .stochastic = true};
constexpr PolicyTraits kAlloxTraits = {.preemptive = true, .needs_durations = true, .heterogeneous = true};

std::unique_ptr<Policy> make_gandiva(const Parameters& parameters, uint64_t seed) {
  RoundOptions options = round_options(parameters, seed, false);
  options.packing = true;
  return std::make_unique<RoundPolicy>(options, std::make_unique<GandivaRule>(seed), kGandivaTraits);
}

std::unique_ptr<Policy> make_allox(const Parameters& parameters, uint64_t seed) {
  return std::make_unique<RoundPolicy>(round_options(parameters, seed),
                                       std::make_unique<AlloxRule>(parameters.number("alpha")), kAlloxTraits);
}

}  // namespace

std::vector<PolicyInfo> gandiva_allox_policies() {
  std::vector<ParameterInfo> allox = round_parameters();
  allox.push_back({"alpha", "1", "share", "part of the queue that is matched, the oldest"});
  return {{.name = "gandiva",
           .family = "shares",
           .summary = "Gandiva as Gavel emulates it: random pairs of jobs share GPUs when not all fit",
           .source = "Gandiva, OSDI'18, in Gavel's simulator",
           .parameters = round_parameters(false),
           .traits = kGandivaTraits,
           .make = make_gandiva},
          {.name = "allox",
           .family = "shares",
           .summary = "min-cost matching of one-GPU jobs to GPUs and places in their queues",
           .source = "AlloX, EuroSys'20, in Gavel's simulator",
           .parameters = std::move(allox),
           .traits = kAlloxTraits,
           .make = make_allox}};
}

}  // namespace scalai::policy::labs
