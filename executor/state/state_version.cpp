#include "executor/state/state_version.h"

#include <fmt/format.h>

namespace scalai::executor::state {

absl::StatusOr<StateVersion> StateVersion::from_wire(int64_t number) {
  if (number >= 0 || number == kStaged) return StateVersion(number);
  return invalid(fmt::format(
      "{} is no state version: neither epoch, snapshot, initial state, staged state nor live copy", number));
}

std::string StateVersion::str() const {
  if (number_ == kStaged) return "staged state";
  if (number_ < kInitial) return fmt::format("epoch {}", number_);
  if (is_live()) return fmt::format("live copy {}", number_ - kLive);
  return number_ == kInitial ? "initial state" : fmt::format("snapshot {}", number_ - kInitial);
}

}  // namespace scalai::executor::state
