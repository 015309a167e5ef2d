#pragma once
// Blocks: what has been fetched of a step, for those who read it again: in blocks of the boxes that hosts hold, as many as
// memory is given for. Whoever asks for a block that another one is fetching waits for it. Any thread.

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "ptc/tensor/box.h"

namespace scalai::executor {

// Elements [begin, end) of a dense row-major box, as few boxes as there are runs of whole rows: visit(part) in their order,
// the elements of a part after those of the one before. Stops at an error.
absl::Status for_each_box_of_range(const tensor::Box& box, int64_t begin, int64_t end,
                                   const std::function<absl::Status(const tensor::Box& part)>& visit);

class Blocks {
 public:
  // At most about `most_bytes` are kept, in blocks of `block_bytes`.
  Blocks(int64_t most_bytes, int64_t block_bytes) : most_bytes_(most_bytes), block_bytes_(block_bytes) {}

  // Copies bytes [offset, offset + dst.size()) of an entry of `bytes` bytes. fetch(begin, dst) gets the bytes from `begin` on,
  // a multiple of block_bytes; an error of it is kept by nobody.
  using Fetch = std::function<absl::Status(int64_t begin, std::span<std::byte> dst)>;
  absl::Status read(int64_t entry, int64_t bytes, int64_t offset, std::span<std::byte> dst, const Fetch& fetch);

 private:
  using Key = std::pair<int64_t, int64_t>;  // entry, block
  struct Block {
    std::mutex mutex;
    bool there = false;
    std::vector<std::byte> bytes;
  };
  struct Known {
    std::shared_ptr<Block> block;
    std::list<Key>::iterator used;
  };
  std::shared_ptr<Block> block_of(Key key, int64_t bytes);
  void drop(Key key, const Block* block);

  const int64_t most_bytes_, block_bytes_;
  std::mutex mutex_;  // guards what follows, not the bytes
  std::map<Key, Known> known_;
  std::list<Key> used_;  // the last one first
  int64_t bytes_ = 0;
};

}  // namespace scalai::executor
