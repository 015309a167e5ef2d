#include "executor/live/holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ptc/base/status.h"

namespace scalai::executor::live {
namespace {

constexpr double kPause_s = 0.02;

bool is_busy(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsAborted(status);
}

}  // namespace

absl::Status ask_holders(size_t holders, const std::function<absl::Status(size_t)>& fetch,
                         const std::function<void(double)>& pause) {
  std::vector<size_t> left(holders);
  std::iota(left.begin(), left.end(), size_t{0});
  absl::Status last = absl::NotFoundError("there are none"), silent, failed;
  for (int asked = 0; asked < kAskedMost && !left.empty(); ++asked) {
    if (asked > 0) pause(kPause_s);
    silent = absl::OkStatus();
    std::vector<size_t> busy;
    for (const size_t holder : left) {
      last = fetch(holder);
      if (last.ok()) return last;
      if (is_busy(last)) busy.push_back(holder);
      if (absl::IsDeadlineExceeded(last) || absl::IsAborted(last)) silent = last;
      if (!is_busy(last) && !absl::IsNotFound(last)) failed = last;
    }
    left = std::move(busy);
  }
  // Silence is no proof that it is gone.
  if (!left.empty() && !silent.ok())
    return absl::UnavailableError(fmt::format("a holder does not answer: {}", message_of(silent)));
  if (!failed.ok()) return failed;
  return absl::FailedPreconditionError(
      fmt::format("none of {} holders has it any more: {}", holders, message_of(last)));
}

}  // namespace scalai::executor::live
