#pragma once
// What copy engines are measured with: boxes of real layouts that change, all of them on one device. Pure functions.
//
//   contiguous  whole buffers                               what plain copies do best
//   qkv         fused query, key and value rows, cut by query group       tp 4 → 2, and back
//   swiglu      gate and up, each cut by rows
//   column      column-parallel: rows of the weight
//   row         row-parallel: columns of the weight, so short runs
//   flat        optimizer state in buckets over data-parallel ranks, dp 4 → 3: ranges that begin anywhere
//
// Every element of the new pieces is copied once, kept or not: that is a test of copying, not of planning.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"

namespace scalai::executor::bench {

struct CopyWork {
  std::string name;   // "qkv merge"
  std::string model;  // "llama3-8b"; empty: none
  struct Buffer {
    Box box;
    DType dtype = DType::kF32;
    Content content;  // of its tensor
  };
  struct Copy {
    Box part;
    size_t src = 0, dst = 0;  // in sources, in targets
  };
  std::vector<Buffer> sources, targets;
  std::vector<Copy> copies;
  int64_t bytes = 0;  // of all copies
};

std::vector<std::string> copy_work_names();  // of the header

struct CopyWorkOptions {
  std::vector<std::string> names;
  std::vector<std::string> models = {"llama3-8b", "gpt3-6.7b"};
  int64_t bytes = int64_t{4} << 30;  // tensors are added until there are so many
};
// Layouts give two works each, merge and split. What a model does not have is left out (swiglu of a GPT). Errors
// (InvalidArgument): an unknown name or model.
absl::StatusOr<std::vector<CopyWork>> make_copy_works(const CopyWorkOptions& options);

}  // namespace scalai::executor::bench
