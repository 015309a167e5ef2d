#pragma once
// Backend: the devices of a worker. The host back end emulates them in host memory; the CUDA back end (executor/cuda)
// puts them on GPUs. All work on state goes through this interface, in batches, so that a GPU handles thousands of
// boxes per launch.
//
// Addresses in Source and Target are in memory of memory_of_device(), of staging(), or in host memory (a host's
// segment, a mapped segment of a peer, any array); a back end distinguishes them. Boxes written by one batch are
// disjoint.
//
// Thread-safe. Functions of Backend that return a Status return when the work is done. Spans are used during the call
// only.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/content.h"
#include "executor/state/memory.h"
#include "executor/state/segment.h"
#include "executor/state/view.h"

namespace scalai::transform {
class Device;  // ptc/state/transform/device.h
}

namespace scalai::executor::device {

// `part` lies in both boxes; the types are convertible (CHECK, as in executor/state/copy.h).
struct BoxCopy {
  tensor::Box part;
  state::Source src;
  state::Target dst;
};
struct BoxFill {
  state::Content content;
  tensor::Box part;
  state::Target dst;
};
struct BoxCheck {
  state::Content content;
  tensor::Box part;
  state::Source src;
};
struct BoxHash {
  tensor::Box part;
  state::Source src;
};

// A point in a Queue: after all work submitted before.
class Mark {
 public:
  virtual ~Mark() = default;
  // True once it has passed; or an error of the work before it.
  virtual absl::StatusOr<bool> query() const = 0;
};

// Asynchronous work on one device, in order. One thread at a time.
class Queue {
 public:
  virtual ~Queue() = default;
  // Returns at once. The span may end after the call, its memory not before the work is done. No pageable host memory.
  virtual absl::Status copy(std::span<const BoxCopy> copies) = 0;
  virtual absl::StatusOr<std::unique_ptr<Mark>> mark() = 0;
  // Later work begins after `mark`, which is of any queue of this back end.
  virtual absl::Status wait(const Mark& mark) = 0;
  // The driver's handle, for NCCL (a cudaStream_t); null on the host.
  virtual void* stream() const = 0;
};

// Memory of a device for messages, not for state.
class Staging {
 public:
  virtual ~Staging() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // for messages: "host", "cuda: NVIDIA H200 × 1, 8 devices on each"

  // Memory for the state of the n-th device of this worker (from 0), and its physical GPU. Devices on one GPU share its
  // number; −1: no GPU, as on the host.
  virtual absl::StatusOr<std::unique_ptr<state::Memory>> memory_of_device(int device,
                                                                          const state::SegmentOptions& options) = 0;
  virtual int gpu_of_device(int device) const = 0;
  // Makes the device's GPU the calling thread's current one, for libraries that need this (NCCL).
  virtual absl::Status make_current(int /*device*/) { return absl::OkStatus(); }

  virtual absl::Status copy(std::span<const BoxCopy> copies) = 0;
  virtual absl::Status fill(std::span<const BoxFill> fills) = 0;
  // One entry per check: the first wrong element in row-major order, or nullopt.
  virtual absl::StatusOr<std::vector<std::optional<state::Mismatch>>> check(std::span<const BoxCheck> checks) = 0;
  // box_digest (executor/state/digest.h) of each box.
  virtual absl::StatusOr<std::vector<uint64_t>> hash(std::span<const BoxHash> boxes) = 0;

  // What computes steps on the way to this address: the GPU that it lies on, from whose chunks copy() takes what they
  // give. Null: an address in host memory, where the host computes them. ResourceExhausted: no room for chunks.
  virtual absl::StatusOr<std::shared_ptr<transform::Device>> steps_at(const std::byte* /*address*/) { return nullptr; }

  // Whether this process reads and writes memory_of_device() by plain loads and stores.
  virtual bool in_host_memory() const = 0;

  // On the GPU of a device, for concurrent transfers.
  virtual absl::StatusOr<std::unique_ptr<Queue>> queue(int device) = 0;
  virtual absl::StatusOr<std::unique_ptr<Staging>> staging(int device, int64_t bytes) = 0;
};

struct HostBackendOptions {
  int threads = 1;  // threads of one call
  // 0: other processes read the devices' memory in place. Otherwise devices are like GPUs, so many on each: no other
  // process can access their memory.
  int devices_per_gpu = 0;
};
// Devices in host memory.
std::unique_ptr<Backend> make_host_backend(const HostBackendOptions& options = {});

}  // namespace scalai::executor::device
