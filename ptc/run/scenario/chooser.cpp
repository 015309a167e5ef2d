#include "ptc/run/scenario/chooser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::scenario {
namespace {

using collection::ParallelConfig;

// 0 means unlimited.
double most(double a, double b) { return a == 0 || b == 0 ? 0 : std::max(a, b); }

// A host as good as the best of these in memory, links and NICs. Where they differ the kinds themselves bound the
// search.
cluster::Host strongest(const cluster::Cluster& cluster, const std::vector<DeviceId>& devices) {
  cluster::Host merged;
  bool first = true;
  for (const cluster::Host& host : cluster::joined_hosts(devices, cluster)) {
    if (std::exchange(first, false)) {
      merged = host;
      continue;
    }
    if (host.gpu.peak_flops > merged.gpu.peak_flops) merged.gpu = host.gpu;
    merged.gpu_link_bytes_per_s = most(merged.gpu_link_bytes_per_s, host.gpu_link_bytes_per_s);
    // All NICs as one, so that a GPU's share is right.
    const double nics_bytes_per_s = most(merged.nics * merged.nic_bytes_per_s, host.nics * host.nic_bytes_per_s);
    merged.gpus = std::max(merged.gpus, host.gpus);
    merged.nics = 1;
    merged.nic_bytes_per_s = nics_bytes_per_s;
  }
  return merged;
}

int64_t smallest_memory(const cluster::Cluster& cluster, const std::vector<DeviceId>& devices) {
  int64_t smallest = 0;
  for (const DeviceId device : devices) {
    const int64_t memory = cluster.hosts[static_cast<size_t>(cluster.host_of(device).value)].gpu.memory_bytes;
    smallest = smallest == 0 ? memory : std::min(smallest, memory);
  }
  return smallest;
}

// All devices are nominal, on whole hosts of one kind whose NICs nothing narrows: then any of them will do.
bool uniform(const cluster::Cluster& cluster, const Chooser::Question& question) {
  const auto degraded = [&](DeviceId device) { return question.speed.count(device) != 0; };
  if (!cluster::is_wide(cluster) || std::any_of(question.devices.begin(), question.devices.end(), degraded))
    return false;
  for (const auto& [host, there] : cluster::devices_by_host(question.devices, cluster)) {
    if (static_cast<int>(there.size()) != cluster.hosts[static_cast<size_t>(host.value)].gpus) return false;
  }
  const std::vector<cluster::Host> hosts = cluster::joined_hosts(question.devices, cluster);
  const cluster::Host& first = hosts.front();
  return std::all_of(hosts.begin(), hosts.end(), [&](const cluster::Host& host) {
    return host.gpus == first.gpus && host.gpu == first.gpu &&
           host.gpu_link_bytes_per_s == first.gpu_link_bytes_per_s && host.nics == first.nics &&
           host.nic_bytes_per_s == first.nic_bytes_per_s && host.price_per_hour == first.price_per_hour;
  });
}

// Everything as in `choice`, but dp, and how a rank trains, as pinned.
step::Pins all_but_dp(const ParallelChoice& choice, const step::Pins& pinned) {
  step::Pins pins = step::pins_of(choice.config);
  pins.dp = pinned.dp;
  pins.micro_batch = pinned.micro_batch;
  pins.recompute = pinned.recompute;
  return pins;
}

step::Candidate held_of(const Chooser::Question& question) {
  return {.config = question.held->config,
          .training = question.held->training.value_or(question.job.training),
          .time = question.held_time};
}

step::SearchSpace space_of(const Chooser::Question& question, const cluster::Cluster& cluster) {
  const JobSpec& job = question.job;
  const ChoosePolicy& policy = *job.choose;
  step::SearchSpace space;
  space.gpus = static_cast<int>(question.devices.size());
  space.all_gpus = false;
  space.host = strongest(cluster, question.devices);
  space.base = job.training;
  space.micro_batches = policy.micro_batches;
  space.pins = question.all_but_dp == nullptr ? policy.pins : all_but_dp(*question.all_but_dp, policy.pins);
  if (space.pins.zero) space.zero_stages = {*space.pins.zero};
  space.objective = policy.objective;
  space.headroom = step::kHeadroom;
  space.batch_tolerance = policy.batch_tolerance;
  space.explain_idle = question.explain_idle;
  space.memory_bytes = smallest_memory(cluster, question.devices);
  space.keep = 1;
  space.horizon_s = policy.horizon_s;
  space.change = question.change;
  space.least_change_s = question.least_change_s;
  if (question.held != nullptr) {  // for as many samples
    space.stay_step_s = even_step_s(space, held_of(question));
  }
  if (uniform(cluster, question)) return space;
  space.host_kinds = step::kinds_of_hosts(question.devices, cluster);
  space.hardware = [&cluster, &question](const ParallelConfig& config) {
    const step::Math math = question.job.training.precision.math;
    return step::hardware_of(cluster, config, devices_for(config, question.devices, cluster, math, question.speed),
                             question.speed, math);
  };
  return space;
}

std::string key_of(const Chooser::Question& question) {
  std::string key = question.job.name + (question.all_but_dp == nullptr ? "|" : "|dp|");
  for (const DeviceId device : question.devices) {
    const auto slow = question.speed.find(device);
    key += fmt::format("{}{}", device.value, slow == question.speed.end() ? " " : fmt::format("x{} ", slow->second));
  }
  return key;
}

absl::Status nothing_fits(const JobSpec& job, const step::SearchResult& result, int64_t memory, int gpus) {
  if (!result.no_fit) return missing(fmt::format("no configuration of {} on {} GPUs", job.shape.name, gpus));
  const step::NoFit& why = *result.no_fit;
  std::string text = fmt::format(
      "no configuration of {} fits {} GPUs: {} lacks least and takes {} of {} with {:g} % free, most of it {}",
      job.shape.name, gpus, collection::canonical(why.nearest.config),
      format_bytes(static_cast<int64_t>(why.memory.bytes())), format_bytes(memory), 100 * step::kHeadroom,
      why.tightest_term);
  if (!why.remedies.empty()) text += fmt::format("; {}", fmt::join(why.remedies, "; "));
  return absl::NotFoundError(text);
}

}  // namespace

Chooser::Chooser(const cluster::Cluster& cluster, Search search) : cluster_(cluster), search_(std::move(search)) {}

Chooser::Found Chooser::look(const JobSpec& job, const step::SearchSpace& space) const {
  const absl::StatusOr<step::SearchResult> result = search_(job.shape, space);
  if (!result.ok()) return {.choice = result.status()};
  if (result->best.empty()) return {.choice = nothing_fits(job, *result, space.memory_bytes, space.gpus)};
  const step::Candidate& best = result->best.front();
  return {.choice = Choice{{.config = best.config, .training = best.training, .idle = result->idle}},
          .score = best.score};
}

absl::StatusOr<Chooser::Choice> Chooser::best(const Question& question) {
  const JobSpec& job = question.job;
  SCALAI_CHECK(job.choose.has_value(), job.name);
  if (question.devices.empty()) return absl::NotFoundError("no devices");
  const bool changing = question.change != nullptr;  // an answer that holds for this moment only
  const step::SearchSpace space = space_of(question, cluster_);
  const std::string key = changing ? "" : key_of(question);
  auto known = found_.find(key);
  if (changing || known == found_.end()) known = found_.insert_or_assign(key, look(job, space)).first;
  const Found& found = known->second;
  if (question.held == nullptr) return found.choice;
  const double held_score = score_of(space, held_of(question), question.held_hardware);
  constexpr double kEqual = 1e-9;  // the same sums in another order
  const bool better = found.choice.ok() && found.score < held_score * (1 - kEqual);
  if (better) return found.choice;
  return Choice{*question.held, /*held=*/true};
}

}  // namespace scalai::scenario
