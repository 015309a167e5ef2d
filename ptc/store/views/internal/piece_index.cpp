#include "ptc/store/views/internal/piece_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace scalai::store::internal {
namespace {

constexpr size_t kMostShown = 3;
// Naming gaps costs more than counting them.
constexpr size_t kMostSubtracted = 4096;

}  // namespace

size_t PieceIndex::first(const tensor::Box& box) const {
  if (box.rank == 0) return 0;
  return static_cast<size_t>(std::upper_bound(highest_.begin(), highest_.end(), box.lo[0]) - highest_.begin());
}

std::vector<PieceIndex::Problem> PieceIndex::overlaps() const {
  std::vector<Problem> problems;
  std::vector<size_t> open;  // those that reach beyond where the next begin, in dimension 0
  for (size_t i = 0; i < pieces_.size() && problems.size() < kMostShown; ++i) {
    const tensor::Box& box = pieces_[i].piece.box;
    if (box.rank > 0) std::erase_if(open, [&](size_t k) { return pieces_[k].piece.box.hi[0] <= box.lo[0]; });
    for (const size_t k : open) {
      if (!tensor::intersect(pieces_[k].piece.box, box) || problems.size() == kMostShown) continue;
      problems.push_back({fmt::format("box {} overlaps box {}", box.str(), pieces_[k].piece.box.str()), pieces_[i]});
    }
    open.push_back(i);
  }
  return problems;
}

std::vector<PieceIndex::Problem> PieceIndex::finish(const tensor::Shape& shape) {
  std::erase_if(pieces_, [](const SourcePiece& piece) { return piece.piece.box.empty(); });
  std::stable_sort(pieces_.begin(), pieces_.end(), [](const SourcePiece& a, const SourcePiece& b) {
    return a.piece.box == b.piece.box ? a.alias < b.alias : a.piece.box < b.piece.box;
  });
  std::vector<SourcePiece> kept;
  int64_t volume = 0;
  for (SourcePiece& piece : pieces_) {
    if (!kept.empty() && kept.back().piece.box == piece.piece.box) {
      replicas_.push_back({std::move(piece), static_cast<uint32_t>(kept.size() - 1)});
      continue;
    }
    // Beyond the largest number, boxes of one tensor overlap, which is said below.
    if (__builtin_add_overflow(volume, piece.piece.box.volume(), &volume)) volume = std::numeric_limits<int64_t>::max();
    kept.push_back(std::move(piece));
  }
  pieces_ = std::move(kept);
  int64_t highest = 0;
  for (const SourcePiece& piece : pieces_) {
    highest = std::max(highest, piece.piece.box.rank > 0 ? piece.piece.box.hi[0] : 1);
    highest_.push_back(highest);
  }
  std::vector<Problem> problems = overlaps();
  if (!problems.empty() || volume == shape.elements()) return problems;
  std::string gaps = fmt::format("{} of {} elements", shape.elements() - volume, shape.elements());
  if (pieces_.size() <= kMostSubtracted) {
    std::vector<tensor::Box> held;
    for (const SourcePiece& piece : pieces_) held.push_back(piece.piece.box);
    const std::vector<tensor::Box> missing = tensor::subtract(tensor::Box::whole(shape), held);
    gaps = "";
    for (size_t i = 0; i < std::min(kMostShown, missing.size()); ++i) {
      gaps += fmt::format("{}{}", i > 0 ? ", " : "box ", missing[i].str());
    }
    if (missing.size() > kMostShown) gaps += fmt::format(" and {} more", missing.size() - kMostShown);
  }
  problems.push_back({fmt::format("{}: is in no file", gaps), std::nullopt});
  return problems;
}

}  // namespace scalai::store::internal
