#include "ptc/store/naming/internal/stored_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

// Rows [logical, logical + count) of a logical tensor are rows stored, stored + step, … of its part.
struct RowRun {
  int64_t logical = 0;
  int64_t count = 0;
  int64_t stored = 0;
  int64_t step = 1;
};

struct RowMap {
  std::vector<RowRun> runs;
  int64_t rows = 0;  // of the part, padding included
};

std::string box_of(const LocalPart& part) { return part.pieces.empty() ? "[]" : part.pieces.front().box.str(); }

// The extents of a rank's buffer, padding included: every rank's is a whole padded block, also one with no row of it.
std::vector<int64_t> buffer_extents(const tensor::Layout& layout, const tensor::Shape& shape,
                                    std::span<const tensor::AxisPosition> positions) {
  std::vector<int64_t> part(static_cast<size_t>(shape.rank()));
  for (size_t dim = 0; dim < part.size(); ++dim) part[dim] = shape[static_cast<int>(dim)];
  std::vector<int64_t> extents = part;
  for (size_t i = 0; i < layout.cuts.size(); ++i) {
    const tensor::Cut& cut = layout.cuts[i];
    const auto dim = static_cast<size_t>(cut.dim);
    int64_t padded_end = 0;
    const tensor::Range range =
        tensor::part_of(cut, part[dim], positions[i].size, positions[i].coordinate, &padded_end);
    part[dim] = range.end - range.begin;
    const bool padded = cut.rule == tensor::SplitRule::kPadded;
    extents[dim] = padded ? padded_end / (positions[i].coordinate + 1) : part[dim];
  }
  return extents;
}

void append_head(RowMap& map, int64_t logical, int64_t head_dim, bool interleaved) {
  if (!interleaved) {
    const bool joins =
        !map.runs.empty() && map.runs.back().step == 1 && map.runs.back().logical + map.runs.back().count == logical;
    if (joins)
      map.runs.back().count += head_dim;
    else
      map.runs.push_back({logical, head_dim, map.rows, 1});
  } else {
    map.runs.push_back({logical, head_dim / 2, map.rows, 2});
    map.runs.push_back({logical + head_dim / 2, head_dim / 2, map.rows + 1, 2});
  }
  map.rows += head_dim;
}

// Rows by head, of the groups in [begin, end).
RowMap map_heads(const LocalPart& part, int64_t begin, int64_t end) {
  const auto& [queries, head_dim] = part.groups;
  const bool turned = part.rotary == Rotary::kInterleaved;
  RowMap map;
  for (int64_t group = begin; group < end; group += part.groups.rows()) {
    for (int64_t query = 0; query < queries; ++query) {
      if (part.rows == Rows::kAll || part.rows == Rows::kQuery)
        append_head(map, group + query * head_dim, head_dim, turned);
    }
    if (part.rows == Rows::kAll || part.rows == Rows::kKey)
      append_head(map, group + queries * head_dim, head_dim, turned);
    if (part.rows == Rows::kAll || part.rows == Rows::kValue)
      append_head(map, group + (queries + 1) * head_dim, head_dim, false);
  }
  return map;
}

absl::StatusOr<RowMap> map_rows(const LocalPart& part) {
  const int64_t buffer_rows = part.shape.front();
  const bool plain = part.rows == Rows::kAll && part.rotary == Rotary::kHalf;
  const int64_t begin = part.pieces.empty() ? 0 : part.pieces.front().box.lo[0];
  const int64_t end = part.pieces.empty() ? 0 : part.pieces.front().box.hi[0];
  if (plain) {
    RowMap map{.runs = {}, .rows = buffer_rows};
    if (begin < end) map.runs.push_back({begin, end - begin, 0, 1});
    return map;
  }
  SCALAI_CHECK(part.groups.queries > 0, part.name);
  if (part.rotary == Rotary::kInterleaved && part.groups.head_dim % 2 != 0)
    return invalid(
        fmt::format("tensor \"{}\": heads of {} rows cannot be interleaved", part.name, part.groups.head_dim));
  const int64_t rows = part.groups.rows();
  if (begin % rows != 0 || end % rows != 0 || end - begin != buffer_rows)
    return invalid(
        fmt::format("tensor \"{}\" box {} is not whole query groups of {} rows, so its queries, keys and "
                    "values cannot be stored apart (use a naming that keeps them together, or less tp)",
                    part.name, box_of(part), rows));
  return map_heads(part, begin, end);
}

absl::Status check_alike(std::span<const LocalPart> parts, const std::string& name) {
  const LocalPart& first = parts.front();
  for (const LocalPart& part : parts) {
    if (part.dtype != first.dtype)
      return invalid(fmt::format("\"{}\" would hold tensor \"{}\" in {} and tensor \"{}\" in {}", name, first.name,
                                 tensor::name_of(first.dtype), part.name, tensor::name_of(part.dtype)));
    const bool fits = part.flat == first.flat && part.shape.size() == first.shape.size() &&
                      std::equal(part.shape.begin() + (part.shape.empty() ? 0 : 1), part.shape.end(),
                                 first.shape.begin() + (first.shape.empty() ? 0 : 1));
    if (!fits)
      return invalid(
          fmt::format("\"{}\" cannot hold tensor \"{}\" box {} beside tensor \"{}\" box {}: they are cut "
                      "differently",
                      name, part.name, box_of(part), first.name, box_of(first)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ArrangedTensor> join_flat(ArrangedTensor tensor, std::span<const LocalPart> parts, bool transposed) {
  int64_t elements = 0;
  for (const LocalPart& part : parts) {
    if (transposed || part.rows != Rows::kAll || part.rotary != Rotary::kHalf)
      return invalid(
          fmt::format("tensor \"{}\" box {} is a flat shard, of which \"{}\" cannot hold rows apart or "
                      "transposed (use a naming that keeps them together, or zero0)",
                      part.name, box_of(part), tensor.name));
    for (tensor::Piece piece : part.pieces) {
      piece.offset += elements;
      tensor.pieces.push_back({part.name, piece});
    }
    elements += part.shape.front();
  }
  tensor.shape = {elements};
  return tensor;
}

}  // namespace

LocalPart whole_part(const LogicalState& state) {
  LocalPart part{.name = state.name, .dtype = state.dtype, .shape = {}, .pieces = {}, .groups = {}};
  for (int dim = 0; dim < state.shape.rank(); ++dim) part.shape.push_back(state.shape[dim]);
  if (state.shape.elements() > 0)
    part.pieces.push_back({.box = tensor::Box::whole(state.shape), .strides = state.shape.strides()});
  return part;
}

LocalPart local_part(const LogicalState& state, const tensor::Layout& layout,
                     std::span<const tensor::AxisPosition> positions) {
  tensor::LocalBuffer local = tensor::pieces_of(layout, state.shape, positions);
  LocalPart part{.name = state.name, .dtype = state.dtype, .shape = {}, .pieces = {}, .groups = {}};
  part.pieces = std::move(local.pieces);
  part.flat = !layout.cuts.empty() && layout.cuts.back().dim == tensor::Cut::kFlat;
  part.shape = part.flat ? std::vector<int64_t>{local.elements} : buffer_extents(layout, state.shape, positions);
  const int64_t elements = std::accumulate(part.shape.begin(), part.shape.end(), int64_t{1}, std::multiplies<>());
  SCALAI_CHECK(elements == local.elements, state.name);
  return part;
}

absl::StatusOr<ArrangedTensor> join_parts(std::string name, std::span<const LocalPart> parts, bool transposed) {
  SCALAI_CHECK(!parts.empty(), name);
  const LocalPart& first = parts.front();
  SCALAI_RETURN_IF_ERROR(check_alike(parts, name));
  ArrangedTensor tensor{.name = std::move(name), .dtype = first.dtype, .shape = first.shape, .pieces = {}};
  if (first.flat) return join_flat(std::move(tensor), parts, transposed);
  if (first.shape.empty()) {
    if (parts.size() > 1) return invalid(fmt::format("\"{}\" cannot hold several scalars", tensor.name));
    tensor.pieces.push_back({first.name, first.pieces.front()});
    return tensor;
  }
  std::vector<RowMap> maps;
  int64_t rows = 0;
  for (const LocalPart& part : parts) {
    SCALAI_ASSIGN_OR_RETURN(RowMap map, map_rows(part));
    rows += map.rows;
    maps.push_back(std::move(map));
  }
  tensor.shape.front() = rows;
  std::array<int64_t, tensor::kMaxRank> strides = tensor::Shape(tensor.shape).strides();
  if (transposed) {
    SCALAI_CHECK(tensor.shape.size() == 2, tensor.name);
    strides = {1, rows};
    std::swap(tensor.shape[0], tensor.shape[1]);
  }
  int64_t start = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const RowRun& run : maps[i].runs) {
      tensor::Piece piece{
          .box = parts[i].pieces.front().box, .offset = (start + run.stored) * strides[0], .strides = strides};
      piece.strides[0] *= run.step;
      piece.box.lo[0] = run.logical;
      piece.box.hi[0] = run.logical + run.count;
      tensor.pieces.push_back({parts[i].name, piece});
    }
    start += maps[i].rows;
  }
  return tensor;
}

}  // namespace scalai::store::internal
