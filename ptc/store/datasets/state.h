#pragma once
// Position of a job in its dataset, and the samples of each of its steps. Nothing depends on dp or on history: the
// state determines everything that follows. Values and pure functions; any thread may call them.
//
// A pass reads the positions 0 … n − 1 of its order (order.h). A step reads the batch of positions [c, min(c + B, n)),
// with c the consumed positions of the pass and B the global batch. So a pass has ceil(n / B) steps, the last one
// short. With drop_last it has floor(n / B) steps, and no step reads the positions at its end. Steps are numbered
// through all passes.
// Another global batch from step s on is a new state: the state at s with the new B. Step s then
// starts at the end of step s − 1, the numbering continues, and later passes have the steps of the new B. With
// drop_last, whole batches are counted from the start of the new B; if none is left, the pass ends there for good.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::datasets {

inline constexpr int kStateSchemaVersion = 1;
// Limit of all numbers in a state; sums and products of closed forms then stay far inside 128 bits.
inline constexpr int64_t kMostInState = int64_t{1} << 52;

struct State {
  std::string index;     // digest of the index; "" without an index (numbered samples without bytes)
  int64_t samples = 0;   // of a pass
  int64_t sequence = 0;  // tokens of a window; 0: a sample is a document
  uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
  int64_t global_batch = 1;  // samples of a step
  int64_t step = 0;          // the next step
  int64_t pass = 0;          // the pass of that step …
  int64_t consumed = 0;      // … and its first position
  friend bool operator==(const State&, const State&) = default;
};

// All problems, one a line, as "/consumed: …" (InvalidArgument). OK: Steps accepts the state.
absl::Status validate(const State& state);

// State as one line of JSON with "schema_version", and the strict inverse. InvalidArgument lists all problems with JSON
// pointers: unknown, missing or doubled keys, wrong types, another schema version, problems of validate().
std::string state_text(const State& state);
absl::StatusOr<State> parse_state(std::string_view text);

// Positions [begin, begin + size) of `pass`, read by one step.
struct Batch {
  int64_t pass = 0;
  int64_t begin = 0;
  int64_t size = 0;
  friend bool operator==(const Batch&, const Batch&) = default;
};

// All steps from a state on, in closed form. A value; keeps a copy of the state.
class Steps {
 public:
  explicit Steps(const State& first);  // CHECK: validate(first)

  const State& first() const { return first_; }
  // The state before `step`, which is the state after the earlier steps. A pass without a step left has become the next
  // pass at 0. CHECK here and below: `step` in [first().step, kMostInState].
  State at(int64_t step) const;
  Batch batch(int64_t step) const;
  // The inverse of at(): the step that starts at position `consumed` of `pass`. InvalidArgument: no step from first()
  // on starts there.
  absl::StatusOr<int64_t> step_of(int64_t pass, int64_t consumed) const;
  // The first step of the pass after that of `step`.
  int64_t pass_end(int64_t step) const;
  // End of the positions that the pass of `step` reads: all samples, or fewer with drop_last.
  int64_t positions_end(int64_t step) const;
  // Number of samples that the steps in [first().step, step) read; 2^63 − 1 if larger.
  int64_t samples_before(int64_t step) const;

 private:
  State first_;               // normalized: its pass has a step left
  int64_t first_pass_steps_;  // from first_ to the end of its pass
  int64_t steps_per_pass_;    // of later passes
  int64_t samples_per_pass_;  // read in each later pass
};

}  // namespace scalai::datasets
