#include "executor/live/blocks.h"

#include <algorithm>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::executor {

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

std::shared_ptr<Blocks::Block> Blocks::block_of(Key key, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  if (found != known_.end()) {
    used_.splice(used_.begin(), used_, found->second.used);
    return found->second.block;
  }
  used_.push_front(key);
  auto block = std::make_shared<Block>();
  block->bytes.resize(static_cast<size_t>(bytes));
  known_[key] = {block, used_.begin()};
  bytes_ += bytes;
  while (bytes_ > most_bytes_ && used_.size() > 1) {
    const auto oldest = known_.find(used_.back());
    bytes_ -= std::ssize(oldest->second.block->bytes);
    known_.erase(oldest);
    used_.pop_back();
  }
  return block;
}

void Blocks::drop(Key key, const Block* block) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  if (found == known_.end() || found->second.block.get() != block) return;
  bytes_ -= std::ssize(block->bytes);
  used_.erase(found->second.used);
  known_.erase(found);
}

absl::Status Blocks::read(int64_t entry, int64_t bytes, int64_t offset, std::span<std::byte> dst, const Fetch& fetch) {
  while (!dst.empty()) {
    const int64_t number = offset / block_bytes_, begin = number * block_bytes_;
    const int64_t size = std::min(block_bytes_, bytes - begin);
    const auto count = static_cast<size_t>(std::min(std::ssize(dst), begin + size - offset));
    const std::shared_ptr<Block> block = block_of({entry, number}, size);
    {
      const std::lock_guard lock(block->mutex);
      if (!block->there) {
        if (absl::Status fetched = fetch(begin, block->bytes); !fetched.ok()) {
          drop({entry, number}, block.get());
          return fetched;
        }
        block->there = true;
      }
    }
    std::memcpy(dst.data(), block->bytes.data() + (offset - begin), count);
    offset += static_cast<int64_t>(count);
    dst = dst.subspan(count);
  }
  return absl::OkStatus();
}

}  // namespace scalai::executor
