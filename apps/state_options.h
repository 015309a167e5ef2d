#pragma once
// How workers keep state and how it travels: the options that a controller, its workers and those who go on with a run
// have in common.

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
  std::string nccl;           // file of the library; empty: the loader finds it
  int64_t memory_cap = 0;     // bytes of a device's own memory that state may take; 0: all of it
  int64_t host_overflow = 0;  // bytes of pinned host memory that a device may use beyond

  int64_t device_limit() const { return memory_cap > 0 ? memory_cap : executor::SegmentOptions{}.limit; }
  bool network() const { return transport == "ucx"; }  // also between workers of one machine
  bool with_nccl() const { return transport == "nccl"; }
  // Devices that other processes cannot reach: hosts that share GPUs are workers of one process then.
  bool on_gpus() const { return backend == "cuda"; }
};

// --transport, --backend, --devices-per-gpu, --nccl, --memory-cap, --host-overflow. `worker`: the help of a worker's options.
std::vector<OptionSpec> state_option_specs(bool worker = false);
// Error (InvalidArgument): options that do not go together.
absl::StatusOr<StateOptions> read_state_options(const Arguments& arguments);
// The same as words.
std::vector<std::string> words_of(const StateOptions& options);

// NotFound, with what to do: GPUs for the devices of these hosts, or NCCL, are asked for and not here.
absl::Status check_here(const StateOptions& options, const std::vector<int>& devices_of_hosts);
// What devices of this process are. Errors: those of the CUDA back end.
absl::StatusOr<std::shared_ptr<executor::Backend>> make_backend(const StateOptions& options);
// NCCL's functions when they are wanted. NotFound: there is no such library.
absl::StatusOr<std::optional<executor::NcclApi>> open_nccl(const StateOptions& options);

}  // namespace scalai::apps
