#pragma once
// For tests: a device whose memory is the host's and whose kernels are loops. Queued work happens when somebody waits,
// so that a missing wait is a wrong byte.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/state/transform/device.h"

namespace scalai::transform {

class LoopingChunk final : public Chunk {
 public:
  explicit LoopingChunk(int64_t bytes) : host_(static_cast<size_t>(bytes)), device_(static_cast<size_t>(bytes)) {}
  std::byte* host(int64_t bytes) override { return take(host_, host_used_, bytes); }
  std::byte* device(int64_t bytes) override { return take(device_, device_used_, bytes); }
  absl::Status copy_up(std::byte* device, const std::byte* host, int64_t bytes) override {
    SCALAI_CHECK(is_in(device_, device) && is_in(host_, host));
    return queue([=] { std::memcpy(device, host, static_cast<size_t>(bytes)); });
  }
  absl::Status copy_down(std::byte* host, const std::byte* device, int64_t bytes) override {
    SCALAI_CHECK(is_in(device_, device) && is_in(host_, host));
    return queue([=] { std::memcpy(host, device, static_cast<size_t>(bytes)); });
  }
  absl::Status set_to_zero(std::byte* device, int64_t bytes) override {
    return queue([=] { std::memset(device, 0, static_cast<size_t>(bytes)); });
  }
  absl::Status run(const step_core::Work& work) override {
    return queue([work] {
      constexpr int64_t kThreads = 7;
      std::visit(
          [](const auto& one) {
            for (int64_t thread = 0; thread < kThreads; ++thread) step_core::run(one, thread, kThreads);
          },
          work);
    });
  }
  absl::Status finish() override {
    for (const auto& work : std::exchange(queued_, {})) work();
    return absl::OkStatus();
  }
  void clear() override {
    SCALAI_CHECK(queued_.empty(), "memory of work that is on its way");
    host_used_ = device_used_ = 0;
    std::fill(host_.begin(), host_.end(), std::byte{0xab});
    std::fill(device_.begin(), device_.end(), std::byte{0xcd});
  }

 private:
  static std::byte* take(std::vector<std::byte>& memory, int64_t& used, int64_t bytes) {
    std::byte* const at = memory.data() + used;
    used += (bytes + kAlign - 1) / kAlign * kAlign;
    SCALAI_CHECK(used <= std::ssize(memory), "more than a chunk");
    return at;
  }
  static bool is_in(const std::vector<std::byte>& memory, const std::byte* at) {
    return at >= memory.data() && at <= memory.data() + memory.size();
  }
  absl::Status queue(std::function<void()> work) {
    queued_.push_back(std::move(work));
    return absl::OkStatus();
  }

  std::vector<std::byte> host_, device_;
  int64_t host_used_ = 0, device_used_ = 0;
  std::vector<std::function<void()>> queued_;
};

class LoopingDevice final : public Device {
 public:
  explicit LoopingDevice(int64_t chunk_bytes) : chunk_bytes_(chunk_bytes) {}
  std::string name() const override { return "a loop"; }
  int64_t chunk_bytes() const override { return chunk_bytes_; }
  int64_t host_bytes() const override { return 8 * chunk_bytes_; }
  absl::StatusOr<std::unique_ptr<ChunkPair>> lend() override {
    struct Pair final : ChunkPair {
      explicit Pair(int64_t bytes) : first(bytes), second(bytes) {}
      Chunk& chunk(int number) override { return number == 0 ? first : second; }
      LoopingChunk first, second;
    };
    ++lent;
    return std::make_unique<Pair>(chunk_bytes_);
  }

  std::atomic<int> lent = 0;

 private:
  const int64_t chunk_bytes_;
};

}  // namespace scalai::transform
