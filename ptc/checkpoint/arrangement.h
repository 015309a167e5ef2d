#pragma once
// An arrangement: how logical state lies in safetensors files, as data. It is what every way to store state comes down to
// (whole tensors under Hugging Face's names, a rank's buffers under Megatron's, boxes under our own), for reading and for
// writing alike: any checkpoint is pieces of one collection, and so is any other.
//
//   file ─► stored tensor ─► pieces: a box of a logical tensor, and where it lies in the stored one
//
// A piece's offset and strides count elements of the stored tensor, so that parts of fused buffers, transposed weights and
// interleaved rows are all one thing. Values.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptc/model/model.h"
#include "ptc/tensor/dtype.h"
#include "ptc/tensor/layout.h"

namespace scalai::checkpoint {

// One whole tensor of the state, as ptc/collection has it but without a layout.
struct LogicalState {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  model::StateKind kind = model::StateKind::kParam;
  friend bool operator==(const LogicalState&, const LogicalState&) = default;
};

struct PlacedPiece {
  std::string logical;  // name of the logical tensor
  tensor::Piece piece;  // a box of it; offset and strides in elements of the stored tensor
  friend bool operator==(const PlacedPiece&, const PlacedPiece&) = default;
};

// Elements in no piece are padding: written as zeros, and not looked at when read. Pieces do not overlap.
struct ArrangedTensor {
  std::string name;  // in the file
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
  std::vector<PlacedPiece> pieces;
  friend bool operator==(const ArrangedTensor&, const ArrangedTensor&) = default;
};

struct ArrangedFile {
  std::string name;  // "rank_003.safetensors", "model-00001-of-00003.safetensors"
  std::map<std::string, std::string> metadata;
  std::vector<ArrangedTensor> tensors;  // in any order; the format has its own
  friend bool operator==(const ArrangedFile&, const ArrangedFile&) = default;
};

}  // namespace scalai::checkpoint
