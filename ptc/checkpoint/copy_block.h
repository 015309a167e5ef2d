#pragma once
// Strided blocks of bytes: what one piece of a stored tensor and one of another have in common, as a copy from a file to
// memory. Everything that reads state in a layout other than the stored one comes down to these. Values; no allocation
// but for the one buffer of a gathering read.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/byte_source.h"
#include "ptc/tensor/box.h"
#include "ptc/tensor/layout.h"

namespace scalai::checkpoint {

// For all i inside extent: dst[dst + Σ i·dst_stride] = file[src + Σ i·src_stride]. All are bytes, and the last dimension
// is a run of neighbouring ones in both. Dimensions are by falling dst_stride, and a step in one is at least as long as
// all that the next ones span, so that the destination is written in order; no extent but the last is 1.
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
  int64_t src_end() const;  // one after the last byte
  int64_t dst_end() const;
  friend bool operator==(const CopyBlock&, const CopyBlock&) = default;
};

// A piece and the byte at which the tensor begins that its offset and strides count in.
struct PieceAt {
  const tensor::Piece& piece;
  int64_t base = 0;
};
// `common` lies in both pieces' boxes and is not empty (CHECK); the destination's piece is one of an arrangement, so that
// its dimensions nest (CHECK).
CopyBlock block_of(uint32_t file, PieceAt src, PieceAt dst, const tensor::Box& common, int64_t element_bytes);

// The part that writes the destination's bytes [begin, end), as at most 2·dims − 1 blocks in order, appended to `out`.
void clip(const CopyBlock& block, int64_t begin, int64_t end, std::vector<CopyBlock>& out);

// Reads blocks into memory. Long runs, and short ones that are far apart, are read where they belong; short ones that are
// near come through one buffer of kCoverBytes and what lies between them is read, too. One object for each thread.
class Gatherer {
 public:
  static constexpr int64_t kCoverBytes = int64_t{1} << 20;
  // dst[0] is the destination's byte `base`; all of the block is inside (CHECK). Errors are those of the source.
  absl::Status copy(const CopyBlock& block, const ByteSource& source, int64_t base, std::span<std::byte> dst);

 private:
  absl::Status copy_part(const CopyBlock& block, const ByteSource& source, std::byte* dst);
  absl::Status cover(const CopyBlock& block, const ByteSource& source, std::byte* dst);
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace scalai::checkpoint
