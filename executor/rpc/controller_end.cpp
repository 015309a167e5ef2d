#include "executor/rpc/controller_end.h"

namespace scalai::executor::rpc {

absl::Status first_error(const std::vector<absl::StatusOr<Reply>>& outcomes) {
  absl::Status first;
  for (const absl::StatusOr<Reply>& outcome : outcomes) {
    const absl::Status& status = outcome.ok() ? outcome->status : outcome.status();
    if (!outcome.ok() && absl::IsUnavailable(status)) return status;
    // A cancelled call says only that another one failed.
    if (!status.ok() && (first.ok() || absl::IsCancelled(first))) first = status;
  }
  return first;
}

}  // namespace scalai::executor::rpc
