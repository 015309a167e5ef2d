#pragma once
// Blocks of remote files in memory, and blocks being fetched: the first thread that claims a block fetches it, the
// others wait. Keeps the most recently used blocks, up to a bound in bytes. Thread-safe.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::vfs {

using Block = std::shared_ptr<const std::vector<std::byte>>;

struct BlockKey {
  std::string file;  // identifies one version of one file
  int64_t index = 0;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

class BlockTable {
 public:
  // A block: present, being fetched, or failed. Claims keep it alive, also after its eviction.
  class Slot;
  struct Claim {
    std::shared_ptr<Slot> slot;
    bool ours = false;  // true: the caller must complete() it, also after an error
  };

  explicit BlockTable(int64_t bytes) : bytes_limit_(bytes) {}

  // The block, claimed for the caller if it is absent.
  Claim claim(const BlockKey& key);
  // As claim() if the block is absent; a null slot if it is present or being fetched.
  Claim claim_if_absent(const BlockKey& key);
  // Publishes the block of an own claim, or an error, to all waiting threads. After an error the next claim starts
  // again. CHECK: `claim.ours`, once.
  void complete(const Claim& claim, absl::StatusOr<Block> block);
  // Blocks until the claim is completed.
  absl::StatusOr<Block> wait(const Claim& claim);

  int64_t bytes() const;  // bytes held now

 private:
  Claim add(const BlockKey& key);

  const int64_t bytes_limit_;
  mutable std::mutex mutex_;
  std::condition_variable completed_;
  std::map<BlockKey, std::shared_ptr<Slot>> slots_;
  std::list<std::shared_ptr<Slot>> used_;  // complete blocks, the most recently used one first
  int64_t bytes_ = 0;
};

}  // namespace scalai::vfs
