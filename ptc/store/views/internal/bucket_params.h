#pragma once
// What the ranks of a layout have of the parameters of an opened checkpoint: their names, places and some of their
// values, in the order of the buffers of Megatron-Core's distributed optimizer (bucket_run.h).

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/store/naming/arrange.h"
#include "ptc/store/views/internal/bucket_run.h"
#include "ptc/store/views/internal/opened.h"
#include "ptc/store/views/internal/piece_index.h"

namespace scalai::store::internal {

// Of the elements [begin, end) of a stored tensor, in row-major order: places, as of a stored tensor of this stretch
// alone.
absl::StatusOr<std::vector<PlacedPiece>> pieces_of_stretch(const ArrangedTensor& tensor, int64_t begin, int64_t end);

int64_t elements_of(const ArrangedTensor& tensor);

// The parameters that were opened, read by what a rank has. Refers to `opened`.
class OpenedParams {
 public:
  explicit OpenedParams(const Opened& opened);
  // The elements [begin, begin + count) of a rank's tensor. Errors of files.
  absl::StatusOr<Sample> sample(const ArrangedTensor& tensor, int64_t begin, int64_t count) const;

 private:
  const Opened* opened_;
  std::map<std::string, PieceIndex> index_;
};

// Modules of Megatron-Core or of Transformer Engine, with one module for each expert or one for all.
struct BufferOrder {
  bool fused = false;
  Experts experts = Experts::kSequential;
};
inline constexpr BufferOrder kBufferOrders[] = {
    {false, Experts::kSequential}, {true, Experts::kSequential}, {false, Experts::kGrouped}, {true, Experts::kGrouped}};

enum class BufferOf : uint8_t { kAll, kDense, kExperts };

// What one rank has of a dtype, in the order of its buffer.
struct RankParams {
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<ArrangedTensor> tensors;
  std::vector<BucketParam> params;
};

// The ranks of a layout without pp. Refers to `opened`.
class LayoutRanks {
 public:
  // vocabulary_rows: padded; 0: none. InvalidArgument: the model does not fit the layout.
  static absl::StatusOr<LayoutRanks> make(const Naming& naming, const collection::ParallelConfig& config,
                                          int64_t vocabulary_rows, const Opened& opened);
  absl::StatusOr<std::vector<RankParams>> params(int rank, BufferOf of, const BufferOrder& order);

 private:
  LayoutRanks(const Naming& naming, const Opened& opened) : naming_(naming), opened_(opened) {}
  absl::StatusOr<const BucketParam*> sampled(int rank, const ArrangedTensor& tensor);

  Naming naming_;
  OpenedParams opened_;
  std::unique_ptr<collection::Collection> collection_;
  std::map<bool, std::unique_ptr<RankArranger>> arrangers_;     // by BufferOrder::fused
  std::set<std::string> buffers_;                               // without state of an optimizer
  std::map<std::pair<int, std::string>, BucketParam> samples_;  // by rank and stored name
};

}  // namespace scalai::store::internal
