#pragma once
// Which samples a shard has and where each begins in it; looked up once, used by every read. ShardTables keeps those used
// last, up to a number of bytes, so that walking through the shards of many ranks does not fill the memory. Tables that
// are still used stay alive without it. Safe from several threads.

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace scalai::data {

struct ShardTable {
  std::vector<int64_t> samples;        // numbers, in the order of the shard
  int64_t bytes_each = 0;              // of every sample when they are alike; else 0 and:
  std::vector<int64_t> ends;           // where each sample ends in the shard
  std::vector<int64_t> sequence_ends;  // Megatron's documents: sequences up to and with each sample

  int64_t count() const { return static_cast<int64_t>(samples.size()); }
  int64_t begin_of(int64_t i) const;    // byte in the shard, i in [0, count()]
  int64_t at_byte(int64_t byte) const;  // the sample that has it; byte in [0, begin_of(count()))
  int64_t memory_bytes() const;
};
using ShardTablePtr = std::shared_ptr<const ShardTable>;

class ShardTables {
 public:
  static constexpr int64_t kMostBytes = int64_t{32} << 20;
  explicit ShardTables(int64_t most_bytes = kMostBytes) : most_bytes_(most_bytes) {}

  uint64_t new_view();  // a number of its own for each view
  ShardTablePtr find(uint64_t view, int64_t shard);
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

}  // namespace scalai::data
