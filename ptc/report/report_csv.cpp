// The tables of a report as CSV.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/report/internal/report_files.h"

namespace scalai::report {
namespace {

std::string rate_of(const control::TransferRecord& transfer) {
  const double seconds = transfer.end_s - transfer.start_s;
  return seconds > 0 ? shortest(static_cast<double>(transfer.bytes) / seconds) : "";
}

struct DeviceUse {
  std::vector<bool> jobs;
  double training_s = 0, paused_s = 0;
  int64_t sent_bytes = 0, received_bytes = 0, peak_state_bytes = 0;
  std::optional<double> lost_at_s;
};

void add_span(const control::JobSpan& span, DeviceUse& use) {
  use.jobs.at(static_cast<size_t>(span.job)) = true;
  const double seconds = span.end_s - span.start_s;
  if (span.what == "train") {
    use.training_s += seconds;
  } else if (span.what != "waiting") {
    use.paused_s += seconds;
  }
}

std::vector<DeviceUse> device_uses(const control::RunReport& report) {
  DeviceUse unused;
  unused.jobs.resize(report.scenario->jobs.size());
  std::vector<DeviceUse> uses(static_cast<size_t>(report.scenario->cluster.device_count()), unused);
  const auto use_of = [&](int device) -> DeviceUse& { return uses.at(static_cast<size_t>(device)); };
  for (const control::JobSpan& span : report.spans) {
    for (const DeviceId device : span.devices) add_span(span, use_of(device.value));
  }
  for (const control::TransferRecord& transfer : report.recorder.transfers) {
    if (transfer.status != "done" || transfer.src == transfer.dst) continue;
    if (transfer.src.kind == plan::Location::Kind::kDevice) use_of(transfer.src.index).sent_bytes += transfer.bytes;
    if (transfer.dst.kind == plan::Location::Kind::kDevice) use_of(transfer.dst.index).received_bytes += transfer.bytes;
  }
  for (const control::MemorySample& sample : report.memory) {
    int64_t& peak = use_of(sample.device.value).peak_state_bytes;
    peak = std::max(peak, sample.bytes);
  }
  for (const control::Event& event : report.events) {
    const auto* lost = std::get_if<control::DevicesLost>(&event.body);
    if (lost == nullptr) continue;
    for (const DeviceId device : lost->devices) {
      std::optional<double>& at = use_of(device.value).lost_at_s;
      if (!at) at = lost->failed_at_s;
    }
  }
  return uses;
}

std::string jobs_on(const DeviceUse& use, const control::RunReport& report) {
  std::string names;
  for (size_t job = 0; job < use.jobs.size(); ++job) {
    if (use.jobs[job]) names += (names.empty() ? "" : " ") + report.scenario->jobs[job].name;
  }
  return names;
}

}  // namespace

const std::string& job_name(const control::RunReport& report, int job) {
  const auto index = static_cast<size_t>(job);
  SCALAI_CHECK(job >= 0 && index < report.scenario->jobs.size(), fmt::format("job {}", job));
  return report.scenario->jobs[index].name;
}

std::string transfers_csv(const control::RunReport& report) {
  Table table({"seq", "job", "reconfiguration", "phase", "round", "src", "dst", "class", "bytes", "start_s", "end_s",
               "seconds", "bytes_per_s", "status"});
  int seq = 0;
  for (const control::TransferRecord& transfer : report.recorder.transfers) {
    table.row({std::to_string(++seq), job_name(report, transfer.job), std::to_string(transfer.reconfiguration),
               transfer.phase, std::to_string(transfer.round), transfer.src.str(), transfer.dst.str(),
               std::string(name_of(transfer.transfer_class)), std::to_string(transfer.bytes),
               shortest(transfer.start_s), shortest(transfer.end_s), shortest(transfer.end_s - transfer.start_s),
               rate_of(transfer), transfer.status});
  }
  return table.csv();
}

std::string devices_csv(const control::RunReport& report) {
  const cluster::Cluster& cluster = report.scenario->cluster;
  Table table({"device", "host", "gpu", "jobs", "training_s", "paused_s", "sent_bytes", "received_bytes",
               "peak_state_bytes", "lost_at_s"});
  const std::vector<DeviceUse> uses = device_uses(report);
  for (size_t i = 0; i < uses.size(); ++i) {
    const DeviceId device(static_cast<int64_t>(i));
    const DeviceUse& use = uses[i];
    const HostId host = cluster.host_of(device);
    table.row({fmt::format("g{}", i), fmt::format("h{}", host.value),
               cluster.hosts.at(static_cast<size_t>(host.value)).gpu.name, jobs_on(use, report),
               shortest(use.training_s), shortest(use.paused_s), std::to_string(use.sent_bytes),
               std::to_string(use.received_bytes), std::to_string(use.peak_state_bytes),
               use.lost_at_s ? shortest(*use.lost_at_s) : ""});
  }
  return table.csv();
}

}  // namespace scalai::report
