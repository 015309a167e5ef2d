#pragma once
// For tests: a back end whose devices compute steps on the way, as GPUs do.

#include <memory>

#include "executor/device/testing/forwarding_backend.h"
#include "ptc/state/transform/testing/looping_device.h"

namespace scalai::executor::worker {

class SteppingBackend final : public device::ForwardingBackend {
 public:
  explicit SteppingBackend(std::shared_ptr<transform::LoopingDevice> computes) : device(std::move(computes)) {}
  absl::StatusOr<std::shared_ptr<transform::Device>> steps_at(const std::byte*) override {
    if (full) return absl::ResourceExhaustedError("no room");
    return device;
  }

  std::shared_ptr<transform::LoopingDevice> device;
  bool full = false;
};

}  // namespace scalai::executor::worker
