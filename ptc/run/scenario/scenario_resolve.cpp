#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/units.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/internal/scenario_availability.h"
#include "ptc/run/scenario/internal/scenario_dataset.h"
#include "ptc/run/scenario/internal/scenario_policy.h"
#include "ptc/run/scenario/internal/scenario_training.h"
#include "ptc/run/scenario/scenario_parts.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::scenario::internal {
namespace {

// In base units, so that reading it back gives the same number bit for bit.
std::string plain(double value, std::string_view unit) {
  std::string text = shortest(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return fmt::format("{}{}", text, unit);
}
std::string rate_text(double bytes_per_s) { return plain(bytes_per_s, "B/s"); }

// The number of TFLOPS that multiplies back to exactly `flops`.
double tflops_of(double flops) {
  const double near = flops / 1e12;
  for (const double candidate : {near, std::nextafter(near, 0.0), std::nextafter(near, 2 * near)}) {
    if (candidate * 1e12 == flops) return candidate;
  }
  return near;
}

bool same_host(const cluster::Host& a, const cluster::Host& b) {
  return a.gpus == b.gpus && a.gpu == b.gpu && a.gpu_link_bytes_per_s == b.gpu_link_bytes_per_s &&
         a.pcie_bytes_per_s == b.pcie_bytes_per_s && a.nics == b.nics && a.nic_bytes_per_s == b.nic_bytes_per_s &&
         a.store_serve_bytes_per_s == b.store_serve_bytes_per_s &&
         a.store_ingest_bytes_per_s == b.store_ingest_bytes_per_s && a.copy_bytes_per_s == b.copy_bytes_per_s &&
         a.kind == b.kind && a.nvlink_hosts == b.nvlink_hosts && a.price_per_hour == b.price_per_hour;
}

// What is 0 is unknown, and absent when read back.
void write_rates(const cluster::GpuKind& kind, proto::GpuKind& out) {
  if (kind.peak_flops_fp8 > 0) out.set_peak_tflops_fp8(tflops_of(kind.peak_flops_fp8));
  if (kind.peak_flops_tf32 > 0) out.set_peak_tflops_tf32(tflops_of(kind.peak_flops_tf32));
  if (kind.peak_flops_fp32 > 0) out.set_peak_tflops_fp32(tflops_of(kind.peak_flops_fp32));
  if (kind.power_w > 0) out.set_power_w(kind.power_w);
  if (kind.multiprocessors > 0) out.set_multiprocessors(kind.multiprocessors);
  out.set_in_switch_reduction(kind.in_switch_reduction);
  if (kind.matrix_efficiency > 0) out.set_matrix_efficiency(kind.matrix_efficiency);
  if (kind.matrix_efficiency_fp8 > 0) out.set_matrix_efficiency_fp8(kind.matrix_efficiency_fp8);
  if (kind.memory_efficiency > 0) out.set_memory_efficiency(kind.memory_efficiency);
  if (kind.link_efficiency > 0) out.set_link_efficiency(kind.link_efficiency);
  if (kind.network_efficiency > 0) out.set_network_efficiency(kind.network_efficiency);
}

void write_gpu_kind(const cluster::GpuKind& kind, proto::Cluster& cluster) {
  for (const proto::GpuKind& known : cluster.gpu_kinds()) {
    if (known.name() == kind.name) return;
  }
  const cluster::GpuKind* built_in = cluster::find_gpu_kind(kind.name);
  if (built_in != nullptr && *built_in == kind) return;
  proto::GpuKind& out = *cluster.add_gpu_kinds();
  out.set_name(kind.name);
  out.set_memory(fmt::format("{}B", kind.memory_bytes));
  out.set_peak_tflops(tflops_of(kind.peak_flops));
  out.set_memory_bandwidth(rate_text(kind.memory_bandwidth_bytes_per_s));
  out.set_link(rate_text(kind.link_bytes_per_s));
  out.set_pcie(rate_text(kind.pcie_bytes_per_s));
  write_rates(kind, out);
}

void write_host(const cluster::Host& host, proto::HostGroup& out) {
  out.set_count(1);
  if (host.nvlink_hosts > 1) out.set_nvlink_hosts(host.nvlink_hosts);
  out.set_gpus(host.gpus);
  out.set_gpu(host.gpu.name);
  out.set_gpu_link(rate_text(host.gpu_link_bytes_per_s));
  out.set_pcie(rate_text(host.pcie_bytes_per_s));
  out.set_nics(host.nics);
  if (host.nic_bytes_per_s > 0) out.set_nic(rate_text(host.nic_bytes_per_s));
  if (host.store_serve_bytes_per_s > 0) out.set_store_serve(rate_text(host.store_serve_bytes_per_s));
  if (host.store_ingest_bytes_per_s > 0) out.set_store_ingest(rate_text(host.store_ingest_bytes_per_s));
  if (host.copy_bytes_per_s > 0) out.set_copy(rate_text(host.copy_bytes_per_s));
  out.set_kind(host.kind);
  if (host.price_per_hour > 0) out.set_price_per_hour(host.price_per_hour);
}

void write_fabric(const cluster::Cluster& cluster, proto::Fabric& out) {
  using cluster::FabricKind;
  const FabricKind kind = cluster.fabric;
  const bool grouped = kind == FabricKind::kFatTree || kind == FabricKind::kDragonfly;
  out.set_kind(kind == FabricKind::kStar        ? proto::Fabric::STAR
               : kind == FabricKind::kLeafSpine ? proto::Fabric::LEAF_SPINE
               : kind == FabricKind::kRail      ? proto::Fabric::RAIL
               : kind == FabricKind::kFatTree   ? proto::Fabric::FAT_TREE
                                                : proto::Fabric::DRAGONFLY);
  out.set_leaf_hosts(cluster.leaf_hosts);
  out.set_group_hosts(cluster.group_hosts);
  const bool without_routers = kind == FabricKind::kDragonfly && cluster.leaf_hosts == 0;
  if (kind != FabricKind::kStar && !without_routers) out.set_oversubscription(cluster.oversubscription);
  if (grouped) out.set_group_oversubscription(cluster.group_oversubscription);
  if (cluster.backbone_bytes_per_s > 0) out.set_backbone(rate_text(cluster.backbone_bytes_per_s));
}

}  // namespace

void write_cluster(const cluster::Cluster& cluster, proto::Cluster& out) {
  out.set_schema_version(1);
  out.set_name(cluster.name);
  for (size_t h = 0; h < cluster.hosts.size(); ++h) {
    const cluster::Host& host = cluster.hosts[h];
    // A group's domains are full but for its last one.
    const bool continues = h > 0 && (host.nvlink_domain == cluster.hosts[h - 1].nvlink_domain ||
                                     out.hosts(out.hosts_size() - 1).count() % host.nvlink_hosts == 0);
    if (continues && same_host(cluster.hosts[h - 1], host)) {
      proto::HostGroup& group = *out.mutable_hosts(out.hosts_size() - 1);
      group.set_count(group.count() + 1);
      continue;
    }
    write_host(host, *out.add_hosts());
    write_gpu_kind(host.gpu, out);
  }
  write_fabric(cluster, *out.mutable_fabric());
  out.set_rack_hosts(cluster.rack_hosts);
  if (cluster.machine_copy_bytes_per_s > 0) out.set_machine_copy(rate_text(cluster.machine_copy_bytes_per_s));
  if (cluster.storage_read_bytes_per_s == 0) return;
  out.mutable_storage()->set_read(rate_text(cluster.storage_read_bytes_per_s));
  out.mutable_storage()->set_write(rate_text(cluster.storage_write_bytes_per_s));
}

namespace {

void write_job(const JobSpec& job, const proto::Job& given, proto::Job& out) {
  out.set_name(job.name);
  out.set_model(given.model());
  out.set_model_config(given.model_config());
  out.set_model_config_text(job.model_config);
  write_training(job, given, out);
  if (job.devices.empty()) out.set_gpus(job.gpus);
  for (const DeviceId device : job.devices) out.add_devices(device.value);
  for (size_t i = 0; i < (job.choose ? 0 : job.configs.size()); ++i) {
    const ParallelChoice& choice = job.configs[i];
    proto::ParallelChoice& config = *out.add_configs();
    config.set_layout(collection::canonical(choice.config));
    config.set_collection(given.configs(static_cast<int>(i)).collection());
    if (choice.collection != nullptr) config.set_collection_text(collection_text(*choice.collection, {}));
    if (choice.step_s > 0) config.set_step_time(seconds_text(choice.step_s));
  }
  out.set_steps(job.steps);
  out.mutable_checkpoint()->set_every_steps(job.checkpoint.every_steps);
  out.mutable_checkpoint()->set_host_memory_copy(job.checkpoint.host_memory_copy);
  out.mutable_checkpoint()->set_before_change(job.checkpoint.before_change);
  out.mutable_redundancy()->set_copies(job.redundancy.copies);
  out.mutable_redundancy()->set_where(job.redundancy.other_host ? proto::Redundancy::OTHER_HOST
                                                                : proto::Redundancy::OTHER_DEVICE);
  out.mutable_redundancy()->set_every_steps(job.redundancy.every_steps);
  if (job.dataset) write_dataset(*job.dataset, out);
  write_schedule(job, out);
}

class EventWriter {
 public:
  EventWriter(const Scenario& scenario, proto::ScenarioEvent& out) : scenario_(scenario), out_(out) {}

  void operator()(const AtTime& when) { out_.set_at(seconds_text(when.at_s)); }
  void operator()(const AtStep& when) {
    out_.mutable_at_step()->set_job(job_name(when.job));
    out_.mutable_at_step()->set_step(when.step);
  }
  void operator()(const During& when) {
    proto::During& during = *out_.mutable_during();
    during.set_job(job_name(when.job));
    during.set_reconfiguration(when.reconfiguration);
    during.set_after_round(when.after_round);
    during.set_delay(seconds_text(when.delay_s));
  }
  void operator()(const Resize& what) {
    out_.mutable_resize()->set_job(job_name(what.job));
    out_.mutable_resize()->set_gpus(what.gpus);
  }
  void operator()(const Redeploy& what) {
    out_.mutable_redeploy()->set_job(job_name(what.job));
    write_devices(what.devices, *out_.mutable_redeploy());
  }
  void operator()(const Fail& what) {
    write_targets(what, *out_.mutable_fail());
    if (what.hangs) out_.mutable_fail()->set_hangs(true);
    if (!what.links.empty()) out_.mutable_fail()->set_leave(what.leave);
    if (what.expected_s) out_.mutable_fail()->set_expected(seconds_text(*what.expected_s));
  }
  void operator()(const Repair& what) { write_targets(what, *out_.mutable_repair()); }
  void operator()(const Degrade& what) {
    write_targets(what, *out_.mutable_degrade());
    out_.mutable_degrade()->set_factor(what.factor);
  }
  void operator()(const Preempt& what) {
    write_devices(what.devices, *out_.mutable_preempt());
    out_.mutable_preempt()->set_notice(seconds_text(what.notice_s));
  }

 private:
  const std::string& job_name(int job) const { return scenario_.jobs[static_cast<size_t>(job)].name; }
  template <class Message>
  static void write_devices(const std::vector<DeviceId>& devices, Message& out) {
    for (const DeviceId device : devices) out.add_devices(device.value);
  }
  template <class What, class Message>
  static void write_targets(const What& what, Message& out) {
    write_devices(what.devices, out);
    for (const std::string& link : what.links) out.add_links(link);
  }

  const Scenario& scenario_;
  proto::ScenarioEvent& out_;
};

void write_costs(const CostOverride& costs, proto::Costs& out) {
  out.set_strategy(costs.strategy);
  if (costs.stack) out.set_stack(std::string((*costs.stack)->name));
  if (costs.detect_s) out.set_detect(seconds_text(*costs.detect_s));
  if (costs.hang_s) out.set_hang(seconds_text(*costs.hang_s));
  if (costs.plan_s) out.set_plan(seconds_text(*costs.plan_s));
  if (costs.restart_s) out.set_restart(seconds_text(*costs.restart_s));
  if (costs.allocate_bytes_per_s) out.set_allocate_rate(rate_text(*costs.allocate_bytes_per_s));
  if (costs.verify_bytes_per_s) out.set_verify_rate(rate_text(*costs.verify_bytes_per_s));
  if (costs.communicator_s) out.set_communicator(seconds_text(*costs.communicator_s));
  if (costs.transfer_start_s) out.set_transfer_start(seconds_text(*costs.transfer_start_s));
  if (costs.box_s) out.set_box(seconds_text(*costs.box_s));
  if (costs.peer_s) out.set_peer(seconds_text(*costs.peer_s));
  if (costs.compile_s) out.set_compile(seconds_text(*costs.compile_s));
}

void write_expectation(const Expectation& expect, const std::string& own_strategy, proto::Expect& out) {
  out.set_metric(expect.metric);
  out.set_strategy(expect.strategy.empty() ? own_strategy : expect.strategy);
  if (expect.at_least) out.set_at_least(*expect.at_least);
  if (expect.at_most) out.set_at_most(*expect.at_most);
  if (expect.equals) out.set_equals(*expect.equals);
  if (expect.is) out.set_is(*expect.is);
}

}  // namespace

std::string seconds_text(double seconds) { return plain(seconds, "s"); }

std::string resolved_text_of(const Scenario& scenario, const proto::Scenario& message) {
  proto::Scenario out;
  out.set_schema_version(1);
  out.set_name(scenario.name);
  out.set_description(scenario.description);
  out.set_seed(scenario.seed);
  if (scenario.until_s) out.set_until(seconds_text(*scenario.until_s));
  write_cluster(scenario.cluster, *out.mutable_cluster());
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    write_job(scenario.jobs[j], message.jobs(static_cast<int>(j)), *out.add_jobs());
  }
  for (const ScenarioEvent& event : scenario.events) {
    EventWriter writer(scenario, *out.add_events());
    std::visit(writer, event.when);
    std::visit(writer, event.what);
  }
  out.set_strategy(scenario.strategy);
  for (const CostOverride& costs : scenario.costs) write_costs(costs, *out.add_costs());
  if (scenario.round_bytes > 0) out.mutable_planner()->set_round_bytes(fmt::format("{}B", scenario.round_bytes));
  if (scenario.memory_cap >= 0) out.mutable_planner()->set_memory_cap(fmt::format("{}B", scenario.memory_cap));
  for (const Expectation& expect : scenario.expectations) {
    write_expectation(expect, scenario.strategy, *out.add_expect());
  }
  if (scenario.compute == Compute::kSimulated) out.set_compute(proto::Scenario::SIMULATED);
  write_absent(scenario, out);
  if (scenario.policy) write_policy(*scenario.policy, *out.mutable_policy());
  if (!scenario.scale_model.whole()) out.set_scale_model(scenario.scale_model.str());
  return proto::print_textproto(out);
}

}  // namespace scalai::scenario::internal

namespace scalai::scenario {
namespace {

std::filesystem::path without_links(const std::string& folder) {
  std::error_code unknown;
  const std::filesystem::path whole = absolute_path(folder.empty() ? "." : folder);
  const std::filesystem::path found = std::filesystem::weakly_canonical(whole, unknown);
  return unknown ? whole : found;
}

}  // namespace

std::string with_strategy(const std::string& resolved_text, const std::string& strategy) {
  // At the start of a line only the scenario's own fields are printed.
  static constexpr std::string_view kLineStart = "\nstrategy: \"";
  const size_t found = resolved_text.find(kLineStart);
  if (found == std::string::npos) return resolved_text;
  const size_t name = found + kLineStart.size();
  return resolved_text.substr(0, name) + strategy + resolved_text.substr(resolved_text.find('"', name));
}

std::string text_in_folder(const std::string& resolved_text, const std::string& folder, const std::string& target) {
  static constexpr std::string_view kLine = "\nfolder: \"";  // as above
  std::string text = resolved_text;
  if (const size_t found = text.find(kLine); found != std::string::npos)
    text.erase(found, text.find('\n', found + 1) - found);
  if (folder.empty()) return text;
  proto::Scenario line;
  line.set_folder(without_links(folder).lexically_relative(without_links(target)).string());
  return text + proto::print_textproto(line);
}

}  // namespace scalai::scenario
