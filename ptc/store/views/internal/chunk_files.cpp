#include "ptc/store/views/internal/chunk_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/torch/torch_file.h"

namespace scalai::store::internal {
namespace {

int64_t volume_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

absl::Status PartSource::read(int64_t offset, std::span<std::byte> dst) const {
  SCALAI_CHECK(offset >= 0 && static_cast<int64_t>(dst.size()) <= bytes_ - offset, name());
  return whole_->read(begin_ + offset, dst);
}

ChunkFiles::ChunkFiles(const Folder& folder, Opened& opened) : folder_(folder), opened_(opened) {
  for (size_t i = 0; i < opened.files.size(); ++i) files_[opened.files[i].name] = i;
}

absl::StatusOr<ChunkFiles::Located> ChunkFiles::locate(const DcpTensor& tensor, const DcpChunk& chunk,
                                                       const std::string& name) {
  SCALAI_ASSIGN_OR_RETURN(const size_t file, file_of(chunk.file));
  const ByteSourcePtr& source = opened_.files[file].source;
  const std::string place = fmt::format("{}: tensor \"{}\"", source->name(), clipped(name, 120));
  if (chunk.begin > source->size() - chunk.bytes)
    return invalid(fmt::format("{}: a chunk of {} bytes at {} is beyond the end", place, chunk.bytes, chunk.begin));
  const int64_t size = tensor::size_of(tensor.dtype);
  TorchFile stored;
  if (chunk.bare) {
    stored.tensors = {{name, tensor.dtype, chunk.sizes, 0, chunk.bytes}};
  } else {
    SCALAI_ASSIGN_OR_RETURN(stored, read_torch_file(PartSource(source, chunk.begin, chunk.bytes)));
  }
  if (stored.tensors.size() != 1 || stored.tensors.front().bytes != chunk.elements * size ||
      stored.tensors.front().dtype != tensor.dtype)
    return invalid(fmt::format("{}: its chunk at [{}] is not the tensor that the index says", place,
                               fmt::join(chunk.offsets, ", ")));
  for (SummedStorage& sum : stored.sums)
    opened_.files[file].sums.push_back({chunk.begin + sum.offset, sum.bytes, std::move(sum.checksum)});
  return Located{file,
                 {.name = name,
                  .dtype = tensor.dtype,
                  .offset = chunk.begin + stored.tensors.front().offset + chunk.skip * size,
                  .elements = volume_of(chunk.sizes),
                  .pieces = {}}};
}

void ChunkFiles::finish() {
  for (OpenedFile& file : opened_.files) {
    std::sort(file.tensors.begin(), file.tensors.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    file.data_begin = file.tensors.empty() ? 0 : file.tensors.front().offset;
  }
}

absl::StatusOr<size_t> ChunkFiles::file_of(const std::string& name) {
  const auto found = files_.find(name);
  if (found != files_.end()) return found->second;
  SCALAI_ASSIGN_OR_RETURN(ByteSourcePtr source, folder_.source(name));
  files_[name] = opened_.files.size();
  opened_.files.push_back({.name = name, .source = std::move(source), .data_begin = 0, .checksum = "", .tensors = {}});
  return opened_.files.size() - 1;
}

absl::StatusOr<std::optional<tensor::Piece>> piece_in_chunk(const tensor::Piece& piece,
                                                            const std::vector<int64_t>& shape,
                                                            const std::vector<int64_t>& offsets,
                                                            const std::vector<int64_t>& sizes) {
  const std::vector<int64_t> dense = dense_strides(shape), in_chunk = dense_strides(sizes);
  std::vector<int64_t> first(shape.size());  // where the piece begins
  for (size_t dim = 0; dim < shape.size(); ++dim)
    first[dim] = piece.offset / dense[dim] % std::max<int64_t>(shape[dim], 1);
  tensor::Piece part = piece;
  part.offset = 0;
  std::vector<bool> used(shape.size(), false);
  for (size_t dim = 0; dim < static_cast<size_t>(piece.box.rank); ++dim) {
    const int64_t extent = piece.box.extent(static_cast<int>(dim));
    if (extent == 1) continue;
    // The stored dimension that the piece goes along, `step` rows at a time.
    size_t along = 0;
    int64_t step = 0;
    for (; along < shape.size(); ++along) {
      step = piece.strides[dim] / dense[along];
      const bool divides = step > 0 && piece.strides[dim] % dense[along] == 0;
      if (!used[along] && divides && first[along] + step * (extent - 1) < shape[along]) break;
    }
    if (along == shape.size()) return invalid("its places are not along the dimensions of the stored tensor");
    used[along] = true;
    const int64_t below = std::max<int64_t>(0, offsets[along] - first[along]);
    const int64_t begin = std::min(extent, (below + step - 1) / step);
    const int64_t room = offsets[along] + sizes[along] - first[along];
    const int64_t end = std::clamp<int64_t>(room <= 0 ? 0 : (room + step - 1) / step, 0, extent);
    if (begin >= end) return std::optional<tensor::Piece>();
    part.box.lo[dim] = piece.box.lo[dim] + begin;
    part.box.hi[dim] = piece.box.lo[dim] + end;
    part.strides[dim] = step * in_chunk[along];
    part.offset += (first[along] + step * begin - offsets[along]) * in_chunk[along];
  }
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (used[dim]) continue;
    if (first[dim] < offsets[dim] || first[dim] >= offsets[dim] + sizes[dim]) return std::optional<tensor::Piece>();
    part.offset += (first[dim] - offsets[dim]) * in_chunk[dim];
  }
  return std::optional(part);
}

}  // namespace scalai::store::internal
