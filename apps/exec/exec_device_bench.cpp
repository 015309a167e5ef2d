#include "apps/exec/exec_device_bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/exec/exec_session.h"
#include "executor/bench/cases.h"
#include "executor/bench/copy_work.h"
#include "executor/bench/device_bench.h"
#include "executor/bench/driver.h"
#include "executor/bench/link_bench.h"
#include "executor/bench/yardsticks.h"
#include "executor/cuda/topology.h"
#include "executor/cuda/yardsticks.h"
#include "executor/nccl/library.h"
#include "executor/state/available_memory.h"
#include "ptc/base/say.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/planner.h"

namespace scalai::apps {

namespace ex = scalai::executor;
namespace bench = scalai::executor::bench;
using bench::Measurement;

namespace {

constexpr int kDevices = 8;  // of a reconfiguration
const std::vector<std::string>& layout_models() {
  static const std::vector<std::string> models = {"llama3-8b", "gpt3-6.7b"};
  return models;
}
const std::vector<std::string>& whole_models() {
  static const std::vector<std::string> models = {"gpt3-xl", "gpt3-6.7b"};
  return models;
}

int64_t or_else(int64_t bytes, int64_t otherwise) { return bytes > 0 ? bytes : otherwise; }

bool wants(const DeviceBenchOptions& options, const std::string& name) {
  return std::find(options.cases.begin(), options.cases.end(), name) != options.cases.end();
}

// What a card, or this machine, has for the state of one reconfiguration.
absl::StatusOr<int64_t> room_of(const StateOptions& state) {
  if (!state.on_gpus()) return ex::state::available_memory();
  SCALAI_ASSIGN_OR_RETURN(const ex::cuda::GpuReport report, ex::cuda::gpu_report());
  int64_t bytes = 0;
  for (const ex::cuda::GpuInfo& gpu : report.gpus) bytes += gpu.free_bytes > 0 ? gpu.free_bytes : gpu.memory_bytes;
  return bytes;
}

absl::StatusOr<std::vector<Measurement>> measure_layouts(const DeviceBenchOptions& options,
                                                         const std::function<void(const std::string&)>& note) {
  bench::CopyWorkOptions wanted{
      .names = {},
      .models = options.models.empty() ? layout_models() : options.models,
      .bytes = or_else(options.bytes, options.state.on_gpus() ? int64_t{4} << 30 : int64_t{256} << 20)};
  for (const std::string& name : bench::copy_work_names()) {
    if (wants(options, name)) wanted.names.push_back(name);
  }
  std::vector<Measurement> list;
  if (wanted.names.empty()) return list;
  SCALAI_ASSIGN_OR_RETURN(const std::vector<bench::CopyWork> works, bench::make_copy_works(wanted));
  SCALAI_ASSIGN_OR_RETURN(const auto backend, make_backend(options.state));
  for (const bench::CopyWork& work : works) {
    note(work.name + " " + work.model);
    SCALAI_ASSIGN_OR_RETURN(const std::vector<Measurement> rows,
                            bench::measure_copies(*backend, work, options.repetitions));
    list.insert(list.end(), rows.begin(), rows.end());
  }
  return list;
}

absl::StatusOr<std::vector<Measurement>> measure_nccl(const DeviceBenchOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(const ex::nccl::NcclLibrary nccl, ex::nccl::NcclLibrary::open(options.state.nccl));
  int ranks = 1;
  StateOptions state = options.state;
  state.devices_per_gpu = 1;
  if (state.on_gpus()) {
    SCALAI_ASSIGN_OR_RETURN(const ex::cuda::GpuReport report, ex::cuda::gpu_report());
    ranks = static_cast<int>(report.gpus.size());
  }
  SCALAI_ASSIGN_OR_RETURN(const auto backend, make_backend(state));
  return bench::measure_links(
      *backend, nccl.api(),
      {.ranks = ranks, .bytes = or_else(options.bytes, int64_t{1} << 30), .repetitions = options.repetitions});
}

// Where both states do not fit, in rounds that free the old one early.
absl::StatusOr<plan::Plan> plan_of(const bench::Case& one, int64_t room) {
  const cluster::Cluster cluster = bench::cluster_of(one.devices, true);
  const collection::Residency nobody_lost;
  plan::PlannerOptions how;
  const int64_t state = std::max(bench::bytes_on_devices(one.from), bench::bytes_on_devices(one.to));
  if (2 * state > room / 10 * 9) how.memory_cap = std::max<int64_t>(int64_t{64} << 20, (room - state) / 4 / kDevices);
  return plan::make_plan({one.from, one.to, cluster, nobody_lost, how});
}

Measurement row_of(const bench::Case& one, const plan::Plan& plan, const bench::Runs& runs, const StateOptions& state,
                   int repetitions) {
  Measurement row{.name = one.name,
                  .devices = one.devices,
                  .transport = state.backend,
                  .state_bytes = one.state_bytes,
                  .moved_bytes = plan.bytes().moved() + plan.bytes().same_device,
                  .prepare_s = median(runs.prepare_s).value_or(0),
                  .first_s = runs.first_s,
                  .transfer_s = runs.transfer_s,
                  .errors = runs.errors};
  for (const plan::DeviceTraffic& device : plan::device_traffic(plan)) {
    row.busiest_received = std::max(row.busiest_received, device.received);
    row.busiest_bytes = std::max({row.busiest_bytes, device.received, device.sent});
  }
  if (!state.on_gpus()) {
    row.yardsticks.push_back({"memcpy", bench::memcpy_seconds(row.moved_bytes, repetitions)});
  } else if (row.moved_bytes > 0) {
    // By a part where all of it would not fit beside the state.
    const int64_t bytes = std::min(row.moved_bytes, int64_t{4} << 30);
    const auto copy = ex::cuda::device_copy_seconds(0, bytes, repetitions);
    const double share = static_cast<double>(row.moved_bytes) / static_cast<double>(bytes);
    row.yardsticks.push_back({"cudaMemcpyAsync", copy.ok() ? *copy * share : 0});
    if (!copy.ok()) say("scalai exec bench: cudaMemcpyAsync: {}\n", message_of(copy.status()));
  }
  return row;
}

Measurement verify_row(const Measurement& row, const bench::Runs& runs) {
  Measurement verify = row;
  verify.name += ", verify";
  verify.transfer_s = runs.verify_s;
  verify.yardsticks = {{"the transfer", row.seconds()}};
  return verify;
}

absl::StatusOr<std::vector<Measurement>> measure_model(const bench::Case& there, const bench::Case& back,
                                                       const DeviceBenchOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(const int64_t room, room_of(options.state));
  const int64_t state = std::max(bench::bytes_on_devices(there.from), bench::bytes_on_devices(there.to));
  if (state > room / 10 * 9) {
    return missing(fmt::format("{}: a state of {} does not go into {}; take a smaller --scale-model or other --models",
                               there.name, format_bytes(state), format_bytes(room)));
  }
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan_there, plan_of(there, room));
  SCALAI_ASSIGN_OR_RETURN(const plan::Plan plan_back, plan_of(back, room));
  StateOptions how = options.state;
  how.transport = "shared-memory";
  how.nccl.clear();
  if (how.on_gpus()) {
    SCALAI_ASSIGN_OR_RETURN(const ex::cuda::GpuReport report, ex::cuda::gpu_report());
    const auto gpus = static_cast<int>(report.gpus.size());
    how.devices_per_gpu = std::max(how.devices_per_gpu, (kDevices + gpus - 1) / gpus);
  }
  const cluster::Cluster cluster = bench::cluster_of(kDevices, true);
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          Session::start_measuring(cluster, how, options.folder));
  const absl::Status ready = session->pool().start();
  absl::StatusOr<std::pair<bench::Runs, bench::Runs>> runs =
      ready.ok() ? bench::run_there_and_back(session->pool(), there, plan_there, back, plan_back, options.repetitions)
                 : ready;
  session->dismiss();
  SCALAI_RETURN_IF_ERROR(runs.status());
  for (const std::string& error : {runs->first.first_error, runs->second.first_error}) {
    if (!error.empty()) say("scalai exec bench: {}\n", error);
  }
  const Measurement out = row_of(there, plan_there, runs->first, how, options.repetitions);
  const Measurement home = row_of(back, plan_back, runs->second, how, options.repetitions);
  return std::vector<Measurement>{out, verify_row(out, runs->first), home, verify_row(home, runs->second)};
}

}  // namespace

std::vector<std::string> device_case_names() {
  std::vector<std::string> names = bench::copy_work_names();
  names.insert(names.end(), {"nccl", "reconfigure"});
  return names;
}

absl::Status measure_devices(const DeviceBenchOptions& options, const std::function<void(const std::string&)>& note,
                             std::vector<Measurement>& list) {
  absl::Status lacking;
  const auto add = [&](const absl::StatusOr<std::vector<Measurement>>& rows) {
    if (rows.ok()) {
      list.insert(list.end(), rows->begin(), rows->end());
    } else if (absl::IsNotFound(rows.status())) {
      say("scalai exec bench: left out: {}\n", message_of(rows.status()));
      if (lacking.ok()) lacking = rows.status();
    } else {
      return rows.status();
    }
    return absl::OkStatus();
  };
  SCALAI_RETURN_IF_ERROR(add(measure_layouts(options, note)));
  if (wants(options, "nccl")) {
    note("nccl");
    SCALAI_RETURN_IF_ERROR(add(measure_nccl(options)));
  }
  if (!wants(options, "reconfigure")) return lacking;
  SCALAI_ASSIGN_OR_RETURN(
      const std::vector<bench::Case> cases,
      bench::make_reconfigurations(options.models.empty() ? whole_models() : options.models, options.scale_model));
  for (size_t i = 0; i + 1 < cases.size(); i += 2) {
    note(cases[i].name);
    const auto rows = measure_model(cases[i], cases[i + 1], options);
    // Of models that nobody asked for the larger ones are for larger devices.
    if (absl::IsNotFound(rows.status()) && options.models.empty() && i > 0) {
      say("scalai exec bench: left out: {}\n", message_of(rows.status()));
      continue;
    }
    SCALAI_RETURN_IF_ERROR(add(rows));
  }
  return lacking;
}

}  // namespace scalai::apps
