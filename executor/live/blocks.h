#pragma once
// Blocks: what has been fetched of a step, for those who read it again, here or on other machines: as many blocks of
// the boxes that hosts hold as memory is given for. Whoever asks for a block that another one is fetching waits for it.
// Any thread.
//
// Who reads blocks in their order gets them in windows of 1, 2, 4, … blocks: all of a window are announced at once and
// fetched one after another, so that a question about them is asked once a window. Who reads here and there fetches
// what it reads.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/state/tensor/box.h"

namespace scalai::executor::live {

// Elements [begin, end) of a dense row-major box, as few boxes as there are runs of whole rows: visit(part) in their
// order, the elements of a part after those of the one before. Stops at an error.
absl::Status for_each_box_of_range(const tensor::Box& box, int64_t begin, int64_t end,
                                   const std::function<absl::Status(const tensor::Box& part)>& visit);

class Blocks {
 public:
  // At most about `most_bytes` are kept, in blocks of `block_bytes`. What others have, too, gets half of that at most
  // where the rest needs the room.
  Blocks(int64_t most_bytes, int64_t block_bytes) : most_bytes_(most_bytes), block_bytes_(block_bytes) {}

  // Of a window, at most; and a quarter of what is kept.
  static constexpr int64_t kWindowBlocks = 64, kWindowBytes = int64_t{16} << 20;

  enum class From { kHolder, kOtherReader };
  // Where the blocks of one read come from. One thread.
  class Source {
   public:
    virtual ~Source() = default;
    // The block that comes `steps` after another one (or before it) in one of these orders, by which a reader may go;
    // its number is -1 if there is none, or if it is not to be fetched ahead of its read.
    static constexpr int kOrders = 2;
    struct Step {
      int64_t number = -1, bytes = 0;
    };
    virtual Step step(int /*order*/, int64_t /*number*/, int64_t /*steps*/) const { return {}; }
    // These blocks, of these sizes, are fetched next, in this order.
    virtual void expect(std::span<const int64_t> /*numbers*/, std::span<const int64_t> /*bytes*/) {}
    virtual absl::StatusOr<From> fetch(int64_t number, std::span<std::byte> dst) = 0;
  };
  // Copies bytes [offset, offset + dst.size()) of an entry of `bytes` bytes, whose blocks have the numbers from `first`
  // on; those of other entries have others. An error of the source is kept by nobody; one of a block that was only
  // fetched ahead is not returned.
  absl::Status read(int64_t first, int64_t bytes, int64_t offset, std::span<std::byte> dst, Source& source);

  // A block for somebody else; does not wait. The bytes are valid and stay as they are as long as the owner.
  struct Found {
    bool coming = false;  // it is being fetched
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;  // null: it is not here
  };
  Found find(int64_t number);
  // Numbers of blocks that went since the last call and are not here.
  std::vector<int64_t> take_dropped();
  // Nobody was told of them: the next call has them, too.
  void untake_dropped(std::span<const int64_t> numbers);
  // Nothing is kept, now and later.
  void clear();

 private:
  struct Block {
    explicit Block(int64_t size) : bytes(size) {}
    std::span<std::byte> span() const { return {memory.get(), static_cast<size_t>(bytes)}; }
    const int64_t bytes;
    std::mutex mutex;  // of whoever fetches it; guards `failed`
    bool failed = false;
    std::atomic<bool> there = false;
    std::unique_ptr<std::byte[]> memory;  // made by whoever fetches it
  };
  using BlockPtr = std::shared_ptr<Block>;
  struct Known {
    BlockPtr block;
    int64_t window = 1;  // that it was fetched in, in blocks
    From from = From::kHolder;
    std::list<int64_t>::iterator used;
  };
  struct Kept {
    std::list<int64_t> used;  // the last one first
    int64_t bytes = 0;
  };
  Kept& kept(From from) { return kept_[static_cast<size_t>(from)]; }
  BlockPtr block_of(int64_t number, int64_t bytes);
  struct Coming {
    int64_t number = 0;
    BlockPtr block;
  };
  void add(int64_t number, const BlockPtr& block, int64_t window);
  std::vector<Coming> window_of(int64_t number, const BlockPtr& first, const Source& source);
  absl::Status fetch(int64_t number, const BlockPtr& block, Source& source);
  void make_room();
  void note_from(int64_t number, const Block* block, From from);
  void drop(int64_t number, const Block* block);
  void erase(std::map<int64_t, Known>::iterator known);

  const int64_t most_bytes_, block_bytes_;
  std::mutex mutex_;  // guards what follows, not the bytes
  bool closed_ = false;
  std::map<int64_t, Known> known_;
  std::array<Kept, 2> kept_;
  std::set<int64_t> dropped_;
};

}  // namespace scalai::executor::live
