#pragma once
// Layout σ: how one logical tensor is cut over the axes of a mesh, as data. A layout is a list of cuts, applied in order;
// each divides one dimension over one axis, or (flat) the remaining elements in row-major order. Axes that no cut names
// replicate. What a rank holds follows from its coordinates alone: pieces_of().

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/tensor/box.h"

namespace scalai::tensor {

enum class SplitRule : uint8_t {
  kEven,      // extent must be a multiple of the axis (refused otherwise)
  kBalanced,  // the first (extent mod n) parts get one more: 10 over 4 = [3,3,2,2]
  kCeil,      // torch.chunk: blocks of ceil(extent/n), the last short, perhaps empty: 10 over 4 = [3,3,3,1]
  kPadded,    // rounded up to a multiple of `multiple`·n, cut evenly, clipped to the extent: Megatron's vocabulary.
              // Rows beyond the extent are padding: they exist in the local buffer, are zero, and never travel.
  kExplicit,  // `bounds` has n + 1 entries, rising from 0 to the extent
  kGrouped,   // `groups` equal groups over n parts: part r is group r·groups/n, so that with more parts than groups
              // several hold the same one (vLLM's key-value heads); with fewer, each part is a run of groups
  kBucket,    // the tensor lies from `start` in a bucket of `bucket` elements, which is cut evenly: part r is what of
              // the tensor falls into the bucket's r-th share (Megatron's distributed optimizer)
};

struct Cut {
  static constexpr int kFlat = -1;
  std::string axis;  // mesh axis, e.g. "tp", or several as one: "cp+dp" is their product in the mesh's order
  int dim = 0;       // dimension of the tensor, or kFlat: elements in row-major order of what is left
  SplitRule rule = SplitRule::kEven;
  int64_t multiple = 1;         // kPadded: rows per part are a multiple of this
  std::vector<int64_t> bounds;  // kExplicit
  int64_t groups = 1;           // kGrouped
  int64_t start = 0;            // kBucket
  int64_t bucket = 0;           // kBucket
  friend bool operator==(const Cut&, const Cut&) = default;
};

// The axes of a cut: "cp+dp" → cp, dp.
std::vector<std::string> axes_of(const std::string& axes);

struct Layout {
  std::vector<Cut> cuts;  // empty = every rank holds the whole tensor
  friend bool operator==(const Layout&, const Layout&) = default;
};

// Part `index` of `parts` of [0, extent): half-open. kEven on an extent that does not divide behaves like kBalanced;
// validate() is what refuses it. `padded_end` (optional) gets the end before clipping (kPadded), else the end.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};
Range part_of(const Cut& cut, int64_t extent, int parts, int index, int64_t* padded_end = nullptr);

// Size and this rank's coordinate of a named axis.
struct AxisPosition {
  int size = 1;
  int coordinate = 0;
};
using AxisLookup = std::function<AxisPosition(const std::string& axis)>;

// A Box plus where it lies in the rank's local buffer for this tensor. The buffer is row-major over the rank's padded
// local extents when the layout has no flat cut, else one flat run of elements.
struct Piece {
  Box box;
  int64_t offset = 0;                       // first element, in elements
  std::array<int64_t, kMaxRank> strides{};  // in elements, per dimension of the box
  friend bool operator==(const Piece&, const Piece&) = default;
};
struct LocalBuffer {
  std::vector<Piece> pieces;  // sorted by box; none when the rank's part is empty
  int64_t elements = 0;       // buffer size, padding included
};
LocalBuffer pieces_of(const Layout& layout, const Shape& shape, const AxisLookup& lookup);
// The same from the position on each cut's axis, in the order of the cuts.
LocalBuffer pieces_of(const Layout& layout, const Shape& shape, std::span<const AxisPosition> positions);

// The first thing that the layout cannot mean: dimension out of range, one axis cut twice, a cut after a flat one, an
// even cut that leaves a rest in some part, explicit bounds that do not rise from 0 to the extent, groups or a bucket
// that do not share out. `size_of_axis` gives the size of a cut's axis.
struct CutProblem {
  size_t cut = 0;  // index in Layout::cuts
  std::string message;
};
std::optional<CutProblem> find_problem(const Layout& layout, const Shape& shape,
                                       const std::function<int(const std::string&)>& size_of_axis);

// The same as a status; `what` names the tensor.
absl::Status validate(const Layout& layout, const Shape& shape,
                      const std::function<int(const std::string&)>& size_of_axis, const std::string& what);

}  // namespace scalai::tensor
