#include "sim/iteration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/cost/change/maxmin.h"
#include "sim/internal/at.h"
#include "sim/internal/iteration_engine.h"
#include "sim/internal/iteration_graph.h"

namespace scalai::sim {
namespace {

void check(std::span<const IterationJob> jobs) {
  for (const IterationJob& job : jobs) {
    SCALAI_CHECK(static_cast<int>(job.devices.size()) == job.config.world());
    SCALAI_CHECK(!job.parts.empty() && static_cast<int>(job.parts.front().stages.size()) == job.config.pp);
    SCALAI_CHECK(job.parts_of_rank.empty() || job.parts_of_rank.size() == job.devices.size());
  }
}

change::NetworkSpec with_capacities(const change::NetworkSpec& network, std::span<const double> capacities) {
  change::NetworkSpec changed = network;
  SCALAI_CHECK(capacities.empty() || capacities.size() == network.links.size());
  for (size_t link = 0; link < capacities.size(); ++link) changed.links[link].bandwidth_bytes_per_s = capacities[link];
  return changed;
}

std::vector<std::vector<int>> links_of_jobs(const change::Platform& platform, std::span<const IterationJob> jobs) {
  std::vector<std::vector<int>> links(jobs.size());
  for (const IterationRank& rank : graph_of(platform, jobs).ranks) {
    std::vector<int>& of_job = links[at(rank.job)];
    for (const auto& ways : rank.flows) {
      for (const FlowEnds& ends : ways) {
        if (ends.src < 0) continue;
        const std::vector<int>& up = platform.spec().endpoints[at(ends.src)].up;
        const std::vector<int>& down = platform.spec().endpoints[at(ends.dst)].down;
        of_job.insert(of_job.end(), up.begin(), up.end());
        of_job.insert(of_job.end(), down.begin(), down.end());
      }
    }
  }
  return links;
}

// Jobs that share a link, directly or through others: only these can feel each other. Simulated by themselves, the
// others' results do not depend on who else there is, to the last bit.
std::vector<std::vector<size_t>> jobs_that_meet(const std::vector<std::vector<int>>& links, size_t all_links) {
  std::vector<size_t> group(links.size());
  std::iota(group.begin(), group.end(), size_t{0});
  std::vector<int> first_user(all_links, -1);
  for (size_t job = 0; job < links.size(); ++job) {
    for (const int link : links[job]) {
      int& first = first_user[at(link)];
      if (first < 0) first = static_cast<int>(job);
      const size_t other = group[at(first)], own = group[job];
      if (other != own) std::replace(group.begin(), group.end(), std::max(own, other), std::min(own, other));
    }
  }
  std::vector<std::vector<size_t>> groups(links.size());
  for (size_t job = 0; job < links.size(); ++job) groups[group[job]].push_back(job);
  std::erase_if(groups, [](const std::vector<size_t>& jobs) { return jobs.empty(); });
  return groups;
}

IterationResult simulate_together(const change::Platform& platform, const change::NetworkSpec& network,
                                  std::span<const IterationJob> jobs, const IterationOptions& options) {
  FoldedIteration folded{.graph = graph_of(platform, jobs), .network = network};
  if (options.fold) folded = fold(folded.graph, network, symmetry_of(folded.graph, network));
  change::MaxMinBackend backend(folded.network);
  return IterationEngine(backend, folded.graph, jobs, options).run();
}

void add_work(const IterationResult& part, IterationResult& sum) {
  sum.units = std::max(sum.units, part.units);
  sum.flows += part.flows;
  sum.events += part.events;
}

struct Shortened {
  std::vector<step::StepParts> parts;
  IterationJob job;
  Shortened(const IterationJob& whole, int micro_batches)
      : parts(whole.parts.begin(), whole.parts.end()),
        job{.config = whole.config,
            .schedule = whole.schedule,
            .devices = whole.devices,
            .parts = parts,
            .parts_of_rank = whole.parts_of_rank} {
    for (step::StepParts& each : parts) each.micro_batches = micro_batches;
  }
  Shortened(const Shortened&) = delete;
  Shortened& operator=(const Shortened&) = delete;
};

constexpr int kMostShortened = 4096;

// As many as pipelines and options need, with the same rest over pp.
int fewer_micro_batches(const IterationJob& job, int least) {
  const int m = job.parts.front().micro_batches, pp = job.config.pp;
  const int64_t groups = std::max<int64_t>((least + pp - 1) / pp, 8);
  return static_cast<int>(std::min<int64_t>(m, groups * pp + m % pp));
}

// The slowest stage's work on a micro-batch: no step grows by less for one more, but 2BW's while gradients take all of
// it.
double work_of_micro_batch(const IterationJob& job) {
  double most = 0;
  for (int stage = 0; stage < job.config.pp; ++stage) {
    double least = std::numeric_limits<double>::infinity();  // of the GPUs it may have
    for (const step::StepParts& parts : job.parts) {
      double work = 0;
      for (const step::ChunkWork& chunk : parts.stages[at(stage)].forward) work += chunk.compute_s();
      for (const step::ChunkWork& chunk : parts.stages[at(stage)].backward) work += chunk.compute_s();
      least = std::min(least, work);
    }
    most = std::max(most, least);
  }
  return most;
}

// One job by itself: what its step takes and, where it is long, how that grows.
IterationResult simulate_alone(const change::Platform& platform, const change::NetworkSpec& network,
                               const IterationJob& job, const IterationOptions& options) {
  const int64_t m = job.parts.front().micro_batches;
  IterationResult sum;
  for (int64_t least = options.most_micro_batches; least > 0; least *= 2) {
    const int fewer = fewer_micro_batches(job, static_cast<int>(least));
    const int apart = (fewer / job.config.pp + 1) / 2 * job.config.pp;
    if (fewer + 2 * apart >= m) break;
    std::array<double, 3> steps = {};
    for (int i = 0; i < 3; ++i) {
      const Shortened shortened(job, fewer + i * apart);
      const IterationResult part = simulate_together(platform, network, {&shortened.job, 1}, options);
      add_work(part, sum);
      steps[at(i)] = part.step_s.front();
    }
    const double first = steps[1] - steps[0], second = steps[2] - steps[1];
    const bool on_a_line = std::abs(second - first) <= 1e-9 * steps[2];
    const bool works = second >= (1 - 1e-9) * apart * work_of_micro_batch(job);
    if ((!on_a_line || !works) && fewer + 2 * apart < kMostShortened) continue;
    const double each = std::max(second / apart, work_of_micro_batch(job));
    sum.step_s = {steps[2] + each * static_cast<double>(m - fewer - 2 * apart)};
    return sum;
  }
  const IterationResult whole = simulate_together(platform, network, {&job, 1}, options);
  add_work(whole, sum);
  sum.step_s = whole.step_s;
  return sum;
}

IterationResult simulate_group(const change::Platform& platform, const change::NetworkSpec& network,
                               std::span<const IterationJob> jobs, const IterationOptions& options) {
  if (jobs.size() == 1) return simulate_alone(platform, network, jobs.front(), options);
  std::vector<std::unique_ptr<Shortened>> shortened;
  std::vector<IterationJob> together;
  std::vector<double> longer;
  IterationResult sum;
  for (const IterationJob& job : jobs) {
    const int m = job.parts.front().micro_batches;
    const int fewer = options.most_micro_batches > 0 ? fewer_micro_batches(job, 8 * options.most_micro_batches) : m;
    shortened.push_back(std::make_unique<Shortened>(job, fewer));
    together.push_back(shortened.back()->job);
    longer.push_back(1);
    if (fewer == m) continue;
    const IterationResult whole = simulate_alone(platform, network, job, options);
    const IterationResult part = simulate_alone(platform, network, together.back(), options);
    add_work(whole, sum);
    add_work(part, sum);
    longer.back() = whole.step_s.front() / part.step_s.front();
  }
  const IterationResult result = simulate_together(platform, network, together, options);
  add_work(result, sum);
  sum.step_s = result.step_s;
  for (size_t j = 0; j < jobs.size(); ++j) sum.step_s[j] *= longer[j];
  return sum;
}

}  // namespace

IterationResult simulate_iterations(const change::Platform& platform, std::span<const double> capacities,
                                    std::span<const IterationJob> jobs, const IterationOptions& options) {
  check(jobs);
  const change::NetworkSpec network = with_capacities(platform.spec(), capacities);
  std::vector<std::vector<int>> links = links_of_jobs(platform, jobs);
  const auto is_down = [&](int link) { return network.links[at(link)].bandwidth_bytes_per_s <= 0; };
  std::vector<bool> stopped(jobs.size(), false);
  for (size_t j = 0; j < jobs.size(); ++j) {
    stopped[j] = std::any_of(links[j].begin(), links[j].end(), is_down);
    if (stopped[j]) links[j].clear();
  }
  IterationResult result;
  result.step_s.assign(jobs.size(), std::numeric_limits<double>::infinity());
  for (const std::vector<size_t>& group : jobs_that_meet(links, network.links.size())) {
    if (stopped[group.front()]) continue;  // alone, as it sends nothing
    std::vector<IterationJob> together;
    for (const size_t j : group) together.push_back(jobs[j]);
    const IterationResult part = simulate_group(platform, network, together, options);
    for (size_t i = 0; i < group.size(); ++i) result.step_s[group[i]] = part.step_s[i];
    result.units += part.units;
    result.flows += part.flows;
    result.events += part.events;
  }
  return result;
}

}  // namespace scalai::sim
