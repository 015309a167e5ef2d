#pragma once
// Backend: what the devices of a worker are. The host back end emulates them in host memory; the CUDA back end
// (executor/cuda) puts them on GPUs. All that happens to state goes through here, in batches, so that a GPU does
// thousands of boxes in one launch.
//
// Addresses in Source and Target are of memory that memory_of_device() made, of staging(), or of host memory (a host's
// segment, a peer's mapped one, any array): a back end tells them apart. Boxes of one batch do not overlap in what is
// written.
//
// Thread rules: all functions from any thread at any time. Those that return a Status alone return when the work is done.

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

namespace scalai::executor {

// `part` lies in the boxes of both; the types are convertible (CHECK, as in copy.h).
struct BoxCopy {
  Box part;
  Source src;
  Target dst;
};
struct BoxFill {
  Content content;
  Box part;
  Target dst;
};
struct BoxCheck {
  Content content;
  Box part;
  Source src;
};
struct BoxHash {
  Box part;
  Source src;
};

// A moment in a Queue: all that was put in before.
class Mark {
 public:
  virtual ~Mark() = default;
  // Whether it has passed; an error of the work before it.
  virtual absl::StatusOr<bool> passed() const = 0;
};

// Work on one device, done in order beside the caller. One thread at a time.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual absl::Status copy(std::span<const BoxCopy> copies) = 0;  // returns at once; no pageable host memory
  virtual absl::StatusOr<std::unique_ptr<Mark>> mark() = 0;
  // What is put in later begins after that moment, of any queue of this back end.
  virtual absl::Status wait(const Mark& mark) = 0;
  // The driver's handle, for NCCL (a cudaStream_t); null on the host.
  virtual void* stream() const = 0;
};

// Memory of a device that is no state: messages on their way.
class Staging {
 public:
  virtual ~Staging() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;  // for people: "host", "cuda: NVIDIA H200 × 1, 8 devices on each"

  // Memory for the state of the n-th device of this worker (from 0), and the physical GPU behind it; devices of one GPU
  // share its number. −1: none, as on the host.
  virtual absl::StatusOr<std::unique_ptr<Memory>> memory_of_device(int device, const SegmentOptions& options) = 0;
  virtual int gpu_of_device(int device) const = 0;
  // The GPU of that device becomes the calling thread's current one, for libraries that look there (NCCL).
  virtual absl::Status make_current(int /*device*/) { return absl::OkStatus(); }

  virtual absl::Status copy(std::span<const BoxCopy> copies) = 0;
  virtual absl::Status fill(std::span<const BoxFill> fills) = 0;
  // One entry a check: the first wrong element, in row-major order.
  virtual absl::StatusOr<std::vector<std::optional<Mismatch>>> check(std::span<const BoxCheck> checks) = 0;
  // box_digest (executor/state/digest.h) of each.
  virtual absl::StatusOr<std::vector<uint64_t>> hash(std::span<const BoxHash> boxes) = 0;

  // For transfers that go on beside each other: on the GPU of a device.
  virtual absl::StatusOr<std::unique_ptr<Queue>> queue(int device) = 0;
  virtual absl::StatusOr<std::unique_ptr<Staging>> staging(int device, int64_t bytes) = 0;
};

struct HostBackendOptions {
  int threads = 1;  // that one call may use
  // 0: other processes read devices' memory in place. Else devices are like GPUs, so many on each: nobody else reaches
  // what they hold.
  int devices_per_gpu = 0;
};
// Devices in host memory.
std::unique_ptr<Backend> make_host_backend(const HostBackendOptions& options = {});

}  // namespace scalai::executor
