#include <fmt/format.h>

#include <cmath>

#include "ptc/control/internal/scenario_parts.h"
#include "ptc/proto/cluster.pb.h"

namespace scalai::control::internal {
namespace {

constexpr int64_t kMaxGpus = int64_t{1} << 18;

class ClusterBuilder {
 public:
  ClusterBuilder(const proto::Cluster& message, std::string prefix, Source& source)
      : message_(message), prefix_(std::move(prefix)), source_(source) {}

  std::optional<plan::Cluster> build();

 private:
  double rate(const std::string& path, const std::string& text, double fallback);
  double positive(const std::string& path, double value, double fallback);
  void build_gpu_kinds();
  void build_gpu_kind(const proto::GpuKind& given, const std::string& path);
  const plan::GpuKind* find_kind(const std::string& name) const;
  std::vector<std::string> kind_names() const;
  void build_hosts();
  void add_hosts(const proto::HostGroup& group, const std::string& path);
  void build_fabric();
  void build_racks();
  void build_storage();

  const proto::Cluster& message_;
  const std::string prefix_;
  Source& source_;
  std::vector<plan::GpuKind> gpu_kinds_;
  plan::Cluster cluster_;
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
  if (value > 0 && std::isfinite(value)) return value;
  source_.error(path, fmt::format("\"{}\" must be greater than 0 and a sensible number", field_of(path)));
  return fallback;
}

const plan::GpuKind* ClusterBuilder::find_kind(const std::string& name) const {
  for (const plan::GpuKind& kind : gpu_kinds_) {
    if (kind.name == name) return &kind;
  }
  return plan::find_gpu_kind(name);
}

std::vector<std::string> ClusterBuilder::kind_names() const {
  std::vector<std::string> names = plan::gpu_kind_names();
  for (const plan::GpuKind& kind : gpu_kinds_) names.push_back(kind.name);
  return names;
}

void ClusterBuilder::build_gpu_kind(const proto::GpuKind& given, const std::string& path) {
  const plan::GpuKind* built_in = plan::find_gpu_kind(given.name());
  plan::GpuKind kind;
  if (built_in != nullptr) kind = *built_in;
  kind.name = given.name();
  if (source_.given(path + ".memory")) kind.memory_bytes = source_.bytes(path + ".memory", given.memory()).value_or(0);
  kind.peak_flops = positive(path + ".peak_tflops", given.peak_tflops() * 1e12, kind.peak_flops);
  kind.memory_bandwidth_bytes_per_s =
      rate(path + ".memory_bandwidth", given.memory_bandwidth(), kind.memory_bandwidth_bytes_per_s);
  kind.pcie_bytes_per_s = rate(path + ".pcie", given.pcie(), kind.pcie_bytes_per_s);
  kind.link_bytes_per_s =
      rate(path + ".link", given.link(), built_in != nullptr ? kind.link_bytes_per_s : kind.pcie_bytes_per_s);
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

void ClusterBuilder::add_hosts(const proto::HostGroup& group, const std::string& path) {
  const int count = source_.given(path + ".count") ? group.count() : 1;
  const int nics = source_.given(path + ".nics") ? group.nics() : 1;
  // All are judged, so that all are reported.
  const bool count_ok = source_.at_least(path + ".count", count, 1);
  const bool gpus_ok = source_.at_least(path + ".gpus", group.gpus(), 1);
  const bool nics_ok = source_.at_least(path + ".nics", nics, 1);
  const bool counts_ok = count_ok && gpus_ok && nics_ok;
  const plan::GpuKind* kind = find_kind(group.gpu());
  if (group.gpu().empty()) {
    source_.missing(path + ".gpu", "write it like gpu: \"a100-80g\"");
  } else if (kind == nullptr) {
    source_.error_unknown(path + ".gpu", "GPU kind", group.gpu(), kind_names());
  }
  plan::Host host;
  host.gpus = group.gpus();
  host.nics = nics;
  if (kind != nullptr) host.gpu = *kind;
  host.gpu_link_bytes_per_s = rate(path + ".gpu_link", group.gpu_link(), host.gpu.link_bytes_per_s);
  host.pcie_bytes_per_s = rate(path + ".pcie", group.pcie(), host.gpu.pcie_bytes_per_s);
  host.nic_bytes_per_s = rate(path + ".nic", group.nic(), 0);
  host.store_serve_bytes_per_s = rate(path + ".store_serve", group.store_serve(), 0);
  host.store_ingest_bytes_per_s = rate(path + ".store_ingest", group.store_ingest(), 0);
  host.copy_bytes_per_s = rate(path + ".copy", group.copy(), 0);
  if (!counts_ok) return;
  if (host.gpus % nics != 0) {
    source_.error(path + (source_.given(path + ".nics") ? ".nics" : ".gpus"),
                  fmt::format("{} network cards cannot be shared evenly by {} GPUs", nics, host.gpus));
  }
  if (cluster_.device_count() + int64_t{count} * host.gpus > kMaxGpus) {
    source_.error(path, fmt::format("the cluster has more than {} GPUs", kMaxGpus));
    return;
  }
  for (int i = 0; i < count; ++i) {
    host.first_device = cluster_.device_count();
    cluster_.hosts.push_back(host);
  }
}

void ClusterBuilder::build_hosts() {
  if (message_.hosts_size() == 0) source_.missing(prefix_ + "hosts");
  for (int i = 0; i < message_.hosts_size(); ++i) add_hosts(message_.hosts(i), fmt::format("{}hosts[{}]", prefix_, i));
  if (cluster_.hosts.size() < 2) return;
  for (int i = 0; i < message_.hosts_size(); ++i) {
    const std::string path = fmt::format("{}hosts[{}].nic", prefix_, i);
    if (!source_.given(path)) source_.missing(path, "a cluster of several hosts needs it, like nic: \"100Gbps\"");
  }
}

void ClusterBuilder::build_fabric() {
  const proto::Fabric& fabric = message_.fabric();
  const std::string path = prefix_ + "fabric";
  cluster_.fabric = fabric.kind() == proto::Fabric::LEAF_SPINE ? plan::FabricKind::kLeafSpine
                    : fabric.kind() == proto::Fabric::RAIL     ? plan::FabricKind::kRail
                                                               : plan::FabricKind::kStar;
  if (source_.broken(path + ".kind")) return;
  const bool star = cluster_.fabric == plan::FabricKind::kStar;
  const auto only_for = [&](const std::string& field, const std::string& kind, bool right) {
    if (right || !source_.given(path + field)) return;
    source_.error(path + field, fmt::format("\"{}\" needs kind: {}", field.substr(1), kind), "",
                  {{path + ".kind", "the fabric's kind"}});
  };
  only_for(".leaf_hosts", "LEAF_SPINE", cluster_.fabric == plan::FabricKind::kLeafSpine);
  only_for(".oversubscription", "LEAF_SPINE or RAIL", !star);
  only_for(".backbone", "STAR", star);
  if (cluster_.fabric == plan::FabricKind::kLeafSpine &&
      source_.at_least(path + ".leaf_hosts", fabric.leaf_hosts(), 1)) {
    cluster_.leaf_hosts = fabric.leaf_hosts();
  }
  cluster_.oversubscription = positive(path + ".oversubscription", fabric.oversubscription(), 1);
  cluster_.backbone_bytes_per_s = rate(path + ".backbone", fabric.backbone(), 0);
}

void ClusterBuilder::build_racks() {
  const std::string path = prefix_ + "rack_hosts";
  if (!source_.given(path)) return;
  if (cluster_.fabric == plan::FabricKind::kLeafSpine) {
    source_.error(path, "the racks of a LEAF_SPINE fabric are its leaves", "leave the field out",
                  {{prefix_ + "fabric.kind", "the fabric's kind"}});
  } else if (source_.at_least(path, message_.rack_hosts(), 1)) {
    cluster_.rack_hosts = message_.rack_hosts();
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

std::optional<plan::Cluster> ClusterBuilder::build() {
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
  build_storage();
  cluster_.machine_copy_bytes_per_s = rate(prefix_ + "machine_copy", message_.machine_copy(), 0);
  const bool whole = !source_.broken(prefix_.empty() ? "" : prefix_.substr(0, prefix_.size() - 1));
  if (source_.errors() != before || !whole) return std::nullopt;
  return std::move(cluster_);
}

}  // namespace

std::optional<plan::Cluster> build_cluster(const proto::Cluster& message, const std::string& prefix, Source& source) {
  return ClusterBuilder(message, prefix, source).build();
}

}  // namespace scalai::control::internal
