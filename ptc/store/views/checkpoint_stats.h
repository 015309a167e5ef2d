#pragma once
// Statistics of a checkpoint's tensors, whatever its layout, and how they differ from another checkpoint's, whatever
// its:
//
//   tensors ─► chunks of 1 Mi elements ─► threads: read, stats_of, change_of ─► added up in the order of the chunks
//
// The same digits for any layout and number of threads. Reads what it looks at once, of replicas the first.

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/tensor/element_stats.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::store {

struct TensorStats {
  size_t tensor = 0;  // in Checkpoint::tensors()
  tensor::ElementStats elements;
  // Since the other checkpoint; absent: there is none, or it has no tensor of this name and shape.
  std::optional<tensor::ElementChange> change;
};

struct StatsOptions {
  const Checkpoint* since = nullptr;
  int threads = 1;
  std::function<void(int64_t bytes_done, int64_t bytes_total)> progress;  // from any thread, one at a time
};

// Of these tensors, in their order. Errors are those of Checkpoint::read and Checkpoint::confirm.
absl::StatusOr<std::vector<TensorStats>> stats_of(const Checkpoint& checkpoint, const std::vector<size_t>& tensors,
                                                  const StatsOptions& options);

}  // namespace scalai::store
