#pragma once
// Blocks: what has been fetched of a step, for those who read it again, here or on other machines: as many blocks of the boxes
// that hosts hold as memory is given for. Whoever asks for a block that another one is fetching waits for it. Any thread.

#include <array>
#include <atomic>
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
#include "absl/status/statusor.h"
#include "ptc/tensor/box.h"

namespace scalai::executor {

// Elements [begin, end) of a dense row-major box, as few boxes as there are runs of whole rows: visit(part) in their order,
// the elements of a part after those of the one before. Stops at an error.
absl::Status for_each_box_of_range(const tensor::Box& box, int64_t begin, int64_t end,
                                   const std::function<absl::Status(const tensor::Box& part)>& visit);

class Blocks {
 public:
  // At most about `most_bytes` are kept, in blocks of `block_bytes`. What others have, too, gets half of that at most where
  // the rest needs the room.
  Blocks(int64_t most_bytes, int64_t block_bytes) : most_bytes_(most_bytes), block_bytes_(block_bytes) {}

  // Copies bytes [offset, offset + dst.size()) of an entry of `bytes` bytes, whose blocks have the numbers from `first` on;
  // those of other entries have others. fetch(begin, dst) gets the bytes from `begin` on, a multiple of block_bytes; an error
  // of it is kept by nobody.
  enum class From { kHolder, kOtherReader };
  using Fetch = std::function<absl::StatusOr<From>(int64_t begin, std::span<std::byte> dst)>;
  absl::Status read(int64_t first, int64_t bytes, int64_t offset, std::span<std::byte> dst, const Fetch& fetch);

  // A block for somebody else; does not wait. The bytes are valid and stay as they are as long as the owner.
  struct Found {
    bool coming = false;  // it is being fetched
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // null: it is not here
  };
  Found find(int64_t number);
  // Numbers of blocks that went since the last call.
  std::vector<int64_t> take_dropped();
  // Nothing is kept, now and later.
  void clear();

 private:
  struct Block {
    std::mutex mutex;  // of whoever fetches it
    std::atomic<bool> there = false;
    std::vector<std::byte> bytes;
  };
  struct Known {
    std::shared_ptr<Block> block;
    From from = From::kHolder;
    std::list<int64_t>::iterator used;
  };
  struct Kept {
    std::list<int64_t> used;  // the last one first
    int64_t bytes = 0;
  };
  Kept& kept(From from) { return kept_[static_cast<size_t>(from)]; }
  std::shared_ptr<Block> block_of(int64_t number, int64_t bytes);
  void make_room();
  void note_from(int64_t number, const Block* block, From from);
  void drop(int64_t number, const Block* block);
  void erase(std::map<int64_t, Known>::iterator known);

  const int64_t most_bytes_, block_bytes_;
  std::mutex mutex_;  // guards what follows, not the bytes
  bool closed_ = false;
  std::map<int64_t, Known> known_;
  std::array<Kept, 2> kept_;
  std::vector<int64_t> dropped_;
};

}  // namespace scalai::executor
