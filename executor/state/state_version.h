#pragma once
// StateVersion: the part of a VersionKey (directory.h) that tells several states of one job apart. One number stands
// for it in the messages of control.proto and in the directory of a segment: the wire number.
//
//   kind           | who holds it    | wire number
//   staged state   | hosts' memories | −2
//   epoch E        | devices         | E, from 0
//   initial state  | hosts' memories | 2^40
//   snapshot T     | hosts' memories | 2^40 + T, from T = 1
//   live state N   | both            | 2^60 + N, from 0
//
// Epochs never come near 2^40, nor snapshots 2^60, so the ranges do not meet. No other number is a version: from_wire()
// refuses it.
//
// A value; any thread.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {

class StateVersion {
 public:
  // The state of a job's epoch (collection::Collection::epoch). CHECK: 0 <= epoch < 2^40.
  static constexpr StateVersion epoch(int64_t epoch) {
    SCALAI_CHECK(0 <= epoch && epoch < kInitial, std::to_string(epoch));
    return StateVersion(epoch);
  }
  // The copy made by the control loop's Background command with this tag. CHECK: 1 <= tag, 2^40 + tag < 2^60.
  static constexpr StateVersion snapshot(int64_t tag) {
    SCALAI_CHECK(1 <= tag && tag <= kLargestTag, std::to_string(tag));
    return StateVersion(kInitial + tag);
  }
  // The copy of the state with which the job began; control::kInitialState is its number in the control loop.
  static constexpr StateVersion initial() { return StateVersion(kInitial); }
  // The copy of the source state that a plan of a staged strategy reads. It lasts until the plan's commit.
  static constexpr StateVersion staged() { return StateVersion(kStaged); }

  // A copy of the live state for readers outside of the run (executor/live). No number comes twice in a run. CHECK:
  // 0 <= number, and 2^60 + number is an int64_t.
  static constexpr StateVersion live(int64_t number) {
    SCALAI_CHECK(0 <= number && number <= std::numeric_limits<int64_t>::max() - kLive, std::to_string(number));
    return StateVersion(kLive + number);
  }
  constexpr bool is_live() const { return number_ >= kLive; }

  // The inverse of wire(). InvalidArgument: the number is none of the table's; the text names it.
  static absl::StatusOr<StateVersion> from_wire(int64_t number);
  constexpr int64_t wire() const { return number_; }

  // "epoch 3", "snapshot 17", "initial state", "staged state", "live copy 4".
  std::string str() const;

  // The order of wire numbers.
  friend constexpr auto operator<=>(const StateVersion&, const StateVersion&) = default;

 private:
  static constexpr int64_t kStaged = -2;
  static constexpr int64_t kInitial = int64_t{1} << 40;
  static constexpr int64_t kLive = int64_t{1} << 60;
  static constexpr int64_t kLargestTag = kLive - kInitial - 1;
  constexpr explicit StateVersion(int64_t number) : number_(number) {}

  int64_t number_;
};

}  // namespace scalai::executor::state
