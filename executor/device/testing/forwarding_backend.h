#pragma once
// For tests: a back end that leaves everything to the host's, but for what a test overrides.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor::device {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> host = make_host_backend()) : host_(std::move(host)) {}
  std::string name() const override { return "of a test"; }
  absl::StatusOr<std::unique_ptr<state::Memory>> memory_of_device(int device,
                                                                  const state::SegmentOptions& options) override {
    return host_->memory_of_device(device, options);
  }
  int gpu_of_device(int device) const override { return host_->gpu_of_device(device); }
  bool in_host_memory() const override { return host_->in_host_memory(); }
  absl::Status copy(std::span<const BoxCopy> copies) override { return host_->copy(copies); }
  absl::Status fill(std::span<const BoxFill> fills) override { return host_->fill(fills); }
  absl::StatusOr<std::vector<std::optional<state::Mismatch>>> check(std::span<const BoxCheck> checks) override {
    return host_->check(checks);
  }
  absl::StatusOr<std::vector<uint64_t>> hash(std::span<const BoxHash> boxes) override { return host_->hash(boxes); }
  absl::StatusOr<std::unique_ptr<Queue>> queue(int device) override { return host_->queue(device); }
  absl::StatusOr<std::unique_ptr<Staging>> staging(int device, int64_t bytes) override {
    return host_->staging(device, bytes);
  }

 private:
  std::unique_ptr<Backend> host_;
};

}  // namespace scalai::executor::device
