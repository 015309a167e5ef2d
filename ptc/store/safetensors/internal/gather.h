#pragma once
// From a box as it lies in a file (dense, row-major) into a box as it lies in memory (likewise): the common part as
// runs of neighbouring bytes, and the reads for them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "ptc/state/tensor/box.h"
#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {

struct Run {
  int64_t src = 0;  // elements from the first of the stored box
  int64_t dst = 0;  // elements from the first of the wanted box
};
struct Runs {
  int64_t elements = 0;  // of each run; the longest that is one piece in both
  int64_t count = 0;
};

// The runs of `common`, which lies in both and is not empty (CHECK), by rising src and dst.
Runs runs_of(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common);
Run first_run_of(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common);
absl::Status for_each_run(const tensor::Box& stored, const tensor::Box& wanted, const tensor::Box& common,
                          const std::function<absl::Status(const Run&)>& visit);

// Reads `common` from `tensor`, which holds the box `stored`, into `dst`, which holds `wanted`. Long or far runs are
// read one by one, short ones that are near by blocks.
absl::Status read_common(const SafetensorsFile& file, const StoredTensor& tensor, const tensor::Box& stored,
                         const tensor::Box& wanted, const tensor::Box& common, std::span<std::byte> dst);

}  // namespace scalai::store
