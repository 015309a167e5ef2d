#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/utf8.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/proto/cluster.pb.h"
#include "ptc/run/scenario/scenario_parts.h"

namespace scalai::scenario::internal {
namespace {

constexpr int64_t kMaxGpus = int64_t{1} << 18;

class ClusterBuilder {
 public:
  ClusterBuilder(const proto::Cluster& message, std::string prefix, Source& source)
      : message_(message), prefix_(std::move(prefix)), source_(source) {}

  std::optional<cluster::Cluster> build();

 private:
  double rate(const std::string& path, const std::string& text, double fallback);
  double positive(const std::string& path, double value, double fallback);
  double share(const std::string& path, double value, double fallback);
  void unknown(const std::string& path, const std::string& what, const std::string& name,
               const std::vector<std::string>& known);
  void build_gpu_kinds();
  void build_gpu_kind(const proto::GpuKind& given, const std::string& path);
  void build_rates(const proto::GpuKind& given, const std::string& path, cluster::GpuKind& kind);
  const cluster::GpuKind* find_kind(const std::string& name) const;
  std::vector<std::string> kind_names() const;
  void build_hosts();
  cluster::Host host_of(const proto::HostGroup& group, const std::string& path);
  void build_gpus(const proto::HostGroup& group, const std::string& path, const cluster::HostKind* known,
                  cluster::Host& host);
  void add_hosts(int group);
  void build_fabric();
  void build_racks();
  int hosts_of_each_domain() const;
  void check_blocks();
  void build_storage();

  const proto::Cluster& message_;
  const std::string prefix_;
  Source& source_;
  std::vector<cluster::GpuKind> gpu_kinds_;
  cluster::Cluster cluster_;
  std::vector<int> group_of_host_;  // index in `hosts` of the message
  int domains_ = 0;
};

// A bandwidth > 0, or `fallback` when it is absent or wrong.
double ClusterBuilder::rate(const std::string& path, const std::string& text, double fallback) {
  if (!source_.given(path)) return fallback;
  const std::optional<double> value = source_.bandwidth(path, text);
  if (!value.has_value()) return fallback;
  if (*value > 0) return *value;
  source_.error(path, "a bandwidth of 0 would move nothing", "leave the field out for its default");
  return fallback;
}

double ClusterBuilder::positive(const std::string& path, double value, double fallback) {
  if (!source_.given(path)) return fallback;
  constexpr double kLeast = 1e-6, kMost = 1e24;  // beyond them products of rates lose all digits
  if (value >= kLeast && value <= kMost) return value;
  source_.error(path, fmt::format("\"{}\" must be greater than 0 and a sensible number", field_of(path)));
  return fallback;
}

double ClusterBuilder::share(const std::string& path, double value, double fallback) {
  const double found = positive(path, value, fallback);
  if (found <= 1) return found;
  source_.error(path, fmt::format("\"{}\" is a share of the peak: at most 1, found {}", field_of(path), value));
  return fallback;
}

void ClusterBuilder::unknown(const std::string& path, const std::string& what, const std::string& name,
                             const std::vector<std::string>& known) {
  source_.error(path, fmt::format("unknown {} \"{}\"", what, clipped(name, 60)),
                cluster::hint_for_unknown(name, known));
}

const cluster::GpuKind* ClusterBuilder::find_kind(const std::string& name) const {
  for (const cluster::GpuKind& kind : gpu_kinds_) {
    if (kind.name == name) return &kind;
  }
  return cluster::find_gpu_kind(name);
}

std::vector<std::string> ClusterBuilder::kind_names() const {
  std::vector<std::string> names = cluster::gpu_kind_names();
  for (const cluster::GpuKind& kind : gpu_kinds_) names.push_back(kind.name);
  return names;
}

void ClusterBuilder::build_gpu_kind(const proto::GpuKind& given, const std::string& path) {
  const cluster::GpuKind* built_in = cluster::find_gpu_kind(given.name());
  cluster::GpuKind kind;
  if (built_in != nullptr) kind = *built_in;
  kind.name = given.name();
  if (source_.given(path + ".memory")) kind.memory_bytes = source_.bytes(path + ".memory", given.memory()).value_or(0);
  kind.peak_flops = positive(path + ".peak_tflops", given.peak_tflops() * 1e12, kind.peak_flops);
  kind.memory_bandwidth_bytes_per_s =
      rate(path + ".memory_bandwidth", given.memory_bandwidth(), kind.memory_bandwidth_bytes_per_s);
  kind.pcie_bytes_per_s = rate(path + ".pcie", given.pcie(), kind.pcie_bytes_per_s);
  kind.link_bytes_per_s =
      rate(path + ".link", given.link(), built_in != nullptr ? kind.link_bytes_per_s : kind.pcie_bytes_per_s);
  build_rates(given, path, kind);
  const auto need = [&](const std::string& field, bool there) {
    if (!there && !source_.given(path + field)) source_.missing(path + field);
  };
  if (source_.given(path + ".memory") && kind.memory_bytes == 0) source_.error(path + ".memory", "a GPU needs memory");
  need(".memory", kind.memory_bytes > 0);
  need(".peak_tflops", kind.peak_flops > 0);
  need(".memory_bandwidth", kind.memory_bandwidth_bytes_per_s > 0);
  need(".pcie", kind.pcie_bytes_per_s > 0);
  gpu_kinds_.push_back(std::move(kind));
}

// What only the cost models ask for; all of it may be absent.
void ClusterBuilder::build_rates(const proto::GpuKind& given, const std::string& path, cluster::GpuKind& kind) {
  kind.peak_flops_fp8 = positive(path + ".peak_tflops_fp8", given.peak_tflops_fp8() * 1e12, kind.peak_flops_fp8);
  kind.peak_flops_tf32 = positive(path + ".peak_tflops_tf32", given.peak_tflops_tf32() * 1e12, kind.peak_flops_tf32);
  kind.peak_flops_fp32 = positive(path + ".peak_tflops_fp32", given.peak_tflops_fp32() * 1e12, kind.peak_flops_fp32);
  kind.power_w = positive(path + ".power_w", given.power_w(), kind.power_w);
  if (source_.given(path + ".multiprocessors") &&
      source_.at_least(path + ".multiprocessors", given.multiprocessors(), 1)) {
    kind.multiprocessors = given.multiprocessors();
  }
  if (source_.given(path + ".in_switch_reduction")) kind.in_switch_reduction = given.in_switch_reduction();
  kind.matrix_efficiency = share(path + ".matrix_efficiency", given.matrix_efficiency(), kind.matrix_efficiency);
  kind.matrix_efficiency_fp8 =
      share(path + ".matrix_efficiency_fp8", given.matrix_efficiency_fp8(), kind.matrix_efficiency_fp8);
  kind.memory_efficiency = share(path + ".memory_efficiency", given.memory_efficiency(), kind.memory_efficiency);
  kind.link_efficiency = share(path + ".link_efficiency", given.link_efficiency(), kind.link_efficiency);
  kind.network_efficiency = share(path + ".network_efficiency", given.network_efficiency(), kind.network_efficiency);
}

void ClusterBuilder::build_gpu_kinds() {
  for (int i = 0; i < message_.gpu_kinds_size(); ++i) {
    const std::string path = fmt::format("{}gpu_kinds[{}]", prefix_, i);
    const std::string& name = message_.gpu_kinds(i).name();
    if (!source_.is_name(path + ".name", name)) continue;
    for (int j = 0; j < i; ++j) {
      if (message_.gpu_kinds(j).name() != name) continue;
      source_.error(path + ".name", fmt::format("GPU kind \"{}\" is described twice", name), "",
                    {{fmt::format("{}gpu_kinds[{}].name", prefix_, j), "the first is here"}});
      break;
    }
    build_gpu_kind(message_.gpu_kinds(i), path);
  }
}

// The GPUs of a host and their links: what is given, else the known host's.
void ClusterBuilder::build_gpus(const proto::HostGroup& group, const std::string& path, const cluster::HostKind* known,
                                cluster::Host& host) {
  const bool own = known != nullptr && !source_.given(path + ".gpu");
  const std::string name = own ? known->host.gpu.name : group.gpu();
  if (const cluster::GpuKind* kind = find_kind(name)) {
    host.gpu = *kind;
  } else if (!name.empty()) {
    unknown(path + ".gpu", "GPU kind", name, kind_names());
  } else if (!source_.given(path + ".kind")) {
    source_.missing(path + ".gpu", "write it like gpu: \"a100-80g\"");
  }
  // A known host's processors may be slower than its GPUs' connectors.
  const bool own_pcie = own && known->host.pcie_bytes_per_s != known->host.gpu.pcie_bytes_per_s;
  const double pcie = own_pcie ? known->host.pcie_bytes_per_s : host.gpu.pcie_bytes_per_s;
  host.gpu_link_bytes_per_s = rate(path + ".gpu_link", group.gpu_link(), host.gpu.link_bytes_per_s);
  host.pcie_bytes_per_s = rate(path + ".pcie", group.pcie(), pcie);
}

// What is not given is the kind's. A host of 0 GPUs has something wrong with its numbers.
cluster::Host ClusterBuilder::host_of(const proto::HostGroup& group, const std::string& path) {
  const bool has_kind = source_.given(path + ".kind");
  const cluster::HostKind* known = has_kind ? cluster::find_host_kind(group.kind()) : nullptr;
  if (has_kind && known == nullptr) unknown(path + ".kind", "host kind", group.kind(), cluster::host_kind_names());
  cluster::Host host;
  if (known != nullptr) host = known->host;
  if (source_.given(path + ".gpus") || !has_kind) {
    host.gpus = source_.at_least(path + ".gpus", group.gpus(), 1) ? group.gpus() : 0;
  }
  bool nics_ok = true;
  if (source_.given(path + ".nics")) {
    nics_ok = source_.at_least(path + ".nics", group.nics(), 1);
    if (nics_ok) host.nics = group.nics();
  }
  build_gpus(group, path, known, host);
  host.nic_bytes_per_s = rate(path + ".nic", group.nic(), host.nic_bytes_per_s);
  host.store_serve_bytes_per_s = rate(path + ".store_serve", group.store_serve(), 0);
  host.store_ingest_bytes_per_s = rate(path + ".store_ingest", group.store_ingest(), 0);
  host.copy_bytes_per_s = rate(path + ".copy", group.copy(), 0);
  host.price_per_hour = positive(path + ".price_per_hour", group.price_per_hour(), host.price_per_hour);
  if (source_.given(path + ".nvlink_hosts") && source_.at_least(path + ".nvlink_hosts", group.nvlink_hosts(), 1)) {
    host.nvlink_hosts = group.nvlink_hosts();
  }
  if (nics_ok && host.gpus % host.nics != 0) {
    source_.error(path + (source_.given(path + ".nics") ? ".nics" : ".gpus"),
                  fmt::format("{} network cards cannot be shared evenly by {} GPUs", host.nics, host.gpus));
  }
  if (!nics_ok) host.gpus = 0;
  return host;
}

void ClusterBuilder::add_hosts(int group) {
  const proto::HostGroup& given = message_.hosts(group);
  const std::string path = fmt::format("{}hosts[{}]", prefix_, group);
  const int count = source_.given(path + ".count") ? given.count() : 1;
  const bool count_ok = source_.at_least(path + ".count", count, 1);
  cluster::Host host = host_of(given, path);  // judged in any case, so that all problems are reported
  if (!count_ok || host.gpus == 0) return;
  if (cluster_.device_count() + int64_t{count} * host.gpus > kMaxGpus) {
    source_.error(path, fmt::format("the cluster has more than {} GPUs", kMaxGpus));
    return;
  }
  host.nvlink_hosts = std::min(host.nvlink_hosts, count);
  for (int i = 0; i < count; ++i) {
    host.first_device = cluster_.device_count();
    if (host.nvlink_hosts > 1) host.nvlink_domain = domains_ + i / host.nvlink_hosts;
    cluster_.hosts.push_back(host);
    group_of_host_.push_back(group);
  }
  domains_ += (count - 1) / host.nvlink_hosts + 1;
}

void ClusterBuilder::build_hosts() {
  if (message_.hosts_size() == 0) source_.missing(prefix_ + "hosts");
  for (int i = 0; i < message_.hosts_size(); ++i) add_hosts(i);
  if (cluster_.hosts.size() < 2) return;
  for (int i = 0; i < message_.hosts_size(); ++i) {
    const std::string path = fmt::format("{}hosts[{}]", prefix_, i);
    const cluster::HostKind* known = cluster::find_host_kind(message_.hosts(i).kind());
    const bool filled_in = source_.given(path + ".kind") && (known == nullptr || known->host.nic_bytes_per_s > 0);
    if (source_.given(path + ".nic") || filled_in) continue;
    source_.missing(path + ".nic", "a cluster of several hosts needs it, like nic: \"100Gbps\"");
  }
}

cluster::FabricKind kind_of(proto::Fabric::Kind kind) {
  switch (kind) {
    case proto::Fabric::LEAF_SPINE: return cluster::FabricKind::kLeafSpine;
    case proto::Fabric::RAIL: return cluster::FabricKind::kRail;
    case proto::Fabric::FAT_TREE: return cluster::FabricKind::kFatTree;
    case proto::Fabric::DRAGONFLY: return cluster::FabricKind::kDragonfly;
    default: return cluster::FabricKind::kStar;
  }
}

void ClusterBuilder::build_fabric() {
  using cluster::FabricKind;
  const proto::Fabric& fabric = message_.fabric();
  const std::string path = prefix_ + "fabric";
  const FabricKind kind = cluster_.fabric = kind_of(fabric.kind());
  if (source_.broken(path + ".kind")) return;
  const bool grouped = kind == FabricKind::kFatTree || kind == FabricKind::kDragonfly;
  const bool leaves = kind == FabricKind::kLeafSpine || kind == FabricKind::kFatTree;
  const auto only_for = [&](const std::string& field, const std::string& kinds, bool right) {
    if (right || !source_.given(path + field)) return;
    source_.error(path + field, fmt::format("\"{}\" needs kind: {}", field.substr(1), kinds), "",
                  {{path + ".kind", "the fabric's kind"}});
  };
  only_for(".leaf_hosts", "LEAF_SPINE, FAT_TREE or DRAGONFLY", leaves || kind == FabricKind::kDragonfly);
  only_for(".oversubscription", "LEAF_SPINE, RAIL, FAT_TREE or DRAGONFLY", kind != FabricKind::kStar);
  only_for(".backbone", "STAR", kind == FabricKind::kStar);
  only_for(".group_hosts", "FAT_TREE, DRAGONFLY or RAIL", grouped || kind == FabricKind::kRail);
  only_for(".group_oversubscription", "FAT_TREE or DRAGONFLY", grouped);
  const auto hosts = [&](const std::string& field, int value, bool needed, int& out) {
    if ((needed || source_.given(path + field)) && source_.at_least(path + field, value, 1)) out = value;
  };
  if (leaves || kind == FabricKind::kDragonfly) hosts(".leaf_hosts", fabric.leaf_hosts(), leaves, cluster_.leaf_hosts);
  if (grouped || kind == FabricKind::kRail) hosts(".group_hosts", fabric.group_hosts(), grouped, cluster_.group_hosts);
  if (kind == FabricKind::kDragonfly && cluster_.leaf_hosts == 0 && source_.given(path + ".oversubscription")) {
    source_.error(path + ".oversubscription", "that of routers needs \"leaf_hosts\", the hosts of a router",
                  "the global links of a group have group_oversubscription");
  }
  const auto oversubscription = [&](const std::string& field, double value) {
    const double found = positive(path + field, value, 1);
    if (found >= 1e-3 && found <= 1e6) return found;
    source_.error(path + field, fmt::format("\"{}\" must be from 0.001 to 1000000, found {}", field.substr(1), value));
    return 1.0;
  };
  cluster_.oversubscription = oversubscription(".oversubscription", fabric.oversubscription());
  cluster_.group_oversubscription = oversubscription(".group_oversubscription", fabric.group_oversubscription());
  cluster_.backbone_bytes_per_s = rate(path + ".backbone", fabric.backbone(), 0);
}

void ClusterBuilder::build_racks() {
  const std::string path = prefix_ + "rack_hosts";
  const bool leaves =
      cluster_.fabric == cluster::FabricKind::kLeafSpine || cluster_.fabric == cluster::FabricKind::kFatTree;
  if (!source_.given(path)) {
    // Unless they do not lie in the blocks that are given.
    const int each = leaves ? 0 : hosts_of_each_domain();
    const auto fits = [&](int block) { return block == 0 || block % each == 0 || each % block == 0; };
    if (each > 0 && fits(cluster_.leaf_hosts) && fits(cluster_.group_hosts)) cluster_.rack_hosts = each;
  } else if (leaves) {
    source_.error(
        path,
        fmt::format("the racks of a {} fabric are its leaves", proto::Fabric::Kind_Name(message_.fabric().kind())),
        "leave the field out", {{prefix_ + "fabric.kind", "the fabric's kind"}});
  } else if (source_.at_least(path, message_.rack_hosts(), 1)) {
    cluster_.rack_hosts = message_.rack_hosts();
  }
}

// As many where all hosts are in NVLink domains of as many hosts, so that each is a rack; else 0.
int ClusterBuilder::hosts_of_each_domain() const {
  if (cluster_.hosts.empty()) return 0;
  const int each = cluster_.hosts.front().nvlink_hosts;
  for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
    const cluster::Host& host = cluster_.hosts[h];
    if (host.nvlink_domain < 0 || host.nvlink_hosts != each || host.nvlink_domain != static_cast<int>(h) / each)
      return 0;
  }
  return each;
}

// Leaves, racks and groups lie in one another, and NVLink domains in racks.
void ClusterBuilder::check_blocks() {
  const std::vector<int> sizes = cluster_.block_sizes();
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (sizes[i] % sizes[i - 1] == 0) continue;
    const bool group = sizes[i] == cluster_.group_hosts || sizes[i - 1] == cluster_.group_hosts;
    source_.error(prefix_ + (group ? "fabric.group_hosts" : "rack_hosts"),
                  fmt::format("blocks of {} and of {} hosts do not lie in one another", sizes[i - 1], sizes[i]),
                  "leaves or routers, racks and groups: each size must be a multiple of the next smaller one");
  }
  std::map<int, HostId> first_of;
  for (size_t h = 0; h < cluster_.hosts.size(); ++h) {
    const HostId host(static_cast<int64_t>(h));
    const int domain = cluster_.hosts[h].nvlink_domain;
    if (domain < 0) continue;
    const HostId first = first_of.emplace(domain, host).first->second;
    const bool racks = cluster_.rack_of(first) == cluster_.rack_of(host);
    if (racks && cluster_.group_of(first) == cluster_.group_of(host)) continue;
    const std::string path = fmt::format("{}hosts[{}]", prefix_, group_of_host_[h]);
    source_.error(
        path + (source_.given(path + ".nvlink_hosts") ? ".nvlink_hosts" : ".kind"),
        fmt::format("the GPU links of host {} join it to host {}, which is in another {}", h, first.value,
                    racks ? "pod, group or unit" : "rack"),
        "an NVLink domain lies in one of each: make rack_hosts, leaf_hosts and group_hosts multiples of nvlink_hosts");
    return;
  }
}

void ClusterBuilder::build_storage() {
  if (!message_.has_storage()) return;
  const std::string path = prefix_ + "storage";
  if (!source_.given(path + ".read")) source_.missing(path + ".read", "write it like read: \"10GB/s\"");
  cluster_.storage_read_bytes_per_s = rate(path + ".read", message_.storage().read(), 0);
  cluster_.storage_write_bytes_per_s =
      rate(path + ".write", message_.storage().write(), cluster_.storage_read_bytes_per_s);
}

std::optional<cluster::Cluster> ClusterBuilder::build() {
  const int before = source_.errors();
  const int version = message_.schema_version();
  if (version != 0 && version != 1) {
    source_.error(prefix_ + "schema_version", fmt::format("schema version {} is not known here", version),
                  "this program reads version 1");
  }
  cluster_.name = message_.name();
  build_gpu_kinds();
  build_hosts();
  build_fabric();
  build_racks();
  check_blocks();
  build_storage();
  cluster_.machine_copy_bytes_per_s = rate(prefix_ + "machine_copy", message_.machine_copy(), 0);
  const bool whole = !source_.broken(prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1));
  if (source_.errors() != before || !whole) return std::nullopt;
  return std::move(cluster_);
}

}  // namespace

std::optional<cluster::Cluster> build_cluster(const proto::Cluster& message, const std::string& prefix,
                                              Source& source) {
  return ClusterBuilder(message, prefix, source).build();
}

}  // namespace scalai::scenario::internal
