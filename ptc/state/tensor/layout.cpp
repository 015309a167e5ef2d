#include "ptc/state/tensor/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ptc/base/round_up.h"
#include "ptc/base/status.h"

namespace scalai::tensor {
namespace {

Range balanced(int64_t extent, int64_t parts, int64_t index) {
  const int64_t base = extent / parts;
  const int64_t longer = extent % parts;
  const int64_t begin = index * base + std::min<int64_t>(index, longer);
  return {begin, begin + base + (index < longer ? 1 : 0)};
}

Range clipped(int64_t block, int64_t extent, int index) {
  return {std::min(index * block, extent), std::min((index + 1) * block, extent)};
}

}  // namespace

Range part_of(const Cut& cut, int64_t extent, int parts, int index, int64_t* padded_end) {
  SCALAI_CHECK(parts >= 1 && 0 <= index && index < parts);
  Range range;
  switch (cut.rule) {
    case SplitRule::kEven:
    case SplitRule::kBalanced: range = balanced(extent, parts, index); break;
    case SplitRule::kCeil: range = clipped((extent + parts - 1) / parts, extent, index); break;
    case SplitRule::kPadded: {
      const int64_t block = round_up(extent, cut.multiple * parts) / parts;
      if (padded_end != nullptr) *padded_end = (index + 1) * block;
      return clipped(block, extent, index);
    }
    case SplitRule::kExplicit:
      SCALAI_CHECK(cut.bounds.size() == static_cast<size_t>(parts) + 1);
      range = {cut.bounds[static_cast<size_t>(index)], cut.bounds[static_cast<size_t>(index) + 1]};
      break;
    case SplitRule::kGrouped: {
      const int64_t different = std::min<int64_t>(parts, cut.groups);
      range = balanced(extent, different, index * different / parts);
      break;
    }
    case SplitRule::kBucket: {
      const int64_t share = cut.bucket / parts;
      range = {std::clamp<int64_t>(index * share - cut.start, 0, extent),
               std::clamp<int64_t>((index + 1) * share - cut.start, 0, extent)};
      break;
    }
  }
  if (padded_end != nullptr) *padded_end = range.end;
  return range;
}

LocalBuffer pieces_of(const Layout& layout, const Shape& shape, const AxisLookup& lookup) {
  std::vector<AxisPosition> positions;
  for (const Cut& cut : layout.cuts) positions.push_back(lookup(cut.axis));
  return pieces_of(layout, shape, positions);
}

LocalBuffer pieces_of(const Layout& layout, const Shape& shape, std::span<const AxisPosition> positions) {
  SCALAI_CHECK(positions.size() == layout.cuts.size());
  Box box = Box::whole(shape);
  Box padded = box;  // the same part before clipping: the buffer's extents
  const Cut* flat = nullptr;
  for (size_t i = 0; i < layout.cuts.size(); ++i) {
    const Cut& cut = layout.cuts[i];
    if (cut.dim == Cut::kFlat) {
      flat = &cut;  // the last one
      continue;
    }
    const auto dim = static_cast<size_t>(cut.dim);
    const AxisPosition& at = positions[i];
    int64_t padded_end = 0;
    // A second axis on the same dimension divides what the first one left.
    const Range part = part_of(cut, box.extent(cut.dim), at.size, at.coordinate, &padded_end);
    const int64_t base = box.lo[dim];
    box.lo[dim] = base + part.begin;
    box.hi[dim] = base + part.end;
    // Every rank's buffer is a whole padded block, also where the extent ends inside it or before it.
    const int64_t block = cut.rule == SplitRule::kPadded ? padded_end / (at.coordinate + 1) : part.end - part.begin;
    padded.lo[dim] = box.lo[dim];
    padded.hi[dim] = box.lo[dim] + block;
  }
  LocalBuffer local;
  if (flat == nullptr) {
    const Shape buffer = padded.shape();
    local.elements = buffer.elements();
    if (!box.empty()) local.pieces.push_back({.box = box, .offset = 0, .strides = buffer.strides()});
    return local;
  }
  const AxisPosition& at = positions.back();
  const Range range = part_of(*flat, box.volume(), at.size, at.coordinate, &local.elements);
  local.elements -= range.begin;
  int64_t offset = 0;
  for (const Box& part : decompose_flat(box, range.begin, range.end)) {
    local.pieces.push_back({.box = part, .offset = offset, .strides = part.shape().strides()});
    offset += part.volume();
  }
  return local;
}

namespace {

// What is wrong with one cut of a part of `extent`; empty when nothing is.
std::string problem_of(const Cut& cut, int64_t extent, int parts) {
  if (cut.rule == SplitRule::kEven && extent % parts != 0)
    return fmt::format("{} does not divide by {}", extent, parts);
  if (cut.rule == SplitRule::kPadded && cut.multiple < 1) return "the padding multiple is below 1";
  if (cut.rule == SplitRule::kExplicit) {
    const bool rises = cut.bounds.size() == static_cast<size_t>(parts) + 1 && cut.bounds.front() == 0 &&
                       cut.bounds.back() == extent && std::is_sorted(cut.bounds.begin(), cut.bounds.end());
    if (!rises) return fmt::format("the bounds do not rise from 0 to {} in {} parts", extent, parts);
  }
  if (cut.rule == SplitRule::kGrouped) {
    if (cut.groups < 1 || extent % cut.groups != 0) return fmt::format("{} is not {} groups", extent, cut.groups);
    if (cut.groups % parts != 0 && parts % cut.groups != 0)
      return fmt::format("{} groups do not share out over {} parts", cut.groups, parts);
  }
  if (cut.rule == SplitRule::kBucket) {
    if (cut.bucket < 1 || cut.bucket % parts != 0)
      return fmt::format("a bucket of {} does not divide by {}", cut.bucket, parts);
    if (cut.start < 0 || cut.start + extent > cut.bucket)
      return fmt::format("{} elements from {} do not fit a bucket of {}", extent, cut.start, cut.bucket);
  }
  return "";
}

using Extents = std::array<int64_t, kMaxRank>;

// Extents of the parts that a cut makes of a part with these extents.
std::set<Extents> parts_of(const Cut& cut, const Extents& whole, int parts) {
  const auto dim = static_cast<size_t>(cut.dim);
  std::set<Extents> sizes;
  for (int index = 0; index < parts; ++index) {
    const Range range = part_of(cut, whole[dim], parts, index);
    Extents part = whole;
    part[dim] = range.end - range.begin;
    sizes.insert(part);
  }
  return sizes;
}

}  // namespace

std::vector<std::string> axes_of(const std::string& axes) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin <= axes.size();) {
    const size_t end = std::min(axes.find('+', begin), axes.size());
    names.push_back(axes.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

std::optional<CutProblem> find_problem(const Layout& layout, const Shape& shape,
                                       const std::function<int(const std::string&)>& size_of_axis) {
  // Parts of different sizes may exist side by side after an uneven cut; the next cut has to fit each.
  std::set<Extents> sizes = {Box::whole(shape).hi};
  std::set<std::string> seen;
  bool flat = false;
  for (size_t i = 0; i < layout.cuts.size(); ++i) {
    const Cut& cut = layout.cuts[i];
    const auto fail = [&](std::string why) { return CutProblem{i, std::move(why)}; };
    if (flat) return fail("a flat cut must be the last");
    for (const std::string& axis : axes_of(cut.axis)) {
      if (!seen.insert(axis).second) return fail("the axis is cut twice");
    }
    flat = cut.dim == Cut::kFlat;
    if (!flat && (cut.dim < 0 || cut.dim >= shape.rank()))
      return fail(fmt::format("there is no dimension {}", cut.dim));
    const int parts = size_of_axis(cut.axis);
    std::set<Extents> next;
    for (const Extents& size : sizes) {
      const std::span<const int64_t> extents(size.data(), static_cast<size_t>(shape.rank()));
      const int64_t extent = flat ? Shape(extents).elements() : size[static_cast<size_t>(cut.dim)];
      if (const std::string problem = problem_of(cut, extent, parts); !problem.empty()) return fail(problem);
      if (!flat) next.merge(parts_of(cut, size, parts));
    }
    sizes = std::move(next);
  }
  return std::nullopt;
}

absl::Status validate(const Layout& layout, const Shape& shape,
                      const std::function<int(const std::string&)>& size_of_axis, const std::string& what) {
  const std::optional<CutProblem> problem = find_problem(layout, shape, size_of_axis);
  if (!problem) return absl::OkStatus();
  return invalid(fmt::format("tensor \"{}\" {}: cut over {}: {}", what, shape.str(), layout.cuts[problem->cut].axis,
                             problem->message));
}

}  // namespace scalai::tensor
