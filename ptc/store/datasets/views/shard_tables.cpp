#include "ptc/store/datasets/views/shard_tables.h"

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::datasets {

int64_t ShardTable::begin_of(int64_t i) const {
  SCALAI_CHECK(i >= 0 && i <= count());
  if (bytes_each > 0) return i * bytes_each;
  return i == 0 ? 0 : ends[static_cast<size_t>(i - 1)];
}

int64_t ShardTable::at_byte(int64_t byte) const {
  SCALAI_CHECK(byte >= 0 && byte < begin_of(count()));
  if (bytes_each > 0) return byte / bytes_each;
  return std::upper_bound(ends.begin(), ends.end(), byte) - ends.begin();
}

int64_t ShardTable::memory_bytes() const {
  const size_t entries = samples.capacity() + ends.capacity() + sequence_ends.capacity();
  return static_cast<int64_t>(sizeof(ShardTable) + entries * sizeof(int64_t));
}

uint64_t ShardTables::new_view() {
  const std::lock_guard lock(mutex_);
  return views_++;
}

ShardTablePtr ShardTables::find(uint64_t view, int64_t shard) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find({view, shard});
  if (found == by_key_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, found->second);
  return found->second->second;
}

void ShardTables::keep(uint64_t view, int64_t shard, ShardTablePtr table) {
  const std::lock_guard lock(mutex_);
  const Key key = {view, shard};
  if (by_key_.count(key) > 0) return;  // another thread was as quick
  bytes_ += table->memory_bytes();
  recent_.emplace_front(key, std::move(table));
  by_key_[key] = recent_.begin();
  while (bytes_ > most_bytes_) {
    bytes_ -= recent_.back().second->memory_bytes();
    by_key_.erase(recent_.back().first);
    recent_.pop_back();
  }
}

int64_t ShardTables::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace scalai::datasets
