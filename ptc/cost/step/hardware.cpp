#include "ptc/cost/step/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <string_view>

#include "ptc/base/status.h"
#include "ptc/cost/step/internal/pipeline_hops.h"
#include "ptc/cost/step/internal/uplinks.h"

namespace scalai::step {
namespace {

using collection::ParallelConfig;

// Kinds whose own shares the catalogue does not have are taken to be as those of their generation that were measured
// (docs/parallelizer.md): with FP8 as H100, else as A100.
constexpr double kMatrix = 0.76, kMatrixOfFp8Kinds = 0.57, kMatrixFp8 = 0.52;
// Of FP4 peaks, fitted on Llama 3 in NVFP4 (results/perfmodel, bridge_nvfp4). cuBLAS's largest products alone reach
// 0.53 on GB200 (github.com/egmsft/AI-benchmarking-guide, ND GB200 v6, 32768³).
constexpr double kMatrixFp4 = 0.39;
constexpr double kMemory = 0.8;
constexpr double kVectorPart = 16;  // of the 16-bit matrix peak, where the vector peak is unknown

// An axis of a mesh: its coordinate of a rank is rank / stride % size.
struct Strided {
  std::string_view name;
  int size = 1, stride = 1;
};
using Axes = std::array<Strided, 4>;

Axes with_strides(Axes axes) {
  int stride = 1;
  for (Strided& axis : axes) {
    axis.stride = stride;
    stride *= axis.size;
  }
  return axes;
}

int size_of(const ParallelConfig& config, std::string_view axis) {
  return axis == "tp" ? config.tp : axis == "cp" ? config.cp : axis == "dp" ? config.dp : config.pp;
}

Axes dense_axes(const ParallelConfig& config) {
  Axes axes;
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = {config.order[i], size_of(config, config.order[i])};
  return with_strides(axes);
}

// As collection::expert_mesh has them.
Axes expert_axes(const ParallelConfig& config) {
  const Strided etp{"etp", config.etp}, ep{"ep", config.ep}, edp{"edp", config.edp()}, pp{"pp", config.pp};
  return with_strides(config.order.front() == "pp" ? Axes{pp, etp, ep, edp} : Axes{etp, ep, edp, pp});
}

// The axes that a group is over: one or two.
struct Over {
  std::string_view first, second;
  bool has(std::string_view axis) const { return axis == first || axis == second; }
};

int ranks_over(const Axes& axes, Over over) {
  int ranks = 1;
  for (const Strided& axis : axes) ranks *= over.has(axis.name) ? axis.size : 1;
  return ranks;
}

// Number of a rank's group: its coordinates of all other axes.
int group_of(const Axes& axes, Over over, int rank) {
  int group = 0;
  for (const Strided& axis : axes) {
    if (!over.has(axis.name)) group = group * axis.size + rank / axis.stride % axis.size;
  }
  return group;
}

// Puts together what groups of the same ranks are at worst.
class Worst {
 public:
  explicit Worst(int ranks) : group_{.ranks = ranks, .per_host = ranks, .over_hosts = 1} {}
  // One that is in at least so many hosts, with so many ranks on one of them.
  void add(int hosts, int there) {
    group_.over_hosts = std::max(group_.over_hosts, hosts);
    group_.per_host = std::min(group_.per_host, there);
  }
  const Group& group() const { return group_; }

 private:
  Group group_;
};

// The ranks that differ from each other only in these axes, at all other coordinates. `host_of` tells a rank's host.
template <class HostOf>
Group counted_group(const Axes& axes, Over over, int world, const HostOf& host_of) {
  const int ranks = ranks_over(axes, over);
  if (ranks == 1) return {};
  std::vector<std::pair<int, int64_t>> members;  // group, host
  members.reserve(static_cast<size_t>(world));
  for (int rank = 0; rank < world; ++rank) members.emplace_back(group_of(axes, over, rank), host_of(rank));
  std::sort(members.begin(), members.end());
  Worst worst(ranks);
  int hosts = 0;
  for (size_t first = 0, i = 1; i <= members.size(); ++i) {
    if (i < members.size() && members[i] == members[first]) continue;
    worst.add(++hosts, static_cast<int>(i - first));
    if (i < members.size() && members[i].first != members[first].first) hosts = 0;
    first = i;
  }
  return worst.group();
}

// Adds a group of ranks `stride` < gpus apart, the first one at `offset` of its host. Hosts between its first and its
// last one have at least gpus / stride, rounded down; as few are on the first host of the group whose offset is
// stride − 1, which is added as well.
void add_strided(int ranks, int stride, int offset, int gpus, Worst& worst) {
  const int last = (offset + (ranks - 1) * stride) / gpus;
  const auto before = [&](int host) { return (host * gpus - offset + stride - 1) / stride; };  // ranks on earlier hosts
  worst.add(last + 1, last == 0 ? ranks : std::min(before(1), ranks - before(last)));
}

// The same where hosts hold `gpus` ranks each, one after the other. Ranks that lie a stride apart: what a group looks
// like follows from where on its host the first of them is.
Group strided_group(const Axes& axes, Over over, int world, int gpus) {
  int ranks = 1, stride = 0;
  for (const Strided& axis : axes) {
    if (!over.has(axis.name) || axis.size == 1) continue;
    if (stride == 0) stride = axis.stride;
    if (axis.stride != stride * ranks) {  // another axis lies between
      return counted_group(axes, over, world, [gpus](int rank) { return rank / gpus; });
    }
    ranks *= axis.size;
  }
  if (ranks == 1) return {};
  if (stride >= gpus) return {.ranks = ranks, .per_host = 1, .over_hosts = ranks};
  const int block = stride * ranks;                                          // stride groups side by side
  const int blocks = std::min(world / block, gpus / std::gcd(block, gpus));  // then they lie on hosts as before
  Worst worst(ranks);
  for (int i = 0; i < blocks; ++i) {
    for (int first = 0; first < stride; ++first) {
      add_strided(ranks, stride, (i * block % gpus + first) % gpus, gpus, worst);
    }
  }
  return worst.group();
}

template <class MakeGroup>
void set_groups(const Axes& dense, const Axes& expert, const MakeGroup& group, Hardware& hardware) {
  hardware.tp = group(dense, Over{"tp", ""});
  hardware.cp = group(dense, Over{"cp", ""});
  hardware.dp = group(dense, Over{"dp", "cp"});
  hardware.ep = group(expert, Over{"ep", ""});
  hardware.etp = group(expert, Over{"etp", ""});
  hardware.edp = group(expert, Over{"edp", ""});
}

Strided axis_of(const Axes& axes, std::string_view name) {
  const auto found = std::find_if(axes.begin(), axes.end(), [&](const Strided& axis) { return axis.name == name; });
  SCALAI_CHECK(found != axes.end(), std::string(name));
  return *found;
}

template <class HostOf>
bool pipeline_crosses(const Strided& pp, int world, const HostOf& host_of) {
  for (int rank = 0; rank < world; ++rank) {
    const bool last = rank / pp.stride % pp.size == pp.size - 1;
    if (!last && host_of(rank) != host_of(rank + pp.stride)) return true;
  }
  return false;
}

// 0 means unlimited.
double least(double a, double b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

class SlowestOf {
 public:
  explicit SlowestOf(Math math) : math_(math) {}

  void add(const cluster::GpuKind& gpu, double speed) {
    const Efficiency efficiency = efficiency_of(gpu, math_);
    const double rate = peak_flops(gpu, math_) * efficiency.matrix * speed;
    const double memory = gpu.memory_bandwidth_bytes_per_s * efficiency.memory * speed;
    memory_ = least(memory_, memory);
    if (any_ && rate >= rate_) return;
    any_ = true;
    rate_ = rate;
    own_memory_ = memory;
    slowest_ = {.gpu = gpu, .speed = speed};
  }
  StageGpu gpu() const {
    StageGpu found = slowest_;
    if (memory_ != own_memory_) found.memory_bytes_per_s = memory_;
    return found;
  }

 private:
  Math math_;
  bool any_ = false;
  double rate_ = 0, memory_ = 0, own_memory_ = 0;
  StageGpu slowest_;
};

void count_gpus(const cluster::GpuKind& gpu, int ranks, std::vector<GpuCount>& counts) {
  for (GpuCount& known : counts) {
    if (known.gpu != gpu) continue;
    known.count += ranks;
    return;
  }
  counts.push_back({gpu, ranks});
}

// What a domain has: GPUs that reach each other by their links, and all their NICs.
void add_domain(const cluster::Host& host, int hosts, Hardware& hardware) {
  const double nics_bytes_per_s = host.nics * host.nic_bytes_per_s;
  hardware.link_bytes_per_s = least(hardware.link_bytes_per_s, host.gpu_link_bytes_per_s);
  const double share_bytes_per_s = least(nics_bytes_per_s / std::max(1, host.gpus), host.pcie_bytes_per_s);
  hardware.nic_bytes_per_s = least(hardware.nic_bytes_per_s, share_bytes_per_s);
  hardware.host_nic_bytes_per_s = least(hardware.host_nic_bytes_per_s, nics_bytes_per_s * hosts);
  hardware.gpus_per_host = std::max(hardware.gpus_per_host, host.gpus * hosts);
}

// The ranks that differ from each other only in these axes, each group in order.
std::vector<std::vector<int>> members_of(const Axes& axes, Over over, int world) {
  std::vector<std::vector<int>> groups(static_cast<size_t>(world / ranks_over(axes, over)));
  for (int rank = 0; rank < world; ++rank) groups[static_cast<size_t>(group_of(axes, over, rank))].push_back(rank);
  return groups;
}

// What a fabric narrower than the NICs leaves of them.
void narrow(const internal::Uplinks& uplinks, const Axes& dense, const Axes& expert, int world, Hardware& hardware) {
  const auto ring = [&](const Axes& axes, Over over, Group& group) {
    if (group.hosts() > 1) group.fabric_share = uplinks.share_of_rings(members_of(axes, over, world), group.per_host);
  };
  ring(dense, Over{"tp", ""}, hardware.tp);
  ring(dense, Over{"cp", ""}, hardware.cp);
  ring(dense, Over{"dp", "cp"}, hardware.dp);
  ring(expert, Over{"etp", ""}, hardware.etp);
  ring(expert, Over{"edp", ""}, hardware.edp);
  if (hardware.ep.hosts() > 1)
    hardware.ep.fabric_share = uplinks.share_of_direct(members_of(expert, Over{"ep", ""}, world));
  const Strided pp = axis_of(dense, "pp");
  for (size_t s = 0; s < hardware.hops.size(); ++s) {
    std::vector<std::pair<int, int>> messages;
    for (int rank = 0; rank < world; ++rank) {
      const int stage = rank / pp.stride % pp.size;
      if (stage != static_cast<int>(s)) continue;
      messages.emplace_back(rank, rank + ((stage + 1) % pp.size - stage) * pp.stride);
    }
    hardware.hops[s].bytes_per_s = least(hardware.hops[s].bytes_per_s, uplinks.rate_of_messages(messages));
  }
}

}  // namespace

Efficiency efficiency_of(const cluster::GpuKind& gpu, Math math) {
  const auto or_typical = [](double given, double typical) { return given > 0 ? given : typical; };
  const bool fp8 = gpu.peak_flops_fp8 > 0;
  Efficiency found{.matrix = or_typical(gpu.matrix_efficiency, fp8 ? kMatrixOfFp8Kinds : kMatrix),
                   .memory = or_typical(gpu.memory_efficiency, kMemory),
                   .link = cluster::link_share(gpu),
                   .network = cluster::network_share(gpu)};
  if (math == Math::kFP4 && gpu.peak_flops_fp4 > 0)
    found.matrix = kMatrixFp4;
  else if (is_narrow(math) && fp8)
    found.matrix = or_typical(gpu.matrix_efficiency_fp8, kMatrixFp8);
  return found;
}

double peak_flops(const cluster::GpuKind& gpu, Math math) {
  const double vector = gpu.peak_flops_fp32 > 0 ? gpu.peak_flops_fp32 : gpu.peak_flops / kVectorPart;
  switch (math) {
    case Math::kF32: return vector;
    case Math::kTF32: return gpu.peak_flops_tf32 > 0 ? gpu.peak_flops_tf32 : vector;
    case Math::kFP4:
      if (gpu.peak_flops_fp4 > 0) return gpu.peak_flops_fp4;
      [[fallthrough]];
    case Math::kFP8: return gpu.peak_flops_fp8 > 0 ? gpu.peak_flops_fp8 : gpu.peak_flops;
    case Math::kF16:
    case Math::kBF16: break;
  }
  return gpu.peak_flops;
}

double peak_flops(const Hardware& hardware, const ParallelConfig& config, Math math) {
  double peak = 0;
  if (!hardware.gpus.empty()) {
    for (const GpuCount& kind : hardware.gpus) peak += kind.count * peak_flops(kind.gpu, math);
    return peak;
  }
  for (int s = 0; s < config.pp; ++s) peak += peak_flops(hardware.stage(s).gpu, math);
  return peak * config.world() / config.pp;
}

double slowest_share(int gpus) {
  if (gpus < 2) return 1;
  const double n = gpus, a = std::sqrt(2 * std::log(n));
  const double z = a - (std::log(std::log(n)) + std::log(4 * std::numbers::pi)) / (2 * a) + std::numbers::egamma / a;
  return 1 / (1 + kClockSpread * z);
}

Hardware uniform_hardware(const cluster::Host& host, const ParallelConfig& config) {
  SCALAI_CHECK(host.gpus > 0, "a host without GPUs");
  Hardware hardware;
  hardware.stages.resize(1);
  hardware.stages.front().gpu = host.gpu;
  hardware.stages.front().slowest = slowest_share(config.world());
  add_domain(host, 1, hardware);
  hardware.price_per_gpu_hour = host.price_per_hour / host.gpus;
  const Axes dense = dense_axes(config);
  const int world = config.world(), gpus = host.gpus;
  set_groups(
      dense, expert_axes(config), [&](const Axes& axes, Over over) { return strided_group(axes, over, world, gpus); },
      hardware);
  // Some two neighbours are apart unless each pipeline lies within a host.
  const Strided pp = axis_of(dense, "pp");
  hardware.pipeline_crosses_hosts = pp.size > 1 && world > gpus && gpus % (pp.stride * pp.size) != 0;
  hardware.hops = internal::uniform_hops({.stages = pp.size, .stride = pp.stride, .world = world}, host);
  return hardware;
}

Hardware hardware_of(const cluster::Cluster& cluster, const ParallelConfig& config, std::span<const DeviceId> devices,
                     const std::map<DeviceId, double>& speed, Math math) {
  SCALAI_CHECK(static_cast<int>(devices.size()) == config.world(),
               fmt::format("{} devices for {} ranks", devices.size(), config.world()));
  const auto host_of = [&](int rank) { return cluster.host_of(devices[static_cast<size_t>(rank)]); };
  const auto domain_of = [&](int rank) { return cluster.domain_of(host_of(rank)); };
  std::map<int, int> hosts;                 // ranks there
  std::map<int64_t, std::set<int>> joined;  // hosts by domain
  std::vector<SlowestOf> stages(static_cast<size_t>(config.pp), SlowestOf(math));
  const Axes dense = dense_axes(config);
  const Strided pp = axis_of(dense, "pp");
  double price = 0;
  for (int rank = 0; rank < config.world(); ++rank) {
    const int h = host_of(rank).value;
    const cluster::Host& host = cluster.hosts[static_cast<size_t>(h)];
    ++hosts[h];
    joined[domain_of(rank)].insert(h);
    price += host.price_per_hour / host.gpus;
    const auto found = speed.find(devices[static_cast<size_t>(rank)]);
    stages[static_cast<size_t>(rank / pp.stride % pp.size)].add(host.gpu, found == speed.end() ? 1 : found->second);
  }
  Hardware hardware;
  for (const SlowestOf& stage : stages) {
    hardware.stages.push_back(stage.gpu());
    hardware.stages.back().slowest = slowest_share(config.world());
  }
  hardware.price_per_gpu_hour = price / config.world();
  int most_nics = 0;
  for (const auto& [h, ranks] : hosts) {
    const cluster::Host& host = cluster.hosts[static_cast<size_t>(h)];
    add_domain(host, static_cast<int>(joined[cluster.domain_of(HostId(h))].size()), hardware);
    count_gpus(host.gpu, ranks, hardware.gpus);
    most_nics = std::max(most_nics, std::max(host.nics, host.gpus));
  }
  const auto alike = [&](const StageGpu& stage) { return stage == hardware.stages.front(); };
  if (std::all_of(hardware.stages.begin(), hardware.stages.end(), alike)) hardware.stages.resize(1);
  const auto counted = [&](const Axes& axes, Over over) {
    return counted_group(axes, over, config.world(), domain_of);
  };
  set_groups(dense, expert_axes(config), counted, hardware);
  hardware.pipeline_crosses_hosts = pipeline_crosses(pp, config.world(), domain_of);
  hardware.hops = internal::hops_of({.stages = pp.size, .stride = pp.stride, .world = config.world()}, [&](int rank) {
    const HostId host = host_of(rank);
    internal::Port port = internal::port_of(cluster.hosts[static_cast<size_t>(host.value)], domain_of(rank),
                                            cluster.local_index(devices[static_cast<size_t>(rank)]));
    // NICs of all hosts of a domain, each with its own number.
    port.nic += (host.value - *joined[domain_of(rank)].begin()) * most_nics;
    return port;
  });
  if (!cluster::is_wide(cluster)) {
    std::vector<internal::Seat> seats;
    for (int rank = 0; rank < config.world(); ++rank) seats.push_back({host_of(rank), domain_of(rank)});
    narrow(internal::Uplinks(cluster, std::move(seats), hardware.nic_bytes_per_s), dense, expert_axes(config),
           config.world(), hardware);
  }
  return hardware;
}

}  // namespace scalai::step
