#include "executor/live/blocks.h"

#include <algorithm>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::executor {
namespace {

constexpr size_t kMostDropped = 1 << 16;

}  // namespace

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

std::shared_ptr<Blocks::Block> Blocks::block_of(int64_t number, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found != known_.end()) {
    std::list<int64_t>& used = kept(found->second.from).used;
    used.splice(used.begin(), used, found->second.used);
    return found->second.block;
  }
  auto block = std::make_shared<Block>();
  block->bytes.resize(static_cast<size_t>(bytes));
  if (closed_) return block;  // for a read that began before
  Kept& mine = kept(From::kHolder);
  mine.used.push_front(number);
  mine.bytes += bytes;
  known_[number] = {block, From::kHolder, mine.used.begin()};
  make_room();
  return block;
}

// The block that was just added stays. What other readers have is the cheaper loss, but a reader may need it again soon.
void Blocks::make_room() {
  const Kept &mine = kept(From::kHolder), &others = kept(From::kOtherReader);
  while (mine.bytes + others.bytes > most_bytes_ && known_.size() > 1) {
    const bool from_others = others.bytes > most_bytes_ / 2 || mine.used.size() == 1;
    erase(known_.find((from_others ? others : mine).used.back()));
  }
}

void Blocks::erase(std::map<int64_t, Known>::iterator known) {
  Kept& kind = kept(known->second.from);
  kind.bytes -= std::ssize(known->second.block->bytes);
  kind.used.erase(known->second.used);
  if (dropped_.size() >= kMostDropped) dropped_.clear();  // nobody asks for them
  dropped_.push_back(known->first);
  known_.erase(known);
}

void Blocks::note_from(int64_t number, const Block* block, From from) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found == known_.end() || found->second.block.get() != block || found->second.from == from) return;
  Kept &before = kept(found->second.from), &now = kept(from);
  const int64_t bytes = std::ssize(block->bytes);
  before.bytes -= bytes;
  now.bytes += bytes;
  now.used.splice(now.used.begin(), before.used, found->second.used);
  found->second.from = from;
}

void Blocks::drop(int64_t number, const Block* block) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(number);
  if (found != known_.end() && found->second.block.get() == block) erase(found);
}

absl::Status Blocks::read(int64_t first, int64_t bytes, int64_t offset, std::span<std::byte> dst, const Fetch& fetch) {
  while (!dst.empty()) {
    const int64_t index = offset / block_bytes_, begin = index * block_bytes_;
    const int64_t size = std::min(block_bytes_, bytes - begin);
    const auto count = static_cast<size_t>(std::min(std::ssize(dst), begin + size - offset));
    const std::shared_ptr<Block> block = block_of(first + index, size);
    if (!block->there.load(std::memory_order_acquire)) {
      const std::lock_guard lock(block->mutex);
      if (!block->there) {
        const absl::StatusOr<From> from = fetch(begin, block->bytes);
        if (!from.ok()) {
          drop(first + index, block.get());
          return from.status();
        }
        note_from(first + index, block.get(), *from);
        block->there.store(true, std::memory_order_release);
      }
    }
    std::memcpy(dst.data(), block->bytes.data() + (offset - begin), count);
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
  return {.coming = false, .bytes = known.block->bytes, .owner = known.block};
}

std::vector<int64_t> Blocks::take_dropped() {
  const std::lock_guard lock(mutex_);
  return std::exchange(dropped_, {});
}

void Blocks::clear() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  known_.clear();
  kept_ = {};
  dropped_.clear();
}

}  // namespace scalai::executor
