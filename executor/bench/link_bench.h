#pragma once
// Measures NCCL between the GPUs of this process, each a rank: every rank sends to the next one and receives from the
// previous one (with one GPU, from itself). One thread.
//
//   nccl            one large dense message, a send and a receive in one group: the yardstick of the others
//   nccl dense      the same message through a Channel, in chunks, in place; a row for each size of chunks
//   nccl strided    columns of a matrix through a Channel: packed, sent, unpacked; the same

#include <vector>

#include "absl/status/statusor.h"
#include "executor/bench/measurement.h"
#include "executor/device/backend.h"
#include "executor/nccl/nccl_api.h"

namespace scalai::executor::bench {

struct LinkOptions {
  int ranks = 1;  // devices 0 … ranks − 1 of the back end, each on a GPU of its own
  int64_t bytes = int64_t{1} << 30;
  std::vector<int64_t> chunk_bytes = {int64_t{4} << 20, int64_t{16} << 20, int64_t{32} << 20, int64_t{64} << 20};
  int repetitions = 5;  // after one uncounted warm-up
};
// Errors: those of NCCL and of the back end. A row's `errors`: elements that arrived wrong.
absl::StatusOr<std::vector<Measurement>> measure_links(device::Backend& backend, const nccl::NcclApi& api,
                                                       const LinkOptions& options);

}  // namespace scalai::executor::bench
