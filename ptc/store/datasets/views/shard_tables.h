#pragma once
// Tables of the samples of a shard and their places in it: looked up once, used by every read. ShardTables is a cache
// of the most recently used tables with a limit in bytes, so a walk through the shards of many ranks does not fill the
// memory. A table in use outlives its place in the cache. Any thread may call ShardTables; several may call at once.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace scalai::datasets {

struct ShardTable {
  std::vector<int64_t> samples;        // numbers, in the order of the shard
  int64_t bytes_each = 0;              // of a sample, if all have the same size; else 0 and:
  std::vector<int64_t> ends;           // end of each sample in the shard, in bytes
  std::vector<int64_t> sequence_ends;  // Megatron's documents: number of sequences up to and including each sample

  int64_t count() const { return static_cast<int64_t>(samples.size()); }
  int64_t begin_of(int64_t i) const;    // first byte of sample i in the shard; CHECK: i in [0, count()]
  int64_t at_byte(int64_t byte) const;  // the sample at a byte; CHECK: byte in [0, begin_of(count()))
  int64_t memory_bytes() const;
};
using ShardTablePtr = std::shared_ptr<const ShardTable>;

class ShardTables {
 public:
  static constexpr int64_t kMostBytes = int64_t{32} << 20;
  explicit ShardTables(int64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  uint64_t new_view();  // a unique number for each view
  // The table of a shard, null if it is not in the cache.
  ShardTablePtr find(uint64_t view, int64_t shard);
  // Puts a table into the cache; drops the least recently used ones above the limit. No effect if it is there.
  void keep(uint64_t view, int64_t shard, ShardTablePtr table);
  int64_t bytes() const;

 private:
  using Key = std::pair<uint64_t, int64_t>;
  using Recent = std::list<std::pair<Key, ShardTablePtr>>;  // the last used first

  int64_t most_bytes_;
  mutable std::mutex mutex_;
  uint64_t views_ = 0;
  int64_t bytes_ = 0;
  Recent recent_;
  std::map<Key, Recent::iterator> by_key_;
};

}  // namespace scalai::datasets
