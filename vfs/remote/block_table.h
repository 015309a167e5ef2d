#pragma once
// Blocks of remote files in memory, and those that are on their way: whoever asks first for a block fetches it, the
// others wait for it. Keeps the blocks used last, up to a bound. Safe from several threads.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::vfs {

using Block = std::shared_ptr<const std::vector<std::byte>>;

struct BlockKey {
  std::string file;  // names one version of one file
  int64_t index = 0;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

class BlockTable {
 public:
  // A block that is here, on its way, or could not be had.
  class Slot;
  struct Claim {
    std::shared_ptr<Slot> slot;
    bool ours = false;  // the caller has to complete() it, whatever happens
  };

  explicit BlockTable(int64_t bytes) : bytes_limit_(bytes) {}

  Claim claim(const BlockKey& key);
  // Like claim, but nothing (a slot of nullptr) unless the block is neither here nor on its way.
  Claim claim_if_absent(const BlockKey& key);
  // Hands a claimed block, or why there is none, to all who wait. After an error the next claim starts anew.
  void complete(const Claim& claim, absl::StatusOr<Block> block);
  // Blocks until somebody completed it.
  absl::StatusOr<Block> wait(const Claim& claim);

  int64_t bytes() const;  // held now

 private:
  Claim add(const BlockKey& key);

  const int64_t bytes_limit_;
  mutable std::mutex mutex_;
  std::condition_variable completed_;
  std::map<BlockKey, std::shared_ptr<Slot>> slots_;
  std::list<std::shared_ptr<Slot>> used_;  // complete ones, the one used last in front
  int64_t bytes_ = 0;
};

}  // namespace scalai::vfs
