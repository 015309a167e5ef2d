#pragma once
// Layout σ: the cuts of one logical tensor over the axes of a mesh, as data. Cuts apply in order. Each cut divides one
// dimension over one axis or, if flat, the remaining elements in row-major order. Axes without a cut replicate the
// tensor. A rank's coordinates alone determine its pieces: pieces_of(). Plain values; any thread may call.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/state/tensor/box.h"

namespace scalai::tensor {

enum class SplitRule : uint8_t {
  kEven,      // refuses an extent that is not a multiple of the axis size
  kBalanced,  // the first (extent mod n) parts get one more: 10 over 4 = [3,3,2,2]
  kCeil,      // blocks of ceil(extent/n), the last short or empty (torch.chunk): 10 over 4 = [3,3,3,1]
  // Rounds the extent up to a multiple of `multiple`·n, cuts evenly and clips to the extent (Megatron's vocabulary).
  // Rows beyond the extent are padding: they exist in the local buffer, are zero, and never travel.
  kPadded,
  kExplicit,  // `bounds` has n + 1 entries, from 0 up to the extent, never falling
  // `groups` equal groups over n parts; part r begins with group r·groups/n. With fewer groups than parts, several
  // parts hold the same group (vLLM's key-value heads); otherwise a part is a run of groups.
  kGrouped,
  // The tensor lies at `start` in a bucket of `bucket` elements, which is cut evenly. Part r is the intersection of the
  // tensor and the bucket's r-th share (Megatron's distributed optimizer).
  kBucket,
};

struct Cut {
  static constexpr int kFlat = -1;
  std::string axis;  // mesh axis, e.g. "tp"; "cp+dp" is the product of both axes, in the order of the mesh
  int dim = 0;       // dimension of the tensor; or kFlat: the remaining elements in row-major order
  SplitRule rule = SplitRule::kEven;
  int64_t multiple = 1;         // kPadded: the rows of a part are a multiple of this
  std::vector<int64_t> bounds;  // kExplicit
  int64_t groups = 1;           // kGrouped
  int64_t start = 0;            // kBucket
  int64_t bucket = 0;           // kBucket
  friend bool operator==(const Cut&, const Cut&) = default;
};

// The axes of a cut: "cp+dp" gives cp, dp.
std::vector<std::string> axes_of(const std::string& axes);

struct Layout {
  std::vector<Cut> cuts;  // empty = every rank holds the whole tensor
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Part `index` of the `parts` parts of [0, extent), half-open. On an extent that does not divide, kEven acts like
// kBalanced; validate() refuses it. `padded_end`, unless null, receives the end before clipping (kPadded), else the
// end. CHECK: 0 <= index < parts; kExplicit has parts + 1 bounds.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range part_of(const Cut& cut, int64_t extent, int parts, int index, int64_t* padded_end = nullptr);

// Size of a named axis, and a rank's coordinate on it.
struct AxisPosition {
  int size = 1;
  int coordinate = 0;
};
using AxisLookup = std::function<AxisPosition(const std::string& axis)>;

// A box and its place in the rank's local buffer for this tensor. Without a flat cut the buffer is row-major over the
// rank's padded local extents; with one it is a flat run of elements.
struct Piece {
  Box box;
  int64_t offset = 0;                       // of the first element, in elements
  std::array<int64_t, kMaxRank> strides{};  // in elements, per dimension of the box
  friend bool operator==(const Piece&, const Piece&) = default;
};
struct LocalBuffer {
  std::vector<Piece> pieces;  // sorted by box; empty if the rank's part is empty
  int64_t elements = 0;       // buffer size, padding included
};
// The pieces of the rank whose axis positions `lookup` returns. The layout is valid for the shape (find_problem).
// `lookup` is not kept.
LocalBuffer pieces_of(const Layout& layout, const Shape& shape, const AxisLookup& lookup);
// The same, with one position for each cut, in the order of the cuts (CHECK).
LocalBuffer pieces_of(const Layout& layout, const Shape& shape, std::span<const AxisPosition> positions);

// The first problem of a layout: a dimension out of range, two cuts of one axis, a cut after a flat one, a kEven cut
// with a remainder in some part, a padding multiple below 1, explicit bounds that do not rise from 0 to the extent,
// groups or a bucket that do not divide. `size_of_axis` returns the size of a cut's axis and is not kept.
struct CutProblem {
  size_t cut = 0;  // index in Layout::cuts
  std::string message;
};
std::optional<CutProblem> find_problem(const Layout& layout, const Shape& shape,
                                       const std::function<int(const std::string&)>& size_of_axis);

// The same as InvalidArgument; `what` is the name of the tensor in the message.
absl::Status validate(const Layout& layout, const Shape& shape,
                      const std::function<int(const std::string&)>& size_of_axis, const std::string& what);

}  // namespace scalai::tensor
