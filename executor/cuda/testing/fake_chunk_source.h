#pragma once
// A ChunkSource in host memory, for tests: a chunk is a memfd, and its content is whatever a careless driver leaves
// there (0xab). What is not mapped faults when touched. Counts what it is asked for and can be told to be full or
// to fail.

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "executor/cuda/chunked_memory.h"
#include "executor/state/testing/support.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {

// The memory of a GPU that several sources share.
struct FakeGpu {
  int64_t chunk_bytes = int64_t{1} << 16;
  int64_t chunks = 64;
  int64_t acquired = 0;
  int64_t host_chunks = 0;               // of host memory: the driver has none
  std::set<ChunkSource::Chunk> out;      // acquired and not released: the GPU's,
  std::set<ChunkSource::Chunk> on_host;  // and the host's
  std::map<ChunkSource::Chunk, FileDescriptor> memory{};
  int64_t unseen = 0;  // chunks that others take between bytes_free and acquire
  int64_t calls = 0;   // acquire and release
  int64_t maps = 0;    // map and unmap
  int64_t moves = 0;
  int fail_map_after = -1;  // this many maps succeed, the next fails
  bool fail_clear = false;
  int fail_move_after = -1;
};

class FakeChunkSource final : public ChunkSource {
 public:
  explicit FakeChunkSource(std::shared_ptr<FakeGpu> gpu) : gpu_(std::move(gpu)) {}
  FakeChunkSource(const FakeChunkSource&) = delete;
  FakeChunkSource& operator=(const FakeChunkSource&) = delete;
  ~FakeChunkSource() override {
    for (const Chunk chunk : mapped_) SCALAI_CHECK(chunk == 0, "a chunk is still mapped");
    if (base_ != nullptr) ::munmap(base_, static_cast<size_t>(bytes_));
  }

  std::string name() const override { return "GPU 7"; }
  int64_t chunk_bytes() const override { return gpu_->chunk_bytes; }
  absl::StatusOr<std::byte*> reserve_addresses(int64_t bytes) override {
    void* base =
        ::mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return absl::ResourceExhaustedError("no addresses");
    base_ = static_cast<std::byte*>(base);
    bytes_ = bytes;
    mapped_.assign(static_cast<size_t>(bytes / gpu_->chunk_bytes), 0);
    return base_;
  }
  absl::StatusOr<int64_t> bytes_free(Where where) const override {
    const int64_t all = where == Where::kDevice ? gpu_->chunks : gpu_->host_chunks;
    return (all - static_cast<int64_t>(of(where).size())) * gpu_->chunk_bytes;
  }
  absl::StatusOr<Chunk> acquire(Where where) override {
    ++gpu_->calls;
    if (where == Where::kHost && gpu_->host_chunks == 0) return missing("the fake driver has no host memory");
    const int64_t all = where == Where::kDevice ? gpu_->chunks - gpu_->unseen : gpu_->host_chunks;
    if (static_cast<int64_t>(of(where).size()) >= all) return absl::ResourceExhaustedError("the fake GPU is full");
    FileDescriptor memory(::memfd_create("fake chunk", MFD_CLOEXEC));
    SCALAI_CHECK(memory.get() >= 0 && ::ftruncate(memory.get(), gpu_->chunk_bytes) == 0, std::strerror(errno));
    const auto chunk = static_cast<Chunk>(++gpu_->acquired);
    of(where).insert(chunk);
    gpu_->memory[chunk] = std::move(memory);
    return chunk;
  }
  void release(Chunk chunk) override {
    ++gpu_->calls;
    for (const Chunk mapped : mapped_) SCALAI_CHECK(mapped != chunk, "released while mapped");
    SCALAI_CHECK(gpu_->out.erase(chunk) + gpu_->on_host.erase(chunk) == 1);
    gpu_->memory.erase(chunk);
  }
  absl::StatusOr<FileDescriptor> share(Chunk chunk) const override {
    if (gpu_->out.count(chunk) == 0) return invalid("the fake GPU shares its own memory only");
    return FileDescriptor(::fcntl(gpu_->memory.at(chunk).get(), F_DUPFD_CLOEXEC, 0));
  }
  absl::Status map(int64_t first, std::span<const Chunk> chunks) override {
    ++gpu_->maps;
    if (gpu_->fail_map_after >= 0 && gpu_->fail_map_after-- == 0) return failed("the fake GPU maps nothing");
    for (size_t i = 0; i < chunks.size(); ++i) {
      Chunk& slot = mapped_[static_cast<size_t>(first) + i];
      SCALAI_CHECK(slot == 0 && is_free(chunks[i]));
      slot = chunks[i];
      std::byte* const place = at(first + static_cast<int64_t>(i));
      const auto bytes = static_cast<size_t>(gpu_->chunk_bytes);
      SCALAI_CHECK(::mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                          gpu_->memory.at(chunks[i]).get(), 0) == place);
      std::memset(place, 0xab, bytes);
    }
    return {};
  }
  void unmap(int64_t first, int64_t count) override {
    ++gpu_->maps;
    for (int64_t i = first; i < first + count; ++i) {
      SCALAI_CHECK(mapped_[static_cast<size_t>(i)] != 0);
      mapped_[static_cast<size_t>(i)] = 0;
    }
    const auto bytes = static_cast<size_t>(count * gpu_->chunk_bytes);
    SCALAI_CHECK(::mmap(at(first), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) ==
                 at(first));
  }
  absl::Status move(std::span<const Move> moves) override {
    SCALAI_CHECK(!moves.empty() && moves.size() <= kMostMoves);
    if (gpu_->fail_move_after >= 0 && gpu_->fail_move_after-- == 0) return failed("the fake GPU moves nothing");
    for (const Move& one : moves) {
      SCALAI_CHECK(is_free(one.to));
      const std::vector<std::byte> content(at(one.slot), at(one.slot + 1));
      unmap(one.slot, 1);
      SCALAI_RETURN_IF_ERROR(map(one.slot, std::span(&one.to, 1)));
      std::memcpy(at(one.slot), content.data(), content.size());
      ++gpu_->moves;
    }
    return {};
  }
  absl::Status clear(std::byte* begin, int64_t bytes) override {
    if (gpu_->fail_clear) return failed("the fake GPU clears nothing");
    std::memset(begin, 0, static_cast<size_t>(bytes));
    return {};
  }

 private:
  std::set<Chunk>& of(Where where) const { return where == Where::kDevice ? gpu_->out : gpu_->on_host; }
  bool is_free(Chunk chunk) const {  // acquired, not mapped
    return gpu_->out.count(chunk) + gpu_->on_host.count(chunk) == 1 &&
           std::find(mapped_.begin(), mapped_.end(), chunk) == mapped_.end();
  }
  std::byte* at(int64_t slot) const { return base_ + slot * gpu_->chunk_bytes; }

  std::shared_ptr<FakeGpu> gpu_;
  std::byte* base_ = nullptr;
  int64_t bytes_ = 0;
  std::vector<Chunk> mapped_;  // 0: none
};

inline constexpr int64_t kGrain = ChunkedMemory::kGrain;
inline constexpr int64_t kChunk = 16 * kGrain;

// A memory on such a GPU, in small chunks.
struct OnFakeGpu {
  explicit OnFakeGpu(int64_t chunks = 64,
                     const state::SegmentOptions& options = {.capacity = 256 * kChunk, .leave_free = 0})
      : gpu(std::make_shared<FakeGpu>()) {
    gpu->chunk_bytes = kChunk;
    gpu->chunks = chunks;
    gpu->host_chunks = 1000;
    memory = state::value_or_die(ChunkedMemory::create(std::make_unique<FakeChunkSource>(gpu), options));
  }
  int64_t chunks_out() const { return static_cast<int64_t>(gpu->out.size()); }
  int64_t chunks_on_host() const { return static_cast<int64_t>(gpu->on_host.size()); }
  std::shared_ptr<FakeGpu> gpu;
  std::unique_ptr<ChunkedMemory> memory;
};

inline bool all(const std::byte* begin, int64_t bytes, std::byte value) {
  return std::all_of(begin, begin + bytes, [&](std::byte byte) { return byte == value; });
}

}  // namespace scalai::executor::cuda
