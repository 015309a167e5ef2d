#include "apps/common/runs/state_options.h"

#include <fmt/format.h>

#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/topology.h"
#include "executor/nccl/library.h"
#include "ptc/base/status.h"

namespace scalai::apps {

namespace ex = scalai::executor;

std::vector<OptionSpec> state_option_specs(bool worker) {
  const std::string as_given = worker ? " As given to the controller." : "";
  return {
      choice_option(
          "transport", "HOW",
          "How state travels between workers: memory shared on this machine, UCX, or NCCL from GPU to GPU (what "
          "lies in hosts' memories then goes as it can: shared, or by UCX)." +
              as_given,
          {"shared-memory", "ucx", "nccl"}, "shared-memory"),
      choice_option("backend", "WHERE", "Where devices keep state: in host memory, or on GPUs." + as_given,
                    {"host", "cuda"}, "host"),
      count_option("devices-per-gpu", "N",
                   "So many of the scenario's devices share a GPU, so that one card can stand for a job's." + as_given,
                   "1"),
      text_option("nccl", "FILE", "NCCL's library; without it libnccl.so.2 as the loader finds it."),
      formerly(bytes_option("memory", "BYTES",
                            "Most of a device's own memory that state may take; without it all there is." + as_given),
               {"memory-cap"}),
      bytes_option(
          "host-overflow", "BYTES",
          "Pinned host memory that each device on a GPU may use while old and new state do not fit into its own." +
              as_given),
      huge_pages_option(as_given)};
}

OptionSpec huge_pages_option(const std::string& more) {
  return choice_option("huge-pages", "WHEN",
                       "Huge pages for state in hosts' memories: where the kernel gives them to shared memory "
                       "(/sys/kernel/mm/transparent_hugepage/shmem_enabled), never, or an error without." +
                           more,
                       {"auto", "off", "require"}, "auto");
}

ex::state::HugePages huge_pages_of(const std::string& word) {
  return word == "off"       ? ex::state::HugePages::kOff
         : word == "require" ? ex::state::HugePages::kRequire
                             : ex::state::HugePages::kAuto;
}

absl::StatusOr<StateOptions> read_state_options(const Arguments& arguments) {
  StateOptions options{.transport = arguments.text("transport"),
                       .backend = arguments.text("backend"),
                       .devices_per_gpu = static_cast<int>(arguments.count("devices-per-gpu")),
                       .nccl = arguments.text("nccl"),
                       .memory_cap = arguments.has("memory") ? arguments.bytes("memory") : 0,
                       .host_overflow = arguments.has("host-overflow") ? arguments.bytes("host-overflow") : 0,
                       .huge_pages = arguments.text("huge-pages")};
  if (options.devices_per_gpu < 1 || options.devices_per_gpu > 1024) return invalid("--devices-per-gpu is 1 to 1024");
  if (!options.nccl.empty() && !options.with_nccl()) return invalid("--nccl has no effect without --transport=nccl");
  if (arguments.has("memory") && options.memory_cap == 0) return invalid("--memory is more than 0");
  if (options.host_overflow > 0 && !options.on_gpus())
    return invalid("--host-overflow has no effect without --backend=cuda");
  return options;
}

std::vector<std::string> words_of(const StateOptions& options) {
  std::vector<std::string> words = {"--transport=" + options.transport, "--backend=" + options.backend};
  if (options.devices_per_gpu != 1) words.push_back(fmt::format("--devices-per-gpu={}", options.devices_per_gpu));
  if (!options.nccl.empty()) words.push_back("--nccl=" + options.nccl);
  if (options.memory_cap != 0) words.push_back(fmt::format("--memory={}B", options.memory_cap));
  if (options.host_overflow != 0) words.push_back(fmt::format("--host-overflow={}B", options.host_overflow));
  if (options.huge_pages != StateOptions{}.huge_pages) words.push_back("--huge-pages=" + options.huge_pages);
  return words;
}

absl::Status check_here(const StateOptions& options, const std::vector<int>& devices_of_hosts) {
  SCALAI_RETURN_IF_ERROR(open_nccl(options).status());
  if (const ex::state::HugePageSupport pages = ex::state::huge_page_support();
      huge_pages_of(options.huge_pages) == ex::state::HugePages::kRequire && pages.page_bytes == 0)
    return missing(ex::state::no_huge_pages(pages));
  if (!options.on_gpus()) return absl::OkStatus();
  SCALAI_ASSIGN_OR_RETURN(const ex::cuda::GpuReport report, ex::cuda::gpu_report());
  const auto gpus_for = [&](int devices) { return (devices + options.devices_per_gpu - 1) / options.devices_per_gpu; };
  int devices = 0, apart = 0;
  for (const int of_host : devices_of_hosts) {
    devices += of_host;
    apart += gpus_for(of_host);
  }
  const int needed = options.with_nccl() ? apart : gpus_for(devices);  // with NCCL hosts share no GPU
  const auto there = static_cast<int>(report.gpus.size());
  if (needed <= there) return absl::OkStatus();
  return missing(
      fmt::format("{} devices of {} hosts, {} on a GPU, need {} GPUs, and {} are here: give "
                  "--devices-per-gpu a larger number, or take a smaller scenario",
                  devices, devices_of_hosts.size(), options.devices_per_gpu, needed, there));
}

absl::StatusOr<std::shared_ptr<ex::device::Backend>> make_backend(const StateOptions& options) {
  if (!options.on_gpus()) {
    // Between host memories NCCL carries only what a library can that takes them, as that of the tests.
    return std::shared_ptr<ex::device::Backend>(
        ex::device::make_host_backend({.devices_per_gpu = options.with_nccl() ? options.devices_per_gpu : 0}));
  }
  SCALAI_ASSIGN_OR_RETURN(const ex::cuda::GpuReport report, ex::cuda::gpu_report());
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<ex::device::Backend> made,
      ex::cuda::make_cuda_backend({.devices = static_cast<int>(report.gpus.size()) * options.devices_per_gpu,
                                   .devices_per_gpu = options.devices_per_gpu}));
  return std::shared_ptr<ex::device::Backend>(std::move(made));
}

absl::StatusOr<std::optional<ex::nccl::NcclApi>> open_nccl(const StateOptions& options) {
  if (!options.with_nccl()) return std::optional<ex::nccl::NcclApi>();
  SCALAI_ASSIGN_OR_RETURN(const ex::nccl::NcclLibrary library, ex::nccl::NcclLibrary::open(options.nccl));
  return std::optional<ex::nccl::NcclApi>(library.api());
}

}  // namespace scalai::apps
