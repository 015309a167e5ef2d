#include "ptc/cost/change/setup.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/cost/change/costs.h"

namespace scalai::change {
namespace {

constexpr double kStep_s = 0.15e-3;  // of a ring over a large cluster
constexpr int kStaggered = 128;      // NCCL staggers groups above this

std::vector<Stack> make_stacks() {
  const Stack stock_2025 = {
      .name = "stock-2025",
      .software = "PyTorch 2.4 and later, NCCL 2.23 to 2.28; containers are built again",
      .detect_s = 15,  // torchelastic: a node's keep-alive, 3 of 5 s
      .hang_s = 600,   // PyTorch's NCCL watchdog
      .diagnose_s = 300,
      .detect = {2, 60},
      .hang = {300, 3600},
      .restart_least_s = 65,
      .restart_2048_s = 445.7,
      .restart_doubling_s = 103.2,
      .restart = {65, 1380},
      .store_s_per_rank = 1.02e-3,
      .kernels_s = 0.13,
      .allocate_s = 0.05,
      .allocate_s_per_gpu = 0.22,
      .each_s = 0.03,
      .across_hosts_s = 0.2,
      .allgathers = 3,
      .square_s = 7.24e-9,
      .initialisation = {0.69, 4.0},
  };
  Stack stock_2022 = stock_2025;
  stock_2022.name = "stock-2022";
  stock_2022.software = "PyTorch 1.x to 2.0, NCCL 2.10 to 2.17; containers are built again";
  stock_2022.barrier_per_group = true;
  stock_2022.barrier_least_s = 15e-3;
  stock_2022.barrier_s_per_rank = 0.456e-3;
  stock_2022.kernels_s = stock_2022.allocate_s = stock_2022.allocate_s_per_gpu = 0;
  stock_2022.each_s = 2.04;
  stock_2022.across_hosts_s = 2;
  stock_2022.stagger_s_per_rank = 1e-3;
  stock_2022.allgathers = 4;
  stock_2022.initialisation = {0.5, 2.2};
  const Stack tuned = {
      .name = "tuned",
      .software = "one's own scheduler and NCCL (MegaScale, ByteRobust, NCCLX); containers stay",
      .detect_s = 10,
      .hang_s = 60,
      .diagnose_s = 120,
      .detect = {2, 60},
      .hang = {60, 900},
      .restart_least_s = 27,
      .restart_2048_s = 45,
      .restart_doubling_s = 6,
      .restart = {20, 65},
      .barrier_least_s = 15e-3,
      .barrier_s_per_rank = 0.157e-3,
      .kernels_s = 0.41,
      .each_s = 0.25,
      .allgathers = 3,
      .both_directions = true,
      .initialisation = {0.5, 2.2},
  };
  return {stock_2025, stock_2022, tuned};
}

// One kind: the groups of consecutive `ranks` coordinates that are `stride` ranks apart.
bool crosses(const std::vector<int64_t>& host_of, int ranks, int stride) {
  for (size_t rank = 0; rank < host_of.size(); ++rank) {
    const size_t coordinate = rank / static_cast<size_t>(stride) % static_cast<size_t>(ranks);
    if (coordinate > 0 && host_of[rank] != host_of[rank - static_cast<size_t>(stride)]) return true;
  }
  return false;
}

// The most ranks of one host, if the host's switches reduce.
int ranks_in_switch(const collection::Collection& collection, const cluster::Cluster& cluster) {
  std::map<HostId, int> ranks;
  for (const DeviceId device : collection.device_of_rank) {
    const HostId host = cluster.host_of(device);
    if (cluster.hosts[static_cast<size_t>(host.value)].gpu.in_switch_reduction) ++ranks[host];
  }
  int most = 0;
  for (const auto& [host, count] : ranks) most = std::max(most, count);
  return most > 1 ? most : 0;
}

bool live_on(const std::vector<DeviceId>& devices, const std::vector<DeviceId>& before,
             const std::set<DeviceId>& lost) {
  const std::set<DeviceId> all(before.begin(), before.end());
  return std::all_of(devices.begin(), devices.end(),
                     [&](DeviceId device) { return all.contains(device) && !lost.contains(device); });
}

double group_s(const Stack& stack, const GroupKind& kind) {
  const double n = kind.ranks, steps = stack.both_directions ? std::floor(n / 2) : n - 1;
  return stack.each_s + (kind.across_hosts ? stack.across_hosts_s : 0) +
         (kind.ranks > kStaggered ? stack.stagger_s_per_rank * n : 0) + stack.allgathers * steps * kStep_s +
         stack.square_s * n * n;
}

}  // namespace

Groups groups_of(const collection::Collection& collection, const cluster::Cluster& cluster,
                 const collection::Collection* before, const std::set<DeviceId>& lost) {
  Groups groups{
      .ranks = collection.ranks(),
      .kinds = {},
      .ranks_in_switch = ranks_in_switch(collection, cluster),
      .processes_stay = before != nullptr && live_on(collection.device_of_rank, before->device_of_rank, lost)};
  if (groups.ranks < 2) return groups;
  std::vector<int64_t> host_of;  // an NVLink domain counts as one
  for (const DeviceId device : collection.device_of_rank) host_of.push_back(cluster.domain_of(cluster.host_of(device)));
  const bool hosts = std::any_of(host_of.begin(), host_of.end(), [&](int64_t host) { return host != host_of.front(); });
  groups.kinds.push_back({"world", groups.ranks, 1, hosts});
  std::set<std::string> known;
  for (const collection::Mesh& mesh : collection.meshes) {
    int stride = 1;
    for (const collection::MeshAxis& axis : mesh.axes()) {
      if (axis.size > 1 && known.insert(axis.name).second)
        groups.kinds.push_back(
            {axis.name, axis.size, groups.ranks / axis.size, hosts && crosses(host_of, axis.size, stride)});
      stride *= axis.size;
    }
  }
  if (collection.meshes.empty()) return groups;
  const collection::Mesh& dense = collection.meshes.front();
  const int pp = dense.axis_size("pp"), replica = dense.axis_size("tp") * pp;
  const auto over_stages =
      std::find_if(groups.kinds.begin(), groups.kinds.end(), [](const GroupKind& kind) { return kind.name == "pp"; });
  const bool stages_cross = over_stages != groups.kinds.end() && over_stages->across_hosts;
  const bool tp_crosses = std::any_of(groups.kinds.begin(), groups.kinds.end(),
                                      [](const GroupKind& kind) { return kind.name == "tp" && kind.across_hosts; });
  if (replica > 1) groups.kinds.push_back({"model", replica, groups.ranks / replica, stages_cross || tp_crosses});
  if (pp > 1) groups.kinds.push_back({"embedding", 2, 2 * (groups.ranks / pp), stages_cross});
  return groups;
}

Groups groups_of(int ranks, const cluster::Cluster& cluster) {
  if (ranks < 2) return {};
  const cluster::Host& host = cluster.hosts.front();
  const bool hosts = ranks > cluster::joined(host).gpus;
  return {.ranks = ranks,
          .kinds = {{"world", ranks, 1, hosts}, {"dp", ranks, 1, hosts}},
          .ranks_in_switch = host.gpu.in_switch_reduction ? std::min(ranks, host.gpus) : 0};
}

const std::vector<Stack>& stacks() {
  static const std::vector<Stack> kStacks = make_stacks();
  return kStacks;
}

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const Stack& stack : stacks()) names.emplace_back(stack.name);
  return names;
}

absl::StatusOr<const Stack*> find_stack(std::string_view name) {
  for (const Stack& stack : stacks()) {
    if (stack.name == name) return &stack;
  }
  const std::string near = closest(name, stack_names());
  return invalid(fmt::format("unknown stack \"{}\"{} (one of: {})", name,
                             near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near),
                             fmt::join(stack_names(), ", ")));
}

double initialisation_s(const Stack& stack, const Groups& groups) {
  if (groups.kinds.empty()) return 0;
  double barriers = 0, seconds = stack.store_s_per_rank * groups.ranks;
  if (!groups.processes_stay)
    seconds += stack.kernels_s + stack.allocate_s + stack.allocate_s_per_gpu * groups.ranks_in_switch;
  for (const GroupKind& kind : groups.kinds) {
    barriers += stack.barrier_per_group ? kind.groups : 1;
    seconds += group_s(stack, kind);
  }
  return seconds + barriers * std::max(stack.barrier_least_s, stack.barrier_s_per_rank * groups.ranks);
}

double restart_s(const Stack& stack, int ranks) {
  return std::max(stack.restart_least_s, stack.restart_2048_s + stack.restart_doubling_s * std::log2(ranks / 2048.0));
}

double detect_s(const Costs& costs, bool hangs) {
  if (hangs) return costs.hang_s >= 0 ? costs.hang_s : costs.stack->hang_s + costs.stack->diagnose_s;
  return costs.detect_s >= 0 ? costs.detect_s : costs.stack->detect_s;
}

double restart_s(const Costs& costs, int ranks) {
  return costs.restart_s >= 0 ? costs.restart_s : restart_s(*costs.stack, ranks);
}

double communicator_s(const Costs& costs, const Groups& groups) {
  if (costs.communicator_s >= 0) return costs.communicator_s;
  Groups known = groups;
  known.processes_stay = groups.processes_stay && restart_s(costs, groups.ranks) <= 0;
  return initialisation_s(*costs.stack, known);
}

}  // namespace scalai::change
