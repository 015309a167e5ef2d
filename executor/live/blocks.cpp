#include "executor/live/blocks.h"

#include <algorithm>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::executor::live {

absl::Status for_each_box_of_range(const tensor::Box& box, int64_t begin, int64_t end,
                                   const std::function<absl::Status(const tensor::Box& part)>& visit) {
  while (begin < end) {
    tensor::Box part = box;
    int64_t inner = box.volume(), at = begin;
    for (int dim = 0; dim < box.rank; ++dim) {
      const auto d = static_cast<size_t>(dim);
      inner /= box.extent(dim);
      const int64_t row = at / inner;
      part.lo[d] = box.lo[d] + row;
      at %= inner;
      const bool rows = at == 0 && end - begin >= inner;  // whole ones from here on
      part.hi[d] = part.lo[d] + (rows ? std::min((end - begin) / inner, box.extent(dim) - row) : 1);
      if (rows) break;
    }
    SCALAI_RETURN_IF_ERROR(visit(part));
    begin += part.volume();
  }
  return absl::OkStatus();
}

Blocks::BlockPtr Blocks::block_of(int64_t number, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found != known_.end()) {
    std::list<int64_t>& used = kept(found->second.from).used;
    used.splice(used.begin(), used, found->second.used);
    return found->second.block;
  }
  auto block = std::make_shared<Block>(bytes);
  if (closed_) return block;  // for a read that began before
  add(number, block, 1);
  return block;
}

void Blocks::add(int64_t number, const BlockPtr& block, int64_t window) {
  Kept& mine = kept(From::kHolder);
  mine.used.push_front(number);
  mine.bytes += block->bytes;
  known_[number] = {block, window, From::kHolder, mine.used.begin()};
  dropped_.erase(number);
  make_room();
}

// With the first one, which the caller has locked; the others are locked before anybody else sees them.
std::vector<Blocks::Coming> Blocks::window_of(int64_t number, const BlockPtr& first, const Source& source) {
  int64_t most = 1;
  int order = Source::kOrders;
  {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(number);
    while (known != known_.end() && known->second.block == first && order-- > 0) {
      const auto before = known_.find(source.step(order, number, -1).number);
      if (before == known_.end()) continue;
      most = known->second.window = std::min(2 * before->second.window, kWindowBlocks);
      break;
    }
  }
  std::vector<Coming> window{{number, first}};
  int64_t bytes = first->bytes;
  while (std::ssize(window) < most) {
    const Source::Step next = source.step(order, number, std::ssize(window));
    bytes += next.bytes;
    if (next.number < 0 || bytes > std::min(kWindowBytes, most_bytes_ / 4)) break;
    window.push_back({next.number, std::make_shared<Block>(next.bytes)});
    window.back().block->mutex.lock();
  }
  size_t count = 1;
  {
    const std::lock_guard lock(mutex_);
    for (; !closed_ && count < window.size() && !known_.contains(window[count].number); ++count)
      add(window[count].number, window[count].block, most);
  }
  for (size_t i = count; i < window.size(); ++i) window[i].block->mutex.unlock();
  window.resize(count);
  return window;
}

// The block that was just added stays. What other readers have is the cheaper loss, but a reader may need it again
// soon.
void Blocks::make_room() {
  const Kept &mine = kept(From::kHolder), &others = kept(From::kOtherReader);
  while (mine.bytes + others.bytes > most_bytes_ && known_.size() > 1) {
    const bool from_others = others.bytes > most_bytes_ / 2 || mine.used.size() == 1;
    erase(known_.find((from_others ? others : mine).used.back()));
  }
}

void Blocks::erase(std::map<int64_t, Known>::iterator known) {
  Kept& kind = kept(known->second.from);
  kind.bytes -= known->second.block->bytes;
  kind.used.erase(known->second.used);
  dropped_.insert(known->first);
  known_.erase(known);
}

void Blocks::note_from(int64_t number, const Block* block, From from) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end() || found->second.block.get() != block || found->second.from == from) return;
  Kept &before = kept(found->second.from), &now = kept(from);
  before.bytes -= block->bytes;
  now.bytes += block->bytes;
  now.used.splice(now.used.begin(), before.used, found->second.used);
  found->second.from = from;
}

void Blocks::drop(int64_t number, const Block* block) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found != known_.end() && found->second.block.get() == block) erase(found);
}

// A block that the caller has locked, and those of its window.
absl::Status Blocks::fetch(int64_t number, const BlockPtr& block, Source& source) {
  const std::vector<Coming> window = window_of(number, block, source);
  std::vector<int64_t> numbers, sizes;
  for (const Coming& one : window) {
    numbers.push_back(one.number);
    sizes.push_back(one.block->bytes);
  }
  source.expect(numbers, sizes);
  absl::Status first;
  bool failed = false;  // then those after it are not fetched
  for (const Coming& coming : window) {
    Block& one = *coming.block;
    if (!failed) {
      one.memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(one.bytes));
      const absl::StatusOr<From> from = source.fetch(coming.number, one.span());
      failed = !from.ok();
      if (&one == block.get()) first = from.status();
      if (from.ok()) {
        note_from(coming.number, &one, *from);
        one.there.store(true, std::memory_order_release);
      }
    }
    one.failed = failed;
    if (failed) drop(coming.number, &one);
    if (&one != block.get()) one.mutex.unlock();
  }
  return first;
}

absl::Status Blocks::read(int64_t first, int64_t bytes, int64_t offset, std::span<std::byte> dst, Source& source) {
  while (!dst.empty()) {
    const int64_t index = offset / block_bytes_, begin = index * block_bytes_;
    const int64_t size = std::min(block_bytes_, bytes - begin);
    const auto count = static_cast<size_t>(std::min(std::ssize(dst), begin + size - offset));
    const BlockPtr block = block_of(first + index, size);
    if (!block->there.load(std::memory_order_acquire)) {
      const std::lock_guard lock(block->mutex);
      if (block->failed) continue;  // at another reader, which has dropped it: it comes anew
      if (!block->there) SCALAI_RETURN_IF_ERROR(fetch(first + index, block, source));
    }
    std::memcpy(dst.data(), block->memory.get() + (offset - begin), count);
    offset += static_cast<int64_t>(count);
    dst = dst.subspan(count);
  }
  return absl::OkStatus();
}

Blocks::Found Blocks::find(int64_t number) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end()) return {};
  const Known& known = found->second;
  if (!known.block->there.load(std::memory_order_acquire)) return {.coming = true, .bytes = {}, .owner = nullptr};
  std::list<int64_t>& used = kept(known.from).used;
  used.splice(used.begin(), used, known.used);
  return {.coming = false, .bytes = known.block->span(), .owner = known.block};
}

std::vector<int64_t> Blocks::take_dropped() {
  const std::lock_guard lock(mutex_);
  std::vector<int64_t> numbers(dropped_.begin(), dropped_.end());
  dropped_.clear();
  return numbers;
}

void Blocks::untake_dropped(std::span<const int64_t> numbers) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  for (const int64_t number : numbers) {
    if (!known_.contains(number)) dropped_.insert(number);
  }
}

void Blocks::clear() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  known_.clear();
  kept_ = {};
  dropped_.clear();
}

}  // namespace scalai::executor::live
