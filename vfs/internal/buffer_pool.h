#pragma once
// Buffers of one size that are used again, the last one given back first: it is still in the processor's cache,
// whichever thread takes it. As many as were ever in use at once. Safe from several threads.

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace scalai::vfs {

class BufferPool {
 public:
  explicit BufferPool(size_t bytes) : bytes_(bytes) {}

  // Goes back when it goes out of scope; the pool outlives it.
  class Buffer {
   public:
    Buffer(BufferPool& pool, std::unique_ptr<std::byte[]> memory) : pool_(&pool), memory_(std::move(memory)) {}
    ~Buffer() {
      if (memory_ != nullptr) pool_->give_back(std::move(memory_));
    }
    Buffer(Buffer&&) noexcept = default;
    Buffer& operator=(Buffer&&) = delete;
    std::byte* data() const { return memory_.get(); }

   private:
    BufferPool* pool_;
    std::unique_ptr<std::byte[]> memory_;
  };

  size_t buffer_bytes() const { return bytes_; }
  Buffer take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        Buffer buffer(*this, std::move(free_.back()));
        free_.pop_back();
        return buffer;
      }
    }
    std::unique_ptr<std::byte[]> memory(new std::byte[bytes_]);  // not zeroed
    const std::lock_guard lock(mutex_);
    free_.reserve(made_ + 1);  // here it may throw; in give_back(), which destructors call, it may not
    ++made_;
    return {*this, std::move(memory)};
  }
  size_t idle() const {
    const std::lock_guard lock(mutex_);
    return free_.size();
  }

 private:
  void give_back(std::unique_ptr<std::byte[]> memory) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(memory));
  }

  const size_t bytes_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> free_;
  size_t made_ = 0;
};

}  // namespace scalai::vfs
