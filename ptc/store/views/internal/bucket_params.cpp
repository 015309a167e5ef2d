#include "ptc/store/views/internal/bucket_params.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/safetensors/copy_block.h"
#include "ptc/store/views/internal/chunk_files.h"
#include "ptc/store/views/internal/view_layout.h"

namespace scalai::store::internal {
namespace {

constexpr int64_t kSampleElements = 32;

// A box of a tensor.
struct StoredBox {
  int64_t begin = 0;  // its first element in row-major order; the others follow it without a gap
  std::vector<int64_t> offsets, sizes;
};

// The elements [begin, end) of a tensor, in row-major order, as boxes: at most two for each dimension.
void append_boxes(const std::vector<int64_t>& shape, int64_t begin, int64_t end, std::vector<int64_t> before,
                  std::vector<StoredBox>& out, int64_t base = 0) {
  if (begin >= end) return;
  if (shape.empty()) return out.push_back({});
  const size_t dim = before.size();
  const int64_t row = std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end(), int64_t{1},
                                      std::multiplies<>());
  const auto add_part = [&](int64_t from, int64_t to) {
    std::vector<int64_t> in = before;
    in.push_back(from / row);
    append_boxes(shape, from % row, from % row + (to - from), in, out, base + from / row * row);
  };
  const int64_t first = (begin + row - 1) / row, last = end / row;  // whole rows
  if (first > last) return add_part(begin, end);
  if (begin < first * row) add_part(begin, first * row);
  if (first < last) {
    StoredBox box{base + first * row, before, std::vector<int64_t>(dim, 1)};
    box.offsets.push_back(first);
    box.sizes.push_back(last - first);
    for (size_t d = dim + 1; d < shape.size(); ++d) {
      box.offsets.push_back(0);
      box.sizes.push_back(shape[d]);
    }
    out.push_back(std::move(box));
  }
  if (last * row < end) add_part(last * row, end);
}

// Calls visit(offset) for each element of a piece.
template <class Visit>
void for_each_element(const tensor::Piece& piece, const Visit& visit, int dim = 0, int64_t at = 0) {
  if (dim == piece.box.rank) return visit(piece.offset + at);
  for (int64_t i = 0; i < piece.box.extent(dim); ++i)
    for_each_element(piece, visit, dim + 1, at + i * piece.strides[static_cast<size_t>(dim)]);
}

bool is_of_experts(const std::string& name) { return name.find(".mlp.experts.") != std::string::npos; }

}  // namespace

absl::StatusOr<std::vector<PlacedPiece>> pieces_of_stretch(const ArrangedTensor& tensor, int64_t begin, int64_t end) {
  std::vector<StoredBox> boxes;
  append_boxes(tensor.shape, begin, end, {}, boxes);
  std::vector<PlacedPiece> pieces;
  for (const StoredBox& box : boxes) {
    for (const PlacedPiece& placed : tensor.pieces) {
      SCALAI_ASSIGN_OR_RETURN(auto part, piece_in_chunk(placed.piece, tensor.shape, box.offsets, box.sizes));
      if (!part) continue;
      part->offset += box.begin - begin;
      pieces.push_back({placed.logical, *part});
    }
  }
  return pieces;
}

int64_t elements_of(const ArrangedTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

OpenedParams::OpenedParams(const Opened& opened) : opened_(&opened) {
  for (size_t f = 0; f < opened.files.size(); ++f) {
    for (size_t t = 0; t < opened.files[f].tensors.size(); ++t) {
      for (const PlacedPiece& placed : opened.files[f].tensors[t].pieces)
        index_[placed.logical].add({static_cast<uint32_t>(f), static_cast<uint32_t>(t), placed.piece});
    }
  }
  for (const LogicalState& state : opened.states) index_[state.name].finish(state.shape);
}

absl::StatusOr<Sample> OpenedParams::sample(const ArrangedTensor& tensor, int64_t begin, int64_t count) const {
  const int64_t size = tensor::size_of(tensor.dtype);
  Sample sample{std::vector<std::byte>(static_cast<size_t>(count * size)),
                std::vector<bool>(static_cast<size_t>(count), false)};
  SCALAI_ASSIGN_OR_RETURN(const std::vector<PlacedPiece> pieces, pieces_of_stretch(tensor, begin, begin + count));
  absl::Status status;
  Gatherer gatherer;
  for (const PlacedPiece& placed : pieces) {
    for_each_element(placed.piece, [&](int64_t at) { sample.known[static_cast<size_t>(at)] = true; });
    index_.at(placed.logical).find(placed.piece.box, [&](const SourcePiece& source, const tensor::Box& common) {
      const OpenedFile& file = opened_->files[source.file];
      const CopyBlock block =
          block_of(source.file, {source.piece, file.tensors[source.tensor].offset}, {placed.piece, 0}, common, size);
      if (status.ok()) status = gatherer.copy(block, *file.source, 0, sample.bytes);
    });
  }
  SCALAI_RETURN_IF_ERROR(status);
  return sample;
}

absl::StatusOr<LayoutRanks> LayoutRanks::make(const Naming& naming, const collection::ParallelConfig& config,
                                              int64_t vocabulary_rows, const Opened& opened) {
  std::vector<DeviceId> devices;
  for (int rank = 0; rank < config.world(); ++rank) devices.emplace_back(rank);
  SCALAI_ASSIGN_OR_RETURN(const collection::Collection whole,
                          collection::megatron_collection(opened.model->model, {}, config, std::move(devices)));
  LayoutRanks ranks(naming, opened);
  ranks.collection_ = std::make_unique<collection::Collection>(with_states(whole, opened.states));
  for (const LogicalState& state : opened.states) {
    if (state.kind == model::StateKind::kBuffer) ranks.buffers_.insert(state.name);
  }
  if (vocabulary_rows > 0) pad_vocabulary(*ranks.collection_, vocabulary_rows / config.tp);
  return ranks;
}

absl::StatusOr<std::vector<RankParams>> LayoutRanks::params(int rank, BufferOf of, const BufferOrder& order) {
  std::unique_ptr<RankArranger>& arranger = arrangers_[order.fused];
  if (!arranger) {
    SCALAI_ASSIGN_OR_RETURN(RankArranger made, RankArranger::make(naming_, *collection_, order.fused));
    arranger = std::make_unique<RankArranger>(std::move(made));
  }
  SCALAI_ASSIGN_OR_RETURN(ArrangedFile file, arranger->arrange(LogicalRank(rank)));
  std::stable_sort(file.tensors.begin(), file.tensors.end(), [&](const auto& a, const auto& b) {
    return registration_order(a.name, order.experts) < registration_order(b.name, order.experts);
  });
  std::reverse(file.tensors.begin(), file.tensors.end());
  std::map<tensor::DType, RankParams> by_dtype;
  for (ArrangedTensor& tensor : file.tensors) {
    if (buffers_.count(tensor.pieces.front().logical) != 0) continue;
    if (of != BufferOf::kAll && is_of_experts(tensor.name) != (of == BufferOf::kExperts)) continue;
    RankParams& held = by_dtype[tensor.dtype];
    held.dtype = tensor.dtype;
    SCALAI_ASSIGN_OR_RETURN(const BucketParam* const param, sampled(rank, tensor));
    held.params.push_back(*param);
    held.tensors.push_back(std::move(tensor));
  }
  std::vector<RankParams> result;
  for (auto& [dtype, held] : by_dtype) result.push_back(std::move(held));
  return result;
}

absl::StatusOr<const BucketParam*> LayoutRanks::sampled(int rank, const ArrangedTensor& tensor) {
  BucketParam& param = samples_[{rank, tensor.name}];
  if (param.elements > 0) return &param;
  const int64_t elements = elements_of(tensor), count = std::min(elements, kSampleElements);
  SCALAI_ASSIGN_OR_RETURN(param.first, opened_.sample(tensor, 0, count));
  SCALAI_ASSIGN_OR_RETURN(param.last, opened_.sample(tensor, elements - count, count));
  param.elements = elements;
  return &param;
}

}  // namespace scalai::store::internal
