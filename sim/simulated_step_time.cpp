#include "sim/simulated_step_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/cost/step/degraded_cluster.h"
#include "sim/iteration.h"

namespace scalai::sim {
namespace {

using step::ChunkWork;
using step::Communication;
using step::Hardware;
using step::StageGpu;
using step::StageWork;
using step::StepInput;
using step::StepParts;

double speed_of(const StepInput& input, DeviceId device) {
  const auto found = input.speed.find(device);
  return found == input.speed.end() ? 1 : found->second;
}

struct Work {
  std::vector<StepParts> parts;
  std::vector<int> parts_of_rank;
};

// Slow links decide how much of a collective work hides, and which link bounds it. A link that is down is left to the
// flows: only a job that needs it stands still.
Hardware hardware_of(const StepInput& job) {
  std::map<std::string, double> slow = job.links;
  std::erase_if(slow, [](const auto& link) { return link.second == 0; });
  const std::optional<cluster::Cluster> left =
      slow.empty() ? std::nullopt : step::degraded_cluster(job.cluster, job.devices, slow);
  return step::hardware_of(left ? *left : job.cluster, job.config, job.devices, job.speed);
}

Work work_of(const StepInput& job) {
  Hardware hardware = hardware_of(job);
  std::vector<StageGpu> kinds;
  Work work;
  for (const DeviceId device : job.devices) {
    const cluster::Host& host = job.cluster.hosts[static_cast<size_t>(job.cluster.host_of(device).value)];
    const StageGpu own{.gpu = host.gpu, .speed = speed_of(job, device), .slowest = hardware.stages.front().slowest};
    const auto known = std::find(kinds.begin(), kinds.end(), own);
    work.parts_of_rank.push_back(static_cast<int>(known - kinds.begin()));
    if (known == kinds.end()) kinds.push_back(own);
  }
  for (const StageGpu& kind : kinds) {
    hardware.stages = {kind};
    work.parts.push_back(step::step_parts({job.model, job.config, job.training}, hardware));
  }
  return work;
}

void append(std::string& text, double number) { fmt::format_to(std::back_inserter(text), " {}", number); }

void append(std::string& text, const Communication& what) {
  fmt::format_to(std::back_inserter(text), " {}", static_cast<int>(what.link));
  for (const double number : {what.latency_s, what.bytes, what.seconds}) append(text, number);
}

void append(std::string& text, const std::vector<ChunkWork>& chunks) {
  for (const ChunkWork& chunk : chunks) {
    append(text, chunk.compute_s());
    for (const Communication* what : {&chunk.tp, &chunk.cp, &chunk.ep, &chunk.dp}) append(text, *what);
  }
}

std::string text_of(const StepParts& parts) {
  std::string text = fmt::format("{} {} {} {} {}", parts.micro_batches, parts.gradients_hidden, parts.parameters_hidden,
                                 parts.sends_hidden, parts.sends_block);
  for (const StageWork& stage : parts.stages) {
    append(text, stage.forward);
    append(text, stage.backward);
    for (const Communication* what : {&stage.send, &stage.gradients, &stage.parameters, &stage.embedding}) {
      append(text, *what);
    }
    append(text, stage.optimizer_s);
  }
  return text;
}

std::string text_of(const cluster::Host& h) {
  return fmt::format("{} {} {} {} {} {}", h.gpus, h.gpu_link_bytes_per_s, h.pcie_bytes_per_s, h.nics, h.nic_bytes_per_s,
                     h.copy_bytes_per_s);
}

// Everything that an answer depends on, hosts and leaves numbered in the order in which the jobs use them.
class Shape {
 public:
  explicit Shape(const cluster::Cluster& cluster)
      : cluster_(cluster), tiers_(cluster::tiers_of(cluster)), blocks_(tiers_.size()) {
    text_ = fmt::format("{} {} {} {} {}", static_cast<int>(cluster.fabric), cluster.oversubscription,
                        cluster.group_oversubscription, cluster.backbone_bytes_per_s, cluster.machine_copy_bytes_per_s);
  }

  void add(const StepInput& job, const Work& work) {
    text_ += fmt::format("\njob {} {}", collection::canonical(job.config), static_cast<int>(job.training.schedule));
    for (const StepParts& parts : work.parts) text_ += "\n" + text_of(parts);
    text_ += "\n";
    for (size_t rank = 0; rank < job.devices.size(); ++rank) {
      const DeviceId device = job.devices[rank];
      text_ += fmt::format("{}.{}", host_number(static_cast<int>(cluster_.host_of(device).value)),
                           cluster_.local_index(device));
      if (const int parts = work.parts_of_rank[rank]; parts != 0) text_ += fmt::format("p{}", parts);
      text_ += ' ';
    }
  }

  // Degraded links of hosts that are used, and those of the fabric.
  std::string text(const std::map<std::string, double>& links) {
    for (const auto& [name, share] : links) {
      if (share == 1) continue;
      const size_t end = name.find('.');
      std::string own = name;
      if (const int host = number_after(name, "h", end); host >= 0) {
        const auto found = hosts_.find(host);
        if (found == hosts_.end()) continue;
        own = fmt::format("H{}{}", found->second, name.substr(end));
      } else if (const std::optional<std::string> of_switch = switch_name(name, end)) {
        if (of_switch->empty()) continue;
        own = *of_switch;
      }
      text_ += fmt::format("\n{}={}", own, share);
    }
    return std::move(text_);
  }

 private:
  // What a switch carries follows from the NICs of all hosts below it.
  double nic_rate_of(const cluster::Tier& tier, int block) const {
    double nics_bytes_per_s = 0;
    const int all = static_cast<int>(cluster_.hosts.size()), first = block * tier.hosts;
    const int end = tier.hosts > 0 ? std::min(first + tier.hosts, all) : all;
    for (int h = first; h < end; ++h) {
      nics_bytes_per_s +=
          cluster_.hosts[static_cast<size_t>(h)].nics * cluster_.hosts[static_cast<size_t>(h)].nic_bytes_per_s;
    }
    return nics_bytes_per_s;
  }

  // Of an uplink, its name by the numbers here: "T0.3:1.up", switch 1 of the fourth block of the first tier; "": no job
  // has a host below it. Nothing: it is another kind of link.
  std::optional<std::string> switch_name(const std::string& name, size_t end) const {
    for (size_t t = 0; t < tiers_.size(); ++t) {
      const cluster::Tier& tier = tiers_[t];
      const int number = number_after(name, tier.name, end);
      if (number < 0) continue;
      const int side = tier.nics > 0 ? tier.nics : 1;
      const auto found = blocks_[t].find(number / side);
      if (found == blocks_[t].end()) return "";
      return fmt::format("T{}.{}:{}{}", t, found->second, number % side, name.substr(end));
    }
    return std::nullopt;
  }

  // 12 of "h12.nic0.up" after "h", or "leaf12.up" after "leaf", else -1.
  static int number_after(const std::string& name, std::string_view prefix, size_t end) {
    const size_t first = prefix.size();
    if (!name.starts_with(prefix) || end == std::string::npos || end <= first) return -1;
    const std::string digits = name.substr(first, end - first);
    return digits.find_first_not_of("0123456789") == std::string::npos ? std::stoi(digits) : -1;
  }

  int host_number(int host) {
    const auto [found, is_new] = hosts_.try_emplace(host, static_cast<int>(hosts_.size()));
    if (!is_new) return found->second;
    const cluster::Host& kind = cluster_.hosts[static_cast<size_t>(host)];
    text_ += fmt::format("({}", text_of(kind));
    for (size_t t = 0; t < tiers_.size(); ++t) {
      const int block = tiers_[t].hosts > 0 ? host / tiers_[t].hosts : 0;
      const auto known = blocks_[t].try_emplace(block, static_cast<int>(blocks_[t].size())).first;
      text_ += fmt::format(" {} {} of {}", tiers_[t].name, known->second, nic_rate_of(tiers_[t], block));
    }
    if (kind.nvlink_domain >= 0) {
      const auto known = domains_.try_emplace(kind.nvlink_domain, static_cast<int>(domains_.size())).first;
      text_ += fmt::format(" domain {}", known->second);
    }
    text_ += ") ";
    return found->second;
  }

  const cluster::Cluster& cluster_;
  const std::vector<cluster::Tier> tiers_;
  std::string text_;
  std::map<int, int> hosts_, domains_;      // by index: number
  std::vector<std::map<int, int>> blocks_;  // by tier: of hosts below the same switches, by index: number
};

std::vector<double> capacities_of(const change::Platform& platform, const std::map<std::string, double>& shares) {
  std::vector<double> capacities;
  for (const change::LinkSpec& link : platform.spec().links) capacities.push_back(link.bandwidth_bytes_per_s);
  for (const auto& [name, share] : shares) {
    if (const int link = platform.link(name); link >= 0) capacities[static_cast<size_t>(link)] *= share;
  }
  return capacities;
}

std::vector<double> simulate(std::span<const StepInput> together, std::span<const Work> works) {
  const change::Platform platform(together.front().cluster);
  std::vector<IterationJob> jobs;
  for (size_t j = 0; j < together.size(); ++j) {
    const StepInput& job = together[j];
    jobs.push_back({.config = job.config,
                    .schedule = job.training.schedule,
                    .devices = job.devices,
                    .parts = works[j].parts,
                    .parts_of_rank = works[j].parts_of_rank});
  }
  return simulate_iterations(platform, capacities_of(platform, together.front().links), jobs).step_s;
}

}  // namespace

std::vector<double> SimulatedStepTime::steps_s(std::span<const StepInput> together) const {
  if (together.empty()) return {};
  Shape shape(together.front().cluster);
  std::vector<Work> works;
  for (const StepInput& job : together) {
    SCALAI_CHECK(&job.cluster == &together.front().cluster, "jobs of several clusters");
    works.push_back(work_of(job));
    shape.add(job, works.back());
  }
  const auto [known, is_new] = known_.try_emplace(shape.text(together.front().links));
  if (is_new) {
    known->second = simulate(together, works);
    ++simulated_;
  }
  return known->second;
}

}  // namespace scalai::sim
