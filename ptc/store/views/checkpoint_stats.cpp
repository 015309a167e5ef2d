#include "ptc/store/views/checkpoint_stats.h"

#include <map>
#include <mutex>

#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/box_chunks.h"

namespace scalai::store {
namespace {

constexpr int64_t kElements = int64_t{1} << 20;  // of a chunk

struct Chunk {
  size_t of = 0;      // among the wanted tensors
  size_t number = 0;  // among its chunks
  tensor::Box box;
};

// What is added up in order waits here for the chunks before it, which other threads still have: a few.
struct Growing {
  std::mutex mutex;
  size_t next = 0;
  std::map<size_t, std::pair<tensor::ElementStats, tensor::ElementChange>> waiting;
};

class Statistics {
 public:
  Statistics(const Checkpoint& checkpoint, const std::vector<size_t>& tensors, const StatsOptions& options)
      : checkpoint_(checkpoint), options_(options), growing_(tensors.size()), other_(tensors.size()) {
    for (const size_t tensor : tensors) {
      const LogicalState& state = checkpoint.tensors()[tensor];
      const size_t of = stats_.size();
      stats_.push_back({.tensor = tensor, .elements = {}, .change = {}});
      total_ += state.shape.elements() * tensor::size_of(state.dtype);
      other_[of] = before_of(state);
      if (other_[of]) stats_[of].change.emplace();
      size_t number = 0;
      const absl::Status cut =
          tensor::for_each_chunk(tensor::Box::whole(state.shape), kElements, [&](const tensor::Box& box) {
            chunks_.push_back({of, number++, box});
            return absl::OkStatus();
          });
      SCALAI_CHECK(cut.ok());
    }
  }

  absl::StatusOr<std::vector<TensorStats>> run() {
    SCALAI_RETURN_IF_ERROR(
        try_parallel_for(options_.threads, chunks_.size(), [&](size_t i) { return look(chunks_[i]); }));
    return std::move(stats_);
  }

 private:
  std::optional<size_t> before_of(const LogicalState& state) const {
    if (options_.since == nullptr) return std::nullopt;
    const std::optional<size_t> found = options_.since->find(state.name);
    return found && options_.since->tensors()[*found].shape == state.shape ? found : std::nullopt;
  }

  static absl::StatusOr<std::vector<std::byte>> bytes_of(const Checkpoint& checkpoint, size_t tensor,
                                                         const tensor::Box& box) {
    std::vector<std::byte> bytes(
        static_cast<size_t>(box.volume() * tensor::size_of(checkpoint.tensors()[tensor].dtype)));
    SCALAI_RETURN_IF_ERROR(checkpoint.read(tensor, box, bytes));
    return bytes;
  }

  absl::Status look(const Chunk& chunk) {
    const TensorStats& stats = stats_[chunk.of];
    const tensor::DType dtype = checkpoint_.tensors()[stats.tensor].dtype;
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> now, bytes_of(checkpoint_, stats.tensor, chunk.box));
    const tensor::ElementStats seen = tensor::stats_of(dtype, chunk.box.volume(), now.data());
    tensor::ElementChange change;
    if (other_[chunk.of]) {
      SCALAI_ASSIGN_OR_RETURN(const std::vector<std::byte> before,
                              bytes_of(*options_.since, *other_[chunk.of], chunk.box));
      change = tensor::change_of(chunk.box.volume(), dtype, now.data(),
                                 options_.since->tensors()[*other_[chunk.of]].dtype, before.data());
    }
    add(chunk, seen, change);
    advance(std::ssize(now));
    return absl::OkStatus();
  }

  void add(const Chunk& chunk, const tensor::ElementStats& seen, const tensor::ElementChange& change) {
    Growing& growing = growing_[chunk.of];
    const std::lock_guard lock(growing.mutex);
    growing.waiting.emplace(chunk.number, std::pair(seen, change));
    for (auto at = growing.waiting.begin(); at != growing.waiting.end() && at->first == growing.next;
         at = growing.waiting.erase(at), ++growing.next) {
      stats_[chunk.of].elements.add(at->second.first);
      if (other_[chunk.of]) stats_[chunk.of].change->add(at->second.second);
    }
  }

  void advance(int64_t bytes) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    options_.progress(done_ += bytes, total_);
  }

  const Checkpoint& checkpoint_;
  const StatsOptions& options_;
  std::vector<TensorStats> stats_;
  std::vector<Chunk> chunks_;
  std::vector<Growing> growing_;
  std::vector<std::optional<size_t>> other_;  // the tensor of `since`
  std::mutex mutex_;
  int64_t done_ = 0, total_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<TensorStats>> stats_of(const Checkpoint& checkpoint, const std::vector<size_t>& tensors,
                                                  const StatsOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(std::vector<TensorStats> stats, Statistics(checkpoint, tensors, options).run());
  SCALAI_RETURN_IF_ERROR(checkpoint.confirm());
  if (options.since != nullptr) SCALAI_RETURN_IF_ERROR(options.since->confirm());
  return stats;
}

}  // namespace scalai::store
