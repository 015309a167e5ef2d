#include "apps/doctor/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using executor::cuda::GpuReport;

constexpr int64_t kManyFiles = 4096;
constexpr int64_t kSmallSharedMemory = int64_t{64} << 20;  // what containers get by default

const char* word_of(Found found) {
  switch (found) {
    case Found::kYes: return "yes";
    case Found::kPartly: return "partly";
    case Found::kNo: return "no";
  }
  return "?";
}

std::string or_unlimited(int64_t limit, const std::string& text) { return limit < 0 ? "unlimited" : text; }

// Network devices past the kernel: everything but TCP.
bool has_rdma(const DoctorFacts& facts) {
  return facts.ucx.ok() && std::any_of(facts.ucx->devices.begin(), facts.ucx->devices.end(),
                                       [](const auto& device) { return device.network && device.transport != "tcp"; });
}

void add_machine(const MachineFacts& machine, std::vector<Finding>& findings) {
  findings.push_back({.area = "machine",
                      .detail = fmt::format("Linux {}, glibc {}; {}, {} core{}", machine.kernel, machine.libc,
                                            machine.cpu.empty() ? "processor unknown" : machine.cpu, machine.cores,
                                            machine.cores == 1 ? "" : "s")});
  findings.push_back({.area = "machine",
                      .detail = fmt::format("memory {}, {} available", format_bytes(machine.memory_bytes),
                                            format_bytes(machine.available_bytes))});
  const bool never = machine.huge_pages == "never" || machine.huge_pages == "deny";
  findings.push_back(
      {.area = "machine",
       .found = never ? Found::kPartly : Found::kYes,
       .detail =
           fmt::format("huge pages of shared memory: {}", machine.huge_pages.empty() ? "unknown" : machine.huge_pages),
       .consequence = never
                          ? "large states in host memory take longer to prepare, nothing fails; as root: echo advise > "
                            "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
                          : ""});
  const std::string yama =
      machine.ptrace_scope ? fmt::format(" (Yama ptrace_scope {})", *machine.ptrace_scope) : std::string();
  if (machine.peers_problem.empty()) {
    findings.push_back({.area = "machine", .detail = "processes may map each other's memory" + yama});
  } else {
    findings.push_back({.area = "machine",
                        .found = Found::kNo,
                        .detail = machine.peers_problem + yama,
                        .consequence =
                            "workers of this machine cannot read each other's state: run them as one user in "
                            "one PID namespace with /proc, or give --transport=ucx"});
  }
}

void add_limits(const DoctorFacts& facts, std::vector<Finding>& findings) {
  const MachineFacts& machine = facts.machine;
  const bool few = machine.open_files >= 0 && machine.open_files < kManyFiles;
  findings.push_back(
      {.area = "limits",
       .found = few ? Found::kPartly : Found::kYes,
       .detail = fmt::format("open files: {}", or_unlimited(machine.open_files, std::to_string(machine.open_files))),
       .consequence = few ? "runs with hundreds of devices are refused (raise ulimit -Hn)" : ""});
  const bool locked = machine.locked_bytes >= 0 && has_rdma(facts);
  findings.push_back(
      {.area = "limits",
       .found = locked ? Found::kPartly : Found::kYes,
       .detail =
           fmt::format("locked memory: {}", or_unlimited(machine.locked_bytes, format_bytes(machine.locked_bytes))),
       .consequence = locked ? "RDMA cards register memory within this limit: UCX and NCCL may fail over InfiniBand "
                               "(ulimit -l unlimited; under Slurm PropagateResourceLimitsExcept=MEMLOCK)"
                             : ""});
  const bool small = machine.shm_bytes <= kSmallSharedMemory;
  findings.push_back({.area = "limits",
                      .found = small ? Found::kPartly : Found::kYes,
                      .detail = machine.shm_bytes < 0
                                    ? std::string("/dev/shm: there is none")
                                    : fmt::format("/dev/shm: {}, {} free", format_bytes(machine.shm_bytes),
                                                  format_bytes(machine.shm_free_bytes)),
                      .consequence = small ? "NCCL between processes of this machine may fail when it starts (docker: "
                                             "--shm-size=1g); Scalai's own state does not lie there"
                                           : ""});
}

// "2 × A GPU, 1 × Another", in the order of their first.
std::string names_of(const GpuReport& report) {
  std::vector<std::pair<std::string, int>> names;
  for (const executor::cuda::GpuInfo& gpu : report.gpus) {
    const auto same =
        std::find_if(names.begin(), names.end(), [&](const auto& name) { return name.first == gpu.name; });
    if (same == names.end()) {
      names.emplace_back(gpu.name, 1);
    } else {
      ++same->second;
    }
  }
  std::vector<std::string> parts;
  for (const auto& [name, count] : names) parts.push_back(fmt::format("{} × {}", count, name));
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Pairs by what joins them: "NVLink", "peer access", "host memory".
std::map<std::string, int> pairs_of(const GpuReport& report) {
  std::map<std::string, int> pairs;
  for (size_t from = 0; from < report.links.size(); ++from) {
    for (size_t to = from + 1; to < report.links[from].size(); ++to) {
      const executor::cuda::GpuLink& link = report.links[from][to];
      ++pairs[link.reaches ? link.kind : "host memory"];
    }
  }
  return pairs;
}

void add_pairs(const GpuReport& report, std::vector<Finding>& findings) {
  const std::map<std::string, int> pairs = pairs_of(report);
  if (pairs.empty()) return;
  std::vector<std::string> parts;
  for (const auto& [kind, count] : pairs) parts.push_back(fmt::format("{} by {}", count, kind));
  const bool staged = pairs.count("host memory") != 0;
  findings.push_back({.area = "cuda",
                      .found = staged ? Found::kPartly : Found::kYes,
                      .detail = fmt::format("pairs of GPUs: {}", fmt::join(parts, ", ")),
                      .consequence = staged ? "GPUs without peer access copy through host memory, several times slower "
                                              "(IOMMU or ACS, or cards on different sockets)"
                                            : ""});
}

void add_cuda(const absl::StatusOr<GpuReport>& report, std::vector<Finding>& findings) {
  if (!report.ok()) {
    findings.push_back({.area = "cuda",
                        .found = Found::kNo,
                        .detail = message_of(report.status()),
                        .consequence = "--backend=cuda is refused (exit code 4); --backend=host emulates devices in "
                                       "host memory"});
    return;
  }
  findings.push_back({.area = "cuda",
                      .detail = fmt::format("{}; driver {} (CUDA {}), runtime CUDA {}", names_of(*report),
                                            report->driver.empty() ? "of unknown version" : report->driver,
                                            report->driver_cuda, report->runtime_cuda)});
  for (const executor::cuda::GpuInfo& gpu : report->gpus) {
    if (gpu.virtual_memory) continue;
    findings.push_back({.area = "cuda",
                        .found = Found::kPartly,
                        .detail = fmt::format("GPU {} has no virtual memory management", gpu.index),
                        .consequence = "--backend=cuda cannot use this GPU (leave it out with CUDA_VISIBLE_DEVICES)"});
  }
  add_pairs(*report, findings);
}

void add_nccl(const absl::StatusOr<NcclFacts>& nccl, std::vector<Finding>& findings) {
  if (nccl.ok()) {
    findings.push_back({.area = "nccl", .detail = fmt::format("{} in {}", nccl->version, nccl->path)});
    return;
  }
  findings.push_back({.area = "nccl",
                      .found = Found::kNo,
                      .detail = message_of(nccl.status()),
                      .consequence = "GPU state moves between the devices of one worker only: several workers with "
                                     "--backend=cuda are refused (give the library with --nccl=FILE)"});
}

// "tcp (eth0, lo), rc_verbs (mlx5_0:1)"
std::string devices_text(const executor::transport::UcxInfo& ucx, bool network) {
  std::map<std::string, std::vector<std::string>> devices;
  for (const executor::transport::UcxDevice& device : ucx.devices) {
    if (device.network == network) devices[device.transport].push_back(device.device);
  }
  std::vector<std::string> parts;
  for (const auto& [transport, names] : devices)
    parts.push_back(network ? fmt::format("{} ({})", transport, fmt::join(names, ", ")) : transport);
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

void add_ucx(const DoctorFacts& facts, std::vector<Finding>& findings) {
  if (!facts.ucx.ok()) {
    findings.push_back({.area = "ucx",
                        .found = Found::kNo,
                        .detail = message_of(facts.ucx.status()),
                        .consequence = "--transport=ucx is refused: state in host memory stays on one machine"});
    return;
  }
  const executor::transport::UcxInfo& ucx = *facts.ucx;
  findings.push_back(
      {.area = "ucx", .detail = fmt::format("{}; inside a machine: {}", ucx.version, devices_text(ucx, false))});
  const bool rdma = has_rdma(facts);
  findings.push_back({.area = "ucx",
                      .found = rdma ? Found::kYes : Found::kPartly,
                      .detail = fmt::format("between machines: {}", devices_text(ucx, true)),
                      .consequence = rdma ? ""
                                          : "state in host memory goes over TCP; for RDMA UCX needs the system's "
                                            "libibverbs, a card, and locked memory"});
}

void add_fuse(const MachineFacts& machine, std::vector<Finding>& findings) {
  std::string problem = machine.fuse_problem;
  if (problem.empty() && machine.fusermount.empty() && !machine.root) problem = "fusermount3 is not on PATH";
  if (problem.empty()) {
    const std::string how = machine.fusermount.empty() ? "root mounts without fusermount3" : machine.fusermount;
    findings.push_back({.area = "fuse", .detail = "/dev/fuse opens; " + how});
    return;
  }
  findings.push_back({.area = "fuse",
                      .found = Found::kNo,
                      .detail = problem,
                      .consequence = "datasets and checkpoints cannot be mounted as files; runs do not need that "
                                     "(Debian: fuse3; docker: --device=/dev/fuse --cap-add=SYS_ADMIN)"});
}

nlohmann::ordered_json gpus_json(const GpuReport& report) {
  nlohmann::ordered_json gpus = nlohmann::ordered_json::array();
  for (const executor::cuda::GpuInfo& gpu : report.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"pci_bus", gpu.pci_bus},
                    {"compute_capability", fmt::format("{}.{}", gpu.capability_major, gpu.capability_minor)},
                    {"multiprocessors", gpu.multiprocessors},
                    {"memory_bytes", gpu.memory_bytes},
                    {"free_bytes", gpu.free_bytes},
                    {"clock_hz", gpu.clock_hz},
                    {"memory_clock_hz", gpu.memory_clock_hz},
                    {"ecc", gpu.ecc}});
  }
  return gpus;
}

nlohmann::ordered_json links_json(const GpuReport& report) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const std::vector<executor::cuda::GpuLink>& row : report.links) {
    nlohmann::ordered_json kinds = nlohmann::ordered_json::array();
    for (const executor::cuda::GpuLink& link : row) kinds.push_back(link.kind);
    links.push_back(kinds);
  }
  return links;
}

}  // namespace

std::vector<Finding> diagnose(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  add_machine(facts.machine, findings);
  add_limits(facts, findings);
  add_cuda(facts.cuda, findings);
  add_nccl(facts.nccl, findings);
  add_ucx(facts, findings);
  add_fuse(facts.machine, findings);
  findings.push_back(
      {.area = "libraries", .detail = fmt::format("gRPC {}, SQLite {}", facts.grpc_version, facts.sqlite_version)});
  return findings;
}

const std::vector<std::string>& areas_to_require() {
  static const std::vector<std::string> areas = {"cuda", "nccl", "ucx", "fuse"};
  return areas;
}

absl::Status check_required(const std::vector<Finding>& findings, const std::vector<std::string>& required) {
  std::vector<std::string> lines;
  for (const std::string& area : std::set<std::string>(required.begin(), required.end())) {
    const auto of_area = [&](const Finding& finding) { return finding.area == area; };
    SCALAI_CHECK(std::any_of(findings.begin(), findings.end(), of_area), area);
    for (const Finding& finding : findings) {
      if (of_area(finding) && finding.found == Found::kNo) lines.push_back(fmt::format("{}: {}", area, finding.detail));
    }
  }
  return lines.empty() ? absl::OkStatus() : missing(fmt::format("required and missing: {}", fmt::join(lines, "; ")));
}

std::string doctor_table(const DoctorFacts& facts, const std::vector<Finding>& findings, const Screen& screen) {
  Table table({"area", "found", "what~"});
  std::string consequences;
  for (const Finding& finding : findings) {
    // What is missing says what helps after a semicolon: too long for a cell.
    const size_t end = finding.found == Found::kNo ? finding.detail.find("; ") : std::string::npos;
    table.row({finding.area, word_of(finding.found), finding.detail.substr(0, end)});
    const std::string help = end == std::string::npos ? "" : finding.detail.substr(end);
    if (!finding.consequence.empty())
      consequences += fmt::format("  {}: {}{}\n", finding.area, finding.consequence, help);
  }
  std::string text = table.text(screen);
  if (!facts.gpu_text.empty()) text += "\n" + facts.gpu_text;
  if (!consequences.empty()) text += "\nwhat follows\n" + consequences;
  return text;
}

std::string doctor_json(const DoctorFacts& facts, const std::vector<Finding>& findings) {
  nlohmann::ordered_json document = {{"schema_version", 1}, {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : findings) {
    document["findings"].push_back({{"area", finding.area},
                                    {"found", word_of(finding.found)},
                                    {"detail", finding.detail},
                                    {"consequence", finding.consequence}});
  }
  document["gpus"] = facts.cuda.ok() ? gpus_json(*facts.cuda) : nlohmann::ordered_json::array();
  document["gpu_links"] = facts.cuda.ok() ? links_json(*facts.cuda) : nlohmann::ordered_json::array();
  document["ucx_devices"] = nlohmann::ordered_json::array();
  if (facts.ucx.ok()) {
    for (const executor::transport::UcxDevice& device : facts.ucx->devices) {
      document["ucx_devices"].push_back(
          {{"transport", device.transport}, {"device", device.device}, {"network", device.network}});
    }
  }
  // What a library says may be no UTF-8.
  return json_text(document, {.indent = 2}) + "\n";
}

}  // namespace scalai::apps
