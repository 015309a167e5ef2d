#pragma once
// An arrangement: the places of logical state in safetensors files, as data. Every form of stored state is one (whole
// tensors under Hugging Face's names, a rank's buffers under Megatron's, boxes under our own), for reading and for
// writing: each checkpoint is pieces of one collection.
//
//   file ─► stored tensor ─► pieces: a box of a logical tensor, and its place in the stored one
//
// Offset and strides of a piece count elements of the stored tensor, so parts of fused buffers, transposed weights and
// interleaved rows have one form. Values.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptc/state/model/model.h"
#include "ptc/state/tensor/dtype.h"
#include "ptc/state/tensor/layout.h"

namespace scalai::store {

// One whole tensor of the state, as in ptc/state/collection but without a layout.
struct LogicalState {
  std::string name;
  tensor::DType dtype = tensor::DType::kF32;
  tensor::Shape shape;
  model::StateKind kind = model::StateKind::kParam;
  friend bool operator==(const LogicalState&, const LogicalState&) = default;
};

struct PlacedPiece {
  std::string logical;  // name of the logical tensor
  tensor::Piece piece;  // its box; offset and strides in elements of the stored tensor
  friend bool operator==(const PlacedPiece&, const PlacedPiece&) = default;
};

// Elements in no piece are padding: written as zeros, ignored when read. Pieces do not overlap.
struct ArrangedTensor {
  std::string name;  // in the file
  tensor::DType dtype = tensor::DType::kF32;
  std::vector<int64_t> shape;
  std::vector<PlacedPiece> pieces;
  std::vector<std::string> also{};  // names that others give it
  std::string constant{};           // all its bytes, where they are not state; it has no pieces then
  friend bool operator==(const ArrangedTensor&, const ArrangedTensor&) = default;
};

// What is around the tensors of a file.
enum class FileForm : uint8_t {
  kSafetensors,
  kTorch,   // of torch.save, as Megatron-LM writes it
  kChunks,  // of torch.distributed.checkpoint: each tensor a file of torch.save, one after the other
};

struct ArrangedFile {
  std::string name;  // "rank_003.safetensors", "model-00001-of-00003.safetensors"
  std::map<std::string, std::string> metadata;
  std::vector<ArrangedTensor> tensors;  // in any order; the file's order is that of the format
  FileForm form = FileForm::kSafetensors;
  friend bool operator==(const ArrangedFile&, const ArrangedFile&) = default;
};

}  // namespace scalai::store
