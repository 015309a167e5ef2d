#pragma once
// Which stored tensor holds which box of one logical tensor. The first holder of a box that is no alias is read, the
// others are replicas of it; boxes that are not the same do not overlap.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptc/state/tensor/layout.h"

namespace scalai::store::internal {

struct SourcePiece {
  uint32_t file = 0;
  uint32_t tensor = 0;  // in the file
  tensor::Piece piece;  // offset and strides in elements of that tensor
  bool alias = false;   // of a tensor that only repeats another: a replica if anything else holds the box
};
struct Replica {
  SourcePiece copy;
  uint32_t of = 0;  // index among the pieces
};

class PieceIndex {
 public:
  void add(SourcePiece piece) { pieces_.push_back(std::move(piece)); }
  // Once all are added: tells replicas apart. Gives what is wrong, at most a few: boxes that overlap, and elements of
  // `shape` that nothing holds.
  struct Problem {
    std::string text;
    std::optional<SourcePiece> where;  // of an overlap
  };
  std::vector<Problem> finish(const tensor::Shape& shape);

  const std::vector<SourcePiece>& pieces() const { return pieces_; }  // by box
  const std::vector<Replica>& replicas() const { return replicas_; }
  // visit(piece, common) for each piece that has elements in common with `box`, which is not empty, by rising box.
  template <class Visit>
  void find(const tensor::Box& box, const Visit& visit) const {
    for (size_t i = first(box); i < pieces_.size(); ++i) {
      if (box.rank > 0 && pieces_[i].piece.box.lo[0] >= box.hi[0]) break;
      const auto common = tensor::intersect(pieces_[i].piece.box, box);
      if (common) visit(pieces_[i], *common);
    }
  }

 private:
  size_t first(const tensor::Box& box) const;
  std::vector<Problem> overlaps() const;
  std::vector<SourcePiece> pieces_;
  std::vector<Replica> replicas_;
  std::vector<int64_t> highest_;  // of hi[0] up to each piece: rising, so that it can be searched
};

}  // namespace scalai::store::internal
