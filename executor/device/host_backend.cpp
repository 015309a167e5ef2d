// Devices in host memory: every batch is a loop over its boxes.

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>

#include "executor/device/backend.h"
#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::executor::device {

using state::Segment;

namespace {

class HostMark final : public Mark {
 public:
  absl::StatusOr<bool> query() const override { return true; }
};

class HostQueue final : public Queue {
 public:
  absl::Status copy(std::span<const BoxCopy> copies) override {
    for (const BoxCopy& one : copies) state::copy_box(one.part, one.src, one.dst);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Mark>> mark() override { return std::make_unique<HostMark>(); }
  absl::Status wait(const Mark&) override { return absl::OkStatus(); }
  void* stream() const override { return nullptr; }
};

class HostStaging final : public Staging {
 public:
  explicit HostStaging(int64_t bytes) : bytes_(static_cast<size_t>(bytes)) {}
  std::byte* data() const override { return bytes_.data(); }
  int64_t bytes() const override { return static_cast<int64_t>(bytes_.size()); }

 private:
  mutable std::vector<std::byte> bytes_;
};

// Like a GPU's: others cannot map it, but for those who are given it, in one part.
class PrivateSegment final : public Segment {
 public:
  PrivateSegment(Segment segment, int64_t capacity) : Segment(std::move(segment)), capacity_(capacity) {}
  state::SegmentAddress address() const override { return {}; }
  absl::StatusOr<state::SharedPart> share(uint64_t) const override {
    const int copy = ::fcntl(Segment::address().fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return failed(fmt::format("sharing a device's memory: {}", std::strerror(errno)));
    return state::SharedPart{.offset = 0, .bytes = capacity_, .descriptor = FileDescriptor(copy)};
  }

 private:
  const int64_t capacity_;
};

class HostBackend final : public Backend {
 public:
  explicit HostBackend(const HostBackendOptions& options) : options_(options) {}
  std::string name() const override { return "host"; }

  absl::StatusOr<std::unique_ptr<state::Memory>> memory_of_device(int, const state::SegmentOptions& options) override {
    SCALAI_ASSIGN_OR_RETURN(Segment segment, Segment::create(options));
    if (options_.devices_per_gpu > 0) return std::make_unique<PrivateSegment>(std::move(segment), options.capacity);
    return std::make_unique<Segment>(std::move(segment));
  }
  bool in_host_memory() const override { return true; }
  int gpu_of_device(int device) const override {
    return options_.devices_per_gpu > 0 ? device / options_.devices_per_gpu : -1;
  }

  absl::Status copy(std::span<const BoxCopy> copies) override {
    each(copies.size(), [&](size_t i) { state::copy_box(copies[i].part, copies[i].src, copies[i].dst); });
    return absl::OkStatus();
  }
  absl::Status fill(std::span<const BoxFill> fills) override {
    each(fills.size(), [&](size_t i) { state::fill_box(fills[i].content, fills[i].part, fills[i].dst); });
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::optional<state::Mismatch>>> check(std::span<const BoxCheck> checks) override {
    std::vector<std::optional<state::Mismatch>> found(checks.size());
    each(checks.size(),
         [&](size_t i) { found[i] = state::check_box(checks[i].content, checks[i].part, checks[i].src); });
    return found;
  }
  absl::StatusOr<std::vector<uint64_t>> hash(std::span<const BoxHash> boxes) override {
    std::vector<uint64_t> digests(boxes.size());
    each(boxes.size(), [&](size_t i) { digests[i] = state::box_digest(boxes[i].src, boxes[i].part); });
    return digests;
  }

  absl::StatusOr<std::unique_ptr<Queue>> queue(int) override { return std::make_unique<HostQueue>(); }
  absl::StatusOr<std::unique_ptr<Staging>> staging(int, int64_t bytes) override {
    return std::make_unique<HostStaging>(bytes);
  }

 private:
  void each(size_t count, const std::function<void(size_t)>& work) const {
    parallel_for(options_.threads, count, work);
  }

  const HostBackendOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const HostBackendOptions& options) {
  return std::make_unique<HostBackend>(options);
}

}  // namespace scalai::executor::device
