#pragma once
// Options for state and its transport, shared by a controller, its workers and a continued run. Values and free
// functions.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"
#include "executor/nccl/nccl_api.h"
#include "executor/state/segment.h"
#include "ptc/base/command.h"

namespace scalai::apps {

struct StateOptions {
  std::string transport = "shared-memory";  // or ucx, nccl
  std::string backend = "host";             // or cuda
  int devices_per_gpu = 1;
  std::string nccl;                 // file of the library; empty: found by the loader
  int64_t memory_cap = 0;           // bytes of a device's own memory for state; 0: all of it
  int64_t host_overflow = 0;        // bytes of pinned host memory that a device may use in addition
  std::string huge_pages = "auto";  // of memory in hosts; or off, require

  int64_t device_limit() const { return memory_cap > 0 ? memory_cap : executor::state::SegmentOptions{}.limit; }
  bool network() const { return transport == "ucx"; }  // the network also connects workers of one machine
  bool with_nccl() const { return transport == "nccl"; }
  // Other processes cannot access such devices: hosts that share GPUs are workers of one process then.
  bool on_gpus() const { return backend == "cuda"; }
};

// --transport, --backend, --devices-per-gpu, --nccl, --memory, --host-overflow, --huge-pages. `worker`: help texts for
// a worker.
std::vector<OptionSpec> state_option_specs(bool worker = false);
OptionSpec huge_pages_option(const std::string& more = "");
executor::state::HugePages huge_pages_of(const std::string& word);
// InvalidArgument: contradictory options.
absl::StatusOr<StateOptions> read_state_options(const Arguments& arguments);
// The options as command-line words.
std::vector<std::string> words_of(const StateOptions& options);

// NotFound, with what to do: the requested GPUs for the devices of these hosts, or NCCL, are missing.
absl::Status check_here(const StateOptions& options, const std::vector<int>& devices_of_hosts);
// The back end of this process's devices. Errors: those of the CUDA back end.
absl::StatusOr<std::shared_ptr<executor::device::Backend>> make_backend(const StateOptions& options);
// NCCL's functions, if requested. NotFound: no such library.
absl::StatusOr<std::optional<executor::nccl::NcclApi>> open_nccl(const StateOptions& options);

}  // namespace scalai::apps
