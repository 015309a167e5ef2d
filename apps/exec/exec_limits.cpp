#include "apps/exec/exec_limits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>

#include "executor/state/available_memory.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/run/scenario/job_state.h"

namespace scalai::apps {
namespace {

constexpr int64_t kOtherFiles = 64;  // logs, sockets, gRPC

int64_t bytes_on_devices(const scenario::JobSpec& job, const collection::ParallelConfig& config) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < config.world(); ++i) devices.push_back(DeviceId(i));
  const auto side = scenario::collection_of(job, config, devices);
  SCALAI_CHECK(side.ok(), message_of(side.status()));
  int64_t bytes = 0;
  for (int rank = 0; rank < side->ranks(); ++rank) {
    for (size_t i = 0; i < side->tensors.size(); ++i) {
      for (const tensor::Piece& piece : side->pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
        bytes += piece.box.volume() * tensor::size_of(side->tensors[i].dtype);
    }
  }
  return bytes;
}

// How many times its state a job that chooses may take at most: with more GPUs than at first, more replicas.
int64_t growth_of(const scenario::Scenario& scenario, size_t index) {
  const scenario::JobSpec& job = scenario.jobs[index];
  if (!job.choose) return 1;
  int most = std::max(job.gpus, job.max_gpus);
  for (const scenario::ScenarioEvent& event : scenario.events) {
    const auto* resize = std::get_if<scenario::Resize>(&event.what);
    if (resize != nullptr && resize->job == static_cast<int>(index)) most = std::max(most, resize->gpus);
  }
  const int first = job.configs.front().config.world();
  return (most + first - 1) / first;
}

// A NIC that reads and writes memory by itself needs it locked.
bool has_rdma() {
  std::error_code none;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", none);
  return !none && devices != std::filesystem::directory_iterator();
}

}  // namespace

Needs needs_of(const scenario::Scenario& scenario, bool network, bool on_gpus) {
  Needs needs{.locked_memory = network && has_rdma()};
  for (size_t i = 0; i < scenario.jobs.size(); ++i) {
    const scenario::JobSpec& job = scenario.jobs[i];
    int64_t most = 0;
    for (const scenario::ParallelChoice& choice : job.configs)
      most = std::max(most, bytes_on_devices(job, choice.config));
    most *= growth_of(scenario, i);
    const bool copies = job.checkpoint.host_memory_copy || job.redundancy.copies > 0;
    needs.memory += most * ((copies ? 2 : 0) + (on_gpus ? 0 : 2));
    if (job.checkpoint.every_steps > 0) needs.disk += 2 * most;
  }
  const int64_t places = scenario.cluster.device_count() + static_cast<int64_t>(scenario.cluster.hosts.size());
  needs.open_files = 2 * places + kOtherFiles;
  return needs;
}

Limits limits_of(const std::string& folder) {
  rlimit locked{};
  getrlimit(RLIMIT_MEMLOCK, &locked);
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  constexpr auto kMost = static_cast<uint64_t>(INT64_MAX);
  return {.memory = executor::state::available_memory(),
          .disk = unknown ? INT64_MAX : static_cast<int64_t>(std::min<uint64_t>(space.available, kMost)),
          .open_files = raise_open_files(),
          .locked_memory = locked.rlim_cur == RLIM_INFINITY};
}

std::vector<std::string> shortages(const Needs& needs, const Limits& limits, const std::string& folder) {
  std::vector<std::string> lines;
  if (needs.memory > limits.memory) {
    lines.push_back(
        fmt::format("the workers need up to {} of memory, this machine has {} left; make the models narrower "
                    "with --scale-model, or start workers on other machines (--no-workers)",
                    format_bytes(needs.memory), format_bytes(limits.memory)));
  }
  if (needs.disk > limits.disk) {
    lines.push_back(fmt::format("checkpoints need up to {} of disk, {} has {} left; give another --out",
                                format_bytes(needs.disk), folder, format_bytes(limits.disk)));
  }
  if (needs.open_files > limits.open_files) {
    lines.push_back(fmt::format("each worker opens up to {} files, the limit is {} (ulimit -Hn)", needs.open_files,
                                limits.open_files));
  }
  if (needs.locked_memory && !limits.locked_memory) {
    lines.push_back("the network card needs locked memory, and its amount is limited (ulimit -l unlimited)");
  }
  return lines;
}

absl::Status check_limits(const scenario::Scenario& scenario, bool network, bool on_gpus, const std::string& folder) {
  const std::vector<std::string> lines = shortages(needs_of(scenario, network, on_gpus), limits_of(folder), folder);
  return lines.empty() ? absl::OkStatus() : missing(fmt::format("{}", fmt::join(lines, "\n")));
}

}  // namespace scalai::apps
