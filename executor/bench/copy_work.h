#pragma once
// Workloads for copy engines: boxes of real layout changes, all on one device. Pure functions; any thread.
//
//   contiguous  whole buffers: the best case of plain copies
//   unaligned   rows of 4,097 bf16 elements out of rows of 4,099: no address is a multiple of 4 for long
//   qkv         fused query, key and value rows, cut by query group       tp 4 → 2, and back
//   swiglu      gate and up, each cut by rows
//   column      column-parallel: rows of the weight
//   row         row-parallel: columns of the weight, so short runs
//   flat        optimizer state in buckets over data-parallel ranks, dp 4 → 3: ranges with arbitrary begins
//
// Every element of the new pieces is copied once, also kept ones: this measures copies, not plans.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/device/backend.h"

namespace scalai::executor::bench {

struct CopyWork {
  std::string name;   // "qkv merge"
  std::string model;  // "llama3-8b"; empty: no model
  struct Buffer {
    tensor::Box box;
    tensor::DType dtype = tensor::DType::kF32;
    state::Content content;  // of its tensor
  };
  struct Copy {
    tensor::Box part;
    size_t src = 0, dst = 0;  // indices in sources and targets
  };
  std::vector<Buffer> sources, targets;
  std::vector<Copy> copies;
  int64_t bytes = 0;  // sum of all copies
};

std::vector<std::string> copy_work_names();  // the names above

struct CopyWorkOptions {
  std::vector<std::string> names;
  std::vector<std::string> models = {"llama3-8b", "gpt3-6.7b"};
  int64_t bytes = int64_t{4} << 30;  // tensors are added up to this size
};
// Two works per layout, merge and split. A model without the tensors of a work is skipped (swiglu of a GPT).
// InvalidArgument: an unknown name or model.
absl::StatusOr<std::vector<CopyWork>> make_copy_works(const CopyWorkOptions& options);

}  // namespace scalai::executor::bench
