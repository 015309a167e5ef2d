#pragma once
// Strided blocks of bytes: the common part of a piece of one stored tensor and a piece of another, as a copy from a
// file to memory. All reads of state in a layout other than the stored one use them. Values without allocation, except
// for one buffer of each Gatherer.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/byte_source.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/layout.h"

namespace scalai::store {

// For all i inside extent: dst[dst + Σ i·dst_stride] = file[src + Σ i·src_stride]. All numbers are bytes. The last
// dimension is a contiguous run in file and memory. Dimensions are sorted by falling dst_stride, and one step of a
// dimension is at least as long as the span of the later ones, so the destination is written in order. No extent but
// the last is 1.
struct CopyBlock {
  static constexpr size_t kMaxDims = tensor::kMaxRank + 1;
  uint32_t file = 0;
  uint32_t dims = 0;
  int64_t src = 0;
  int64_t dst = 0;
  std::array<int64_t, kMaxDims> extent{};
  std::array<int64_t, kMaxDims> src_stride{};
  std::array<int64_t, kMaxDims> dst_stride{};

  int64_t bytes() const;
  int64_t run_bytes() const { return extent[dims - 1]; }
  int64_t runs() const { return bytes() / run_bytes(); }
  int64_t src_end() const;  // one past the last byte
  int64_t dst_end() const;
  friend bool operator==(const CopyBlock&, const CopyBlock&) = default;
};

// A piece, and the first byte of the tensor that its offset and strides refer to. Refers to the piece; use it as an
// argument only.
struct PieceAt {
  const tensor::Piece& piece;
  int64_t base = 0;
};
// The copy of `common` from `src` in `file` to `dst`. CHECK: `common` is not empty and lies in both boxes; the
// dimensions of `dst` nest, as those of an arrangement do.
CopyBlock block_of(uint32_t file, PieceAt src, PieceAt dst, const tensor::Box& common, int64_t element_bytes);

// Appends to `out` the part of the block for the destination's bytes [begin, end): at most 2·dims − 1 blocks, in order.
void clip(const CopyBlock& block, int64_t begin, int64_t end, std::vector<CopyBlock>& out);

// Reads blocks into memory. Long runs and distant short runs are read in place. Near short runs are read together with
// the bytes between them, through one buffer of kCoverBytes. One object for each thread.
class Gatherer {
 public:
  static constexpr int64_t kCoverBytes = int64_t{1} << 20;
  // Reads `block` from `source`; dst[0] is the destination's byte `base`. CHECK: the whole block lies inside dst.
  // Errors are those of the source.
  absl::Status copy(const CopyBlock& block, const ByteSource& source, int64_t base, std::span<std::byte> dst);

 private:
  absl::Status copy_part(const CopyBlock& block, const ByteSource& source, std::byte* dst);
  absl::Status cover(const CopyBlock& block, const ByteSource& source, std::byte* dst);
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace scalai::store
