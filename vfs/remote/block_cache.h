#pragma once
// Blocks of remote files on disk, up to a bound, for one process or several at once. A cache and nothing more: when the
// disk is full or the folder is gone, blocks are fetched again, and nobody's read fails.
//
//   FOLDER/scalai-blocks-1/lock                     taken by whoever writes or evicts; holds the bytes in use
//   FOLDER/scalai-blocks-1/new/PID.N                a block being written
//   FOLDER/scalai-blocks-1/3f/<32 digits>.<block>   the block: a header with its checksum, then its bytes
//
// A block gets its name by a rename when it is whole. Each is compared with its checksum whenever it is read; a damaged
// one is removed. The checksum covers the block's name, too. What is used last (time of modification) is evicted last.
// Safe from several threads.

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
  std::atomic<int64_t> damaged = 0;  // removed: their checksum was wrong
  std::atomic<int64_t> stored = 0;
  std::atomic<int64_t> not_stored = 0;  // for lack of room, or of a lock in time
  std::atomic<int64_t> evicted = 0;
};

class BlockCache {
 public:
  // Makes the folder, removes what killed writers left, and evicts down to the bound when it is lower than before.
  // Errors name the folder (NotFound: it cannot be made or written; InvalidArgument: the bound is too small for one
  // block).
  static absl::StatusOr<std::unique_ptr<BlockCache>> open(const std::string& folder, int64_t bytes_limit,
                                                          int64_t block_bytes);
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // The block, of exactly `bytes`; nothing when it is not there or was damaged. `key.file` is 32 hexadecimal digits.
  std::optional<std::vector<std::byte>> get(const BlockKey& key, int64_t bytes);
  // Stores it, when it can. At no time do block files and temporary ones hold more than the bound.
  void put(const BlockKey& key, std::span<const std::byte> bytes);

  const CacheCounts& counts() const { return counts_; }

 private:
  class Lock;
  BlockCache(std::string folder, int64_t bytes_limit);

  absl::Status prepare();
  std::string path_of(const BlockKey& key) const;
  bool store(const BlockKey& key, std::span<const std::byte> bytes);
  int64_t evict_to(int64_t bytes);  // what is in use afterwards; the lock is held

  const std::string folder_;
  const int64_t bytes_limit_;
  int lock_fd_ = -1;
  std::mutex mutex_;                                      // flock keeps processes apart, not the threads of one
  std::chrono::steady_clock::time_point no_wait_before_;  // for the lock: its holder hung; under mutex_
  std::atomic<int64_t> next_name_ = 0;
  CacheCounts counts_;
};

}  // namespace scalai::vfs
