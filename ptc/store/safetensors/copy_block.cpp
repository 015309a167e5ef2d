#include "ptc/store/safetensors/copy_block.h"

#include <algorithm>
#include <cstring>

#include "ptc/base/status.h"

namespace scalai::store {
namespace {

// A run this long is worth a system call of its own.
constexpr int64_t kLongRunBytes = int64_t{1} << 16;
// Reading up to this many times what is wanted costs less than a system call for each run.
constexpr int64_t kMostWaste = 8;

struct Dim {
  int64_t extent = 1;
  int64_t src = 0;
  int64_t dst = 0;
};

// Bytes from the first to one after the last of dimensions [from, dims).
int64_t span_of(const CopyBlock& block, const std::array<int64_t, CopyBlock::kMaxDims>& stride, size_t from = 0) {
  int64_t last = 0;
  for (size_t d = from; d < block.dims; ++d) last += (block.extent[d] - 1) * stride[d];
  return last + 1;
}

// Neighbours that continue in both become one; a dimension of one element is none.
void append(CopyBlock& block, const Dim& dim) {
  if (dim.extent == 1) return;
  block.extent[block.dims] = dim.extent;
  block.src_stride[block.dims] = dim.src;
  block.dst_stride[block.dims] = dim.dst;
  ++block.dims;
}

void merge_neighbours(CopyBlock& block) {
  size_t last = 0;
  for (size_t d = 1; d < block.dims; ++d) {
    const bool continues = block.src_stride[last] == block.extent[d] * block.src_stride[d] &&
                           block.dst_stride[last] == block.extent[d] * block.dst_stride[d];
    const int64_t extent = continues ? block.extent[last] * block.extent[d] : block.extent[d];
    if (!continues) ++last;
    block.extent[last] = extent;
    block.src_stride[last] = block.src_stride[d];
    block.dst_stride[last] = block.dst_stride[d];
  }
  for (size_t d = last + 1; d < block.dims; ++d) block.extent[d] = block.src_stride[d] = block.dst_stride[d] = 0;
  block.dims = static_cast<uint32_t>(last + 1);
}

int64_t first_byte(PieceAt at, const tensor::Box& common, int64_t element_bytes) {
  int64_t element = at.piece.offset;
  for (size_t d = 0; d < static_cast<size_t>(common.rank); ++d) {
    element += (common.lo[d] - at.piece.box.lo[d]) * at.piece.strides[d];
  }
  return at.base + element * element_bytes;
}

// Indices [begin, end) of one dimension.
CopyBlock slice(const CopyBlock& block, size_t dim, int64_t begin, int64_t end) {
  CopyBlock part = block;
  part.src += begin * block.src_stride[dim];
  part.dst += begin * block.dst_stride[dim];
  part.extent[dim] = end - begin;
  if (end - begin != 1 || block.dims == 1) return part;
  for (size_t d = dim; d + 1 < block.dims; ++d) {
    part.extent[d] = block.extent[d + 1];
    part.src_stride[d] = block.src_stride[d + 1];
    part.dst_stride[d] = block.dst_stride[d + 1];
  }
  --part.dims;
  part.extent[part.dims] = part.src_stride[part.dims] = part.dst_stride[part.dims] = 0;
  return part;
}

template <size_t kBytes>
void copy_elements(const CopyBlock& block, const std::byte* src, std::byte* dst) {
  const size_t d = block.dims - 2;
  for (int64_t i = 0; i < block.extent[d]; ++i) {
    std::memcpy(dst + i * block.dst_stride[d], src + i * block.src_stride[d], kBytes);
  }
}

// Dimensions [dim, dims) from memory to memory.
void scatter(const CopyBlock& block, size_t dim, const std::byte* src, std::byte* dst) {
  const auto run = static_cast<size_t>(block.run_bytes());
  if (dim + 1 == block.dims) {
    std::memcpy(dst, src, run);
    return;
  }
  if (dim + 2 == block.dims) {
    switch (run) {
      case 1: return copy_elements<1>(block, src, dst);
      case 2: return copy_elements<2>(block, src, dst);
      case 4: return copy_elements<4>(block, src, dst);
      case 8: return copy_elements<8>(block, src, dst);
      default: break;
    }
  }
  for (int64_t i = 0; i < block.extent[dim]; ++i) {
    scatter(block, dim + 1, src + i * block.src_stride[dim], dst + i * block.dst_stride[dim]);
  }
}

}  // namespace

int64_t CopyBlock::bytes() const {
  int64_t product = 1;
  for (size_t d = 0; d < dims; ++d) product *= extent[d];
  return product;
}
int64_t CopyBlock::src_end() const { return src + span_of(*this, src_stride); }
int64_t CopyBlock::dst_end() const { return dst + span_of(*this, dst_stride); }

CopyBlock block_of(uint32_t file, PieceAt src, PieceAt dst, const tensor::Box& common, int64_t element_bytes) {
  SCALAI_CHECK(!common.empty() && src.piece.box.contains(common) && dst.piece.box.contains(common), common.str());
  std::array<Dim, CopyBlock::kMaxDims> dims;
  const auto rank = static_cast<size_t>(common.rank);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t extent = common.extent(static_cast<int>(d));
    if (extent == 1) continue;  // takes no step, however long the piece says that one is
    dims[d] = {extent, src.piece.strides[d] * element_bytes, dst.piece.strides[d] * element_bytes};
  }
  std::stable_sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(rank),
                   [](const Dim& a, const Dim& b) { return a.dst > b.dst; });
  dims[rank] = {element_bytes, 1, 1};
  CopyBlock block{
      .file = file, .src = first_byte(src, common, element_bytes), .dst = first_byte(dst, common, element_bytes)};
  for (size_t d = 0; d <= rank; ++d) append(block, dims[d]);
  if (block.dims == 0 || block.src_stride[block.dims - 1] != 1 || block.dst_stride[block.dims - 1] != 1) {
    block.extent[block.dims] = block.src_stride[block.dims] = block.dst_stride[block.dims] = 1;  // a run of one byte
    ++block.dims;
  }
  merge_neighbours(block);
  for (size_t d = 0; d + 1 < block.dims; ++d) {
    SCALAI_CHECK(block.dst_stride[d] >= span_of(block, block.dst_stride, d + 1), common.str());
  }
  return block;
}

void clip(const CopyBlock& block, int64_t begin, int64_t end, std::vector<CopyBlock>& out) {
  const int64_t low = std::max<int64_t>(begin - block.dst, 0);
  const int64_t high = std::min(end - block.dst, span_of(block, block.dst_stride));
  if (low >= high) return;
  if (block.dims == 1) {
    out.push_back(slice(block, 0, low, high));
    return;
  }
  const int64_t stride = block.dst_stride[0];
  const int64_t inner = span_of(block, block.dst_stride, 1);
  const int64_t first = low / stride;
  const int64_t last = (high - 1) / stride;
  const int64_t whole_begin = low == first * stride ? first : first + 1;
  const int64_t whole_end = high >= last * stride + inner ? last + 1 : last;
  if (whole_begin >= whole_end) {  // no index is whole: one or two that are not
    for (int64_t i = first; i <= last; ++i) clip(slice(block, 0, i, i + 1), begin, end, out);
    return;
  }
  if (first < whole_begin) clip(slice(block, 0, first, first + 1), begin, end, out);
  out.push_back(slice(block, 0, whole_begin, whole_end));
  if (whole_end <= last) clip(slice(block, 0, last, last + 1), begin, end, out);
}

absl::Status Gatherer::copy(const CopyBlock& block, const ByteSource& source, int64_t base, std::span<std::byte> dst) {
  SCALAI_CHECK(base <= block.dst && block.dst_end() - base <= static_cast<int64_t>(dst.size()), source.name());
  return copy_part(block, source, dst.data() + (block.dst - base));
}

// `dst` is where the block's first byte goes.
absl::Status Gatherer::copy_part(const CopyBlock& block, const ByteSource& source, std::byte* dst) {
  const int64_t run = block.run_bytes();
  if (block.dims == 1) return source.read(block.src, {dst, static_cast<size_t>(run)});
  const int64_t span = span_of(block, block.src_stride);
  const bool fits = span <= kCoverBytes;
  const bool near = span <= kMostWaste * block.bytes();
  if (fits && near && run < kLongRunBytes) return cover(block, source, dst);
  // What lies furthest apart in the file is taken one after the other.
  size_t dim = 0;
  for (size_t d = 1; d + 1 < block.dims; ++d) {
    if (block.src_stride[d] > block.src_stride[dim]) dim = d;
  }
  const int64_t stride = std::max<int64_t>(block.src_stride[dim], 1);
  const int64_t inner = span - (block.extent[dim] - 1) * block.src_stride[dim];
  const int64_t room = fits || run >= kLongRunBytes ? 1 : (kCoverBytes - inner) / stride + 1;
  const int64_t at_once = std::clamp<int64_t>(room, 1, block.extent[dim]);
  for (int64_t i = 0; i < block.extent[dim]; i += at_once) {
    const CopyBlock part = slice(block, dim, i, std::min(i + at_once, block.extent[dim]));
    SCALAI_RETURN_IF_ERROR(copy_part(part, source, dst + i * block.dst_stride[dim]));
  }
  return absl::OkStatus();
}

absl::Status Gatherer::cover(const CopyBlock& block, const ByteSource& source, std::byte* dst) {
  if (!buffer_) buffer_ = std::make_unique_for_overwrite<std::byte[]>(kCoverBytes);
  const std::span<std::byte> all(buffer_.get(), static_cast<size_t>(span_of(block, block.src_stride)));
  SCALAI_RETURN_IF_ERROR(source.read(block.src, all));
  scatter(block, 0, all.data(), dst);
  return absl::OkStatus();
}

}  // namespace scalai::store
