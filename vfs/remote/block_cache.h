#pragma once
// A disk cache for blocks of remote files, with a bound in bytes, shared by several processes. It never fails a read:
// when the disk is full or the folder is gone, blocks are fetched again. Thread-safe.
//
//   FOLDER/scalai-blocks-1/lock                     taken by writers and evictors; contains the bytes in use
//   FOLDER/scalai-blocks-1/new/PID.N                a block being written
//   FOLDER/scalai-blocks-1/3f/<32 digits>.<block>   a block: a header with its checksum, then its bytes
//
// A complete block gets its name by a rename. Each read verifies the checksum, which also covers the block's name; a
// damaged block is removed. Eviction is least recently used (time of modification).

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "vfs/remote/block_table.h"

namespace scalai::vfs {

struct CacheCounts {
  std::atomic<int64_t> hits = 0;
  std::atomic<int64_t> damaged = 0;  // removed because of a wrong checksum
  std::atomic<int64_t> stored = 0;
  std::atomic<int64_t> not_stored = 0;  // no room, lock not available in time, or stored by another process
  std::atomic<int64_t> evicted = 0;
};

class BlockCache {
 public:
  // Creates the folder, removes files of killed writers, and evicts blocks above the bound. Errors name the folder.
  // NotFound: it cannot be created or written. InvalidArgument: `bytes_limit` is too small for one block.
  static absl::StatusOr<std::unique_ptr<BlockCache>> open(const std::string& folder, int64_t bytes_limit,
                                                          int64_t block_bytes);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // The block, of exactly `bytes` bytes; nullopt: absent or damaged. `key.file` has 32 hexadecimal digits.
  std::optional<std::vector<std::byte>> get(const BlockKey& key, int64_t bytes);
  // Stores the block if possible; counts() tells. Blocks and temporary files together never exceed the bound.
  void put(const BlockKey& key, std::span<const std::byte> bytes);

  // Lives as long as the cache; the counters change while threads use it.
  const CacheCounts& counts() const { return counts_; }

 private:
  class Lock;
  BlockCache(std::string folder, int64_t bytes_limit);

  absl::Status prepare();
  std::string path_of(const BlockKey& key) const;
  bool store(const BlockKey& key, std::span<const std::byte> bytes);
  int64_t evict_to(int64_t bytes);  // returns the bytes in use afterwards; the lock is held

  const std::string folder_;
  const int64_t bytes_limit_;
  int lock_fd_ = -1;
  std::mutex mutex_;  // flock excludes other processes, not other threads of this one
  // No waiting for the lock until then: its holder hung. Under mutex_.
  std::chrono::steady_clock::time_point no_wait_before_;
  std::atomic<int64_t> next_name_ = 0;
  CacheCounts counts_;
};

}  // namespace scalai::vfs
