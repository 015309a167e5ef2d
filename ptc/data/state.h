#pragma once
// Where a job stands in its dataset, and which samples each of its steps reads. None of it depends on dp or on history:
// whoever has the state knows all that comes. Values; pure functions.
//
// A pass reads the positions 0 … n − 1 of its order (order.h). A step reads the batch of positions [c, min(c + B, n)),
// c being what the pass has consumed and B the global batch. So a pass has ceil(n / B) steps, the last one short; with
// drop_last it has floor(n / B), and the positions at its end are read by none. Steps are numbered through all passes.
// Another global batch from step s on is a new state: the one at s, with the new B (with_global_batch). Step s then
// reads from where step s − 1 ended, numbering goes on, and later passes have the steps that the new B gives them. With
// drop_last, whole batches are counted from where the new B begins; when none is left the pass ends there, for good.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::data {

inline constexpr int kStateSchemaVersion = 1;
// No number in a state is larger; sums and products of closed forms then stay far inside 128 bits.
inline constexpr int64_t kMostInState = int64_t{1} << 52;

struct State {
  std::string index;     // digest of the index; "" when there is none (numbered samples without bytes)
  int64_t samples = 0;   // of a pass
  int64_t sequence = 0;  // tokens of a window; 0: a sample is a document
  uint64_t seed = 0;
  bool shuffle = true;
  bool drop_last = false;
  int64_t global_batch = 1;  // samples of a step
  int64_t step = 0;          // the next one to be run
  int64_t pass = 0;          // that step reads it …
  int64_t consumed = 0;      // … from this position on
  friend bool operator==(const State&, const State&) = default;
};

// All problems, one a line, as "/consumed: …". OK: Steps may be made of it.
absl::Status validate(const State& state);

// One line of JSON with "schema_version", and strictly back: InvalidArgument lists all problems with JSON pointers
// (unknown, missing or doubled keys, wrong types, another schema version, what validate() says).
std::string state_text(const State& state);
absl::StatusOr<State> parse_state(std::string_view text);

// The state at the same step with another global batch (≥ 1, CHECK).
State with_global_batch(State state, int64_t global_batch);

// What a step reads: positions [begin, begin + size) of `pass`.
struct Batch {
  int64_t pass = 0;
  int64_t begin = 0;
  int64_t size = 0;
  friend bool operator==(const Batch&, const Batch&) = default;
};

// The steps from a state on, all in closed form.
class Steps {
 public:
  explicit Steps(const State& first);  // valid (CHECK)

  const State& first() const { return first_; }
  // The state before `step` in [first().step, kMostInState] (CHECK), which is the one after the steps before it. A pass
  // without a step left has become the next pass at 0.
  State at(int64_t step) const;
  Batch batch(int64_t step) const;
  // The step before which the pass has consumed this much: the inverse of at(). InvalidArgument: no step from first()
  // on begins there.
  absl::StatusOr<int64_t> step_of(int64_t pass, int64_t consumed) const;
  // The first step that reads a later pass than `step` does.
  int64_t pass_end(int64_t step) const;
  // The position behind the last one that the pass of `step` reads: samples, or less with drop_last.
  int64_t positions_end(int64_t step) const;
  // Samples that the steps in [first().step, step) read; 2^63 − 1 when there are more.
  int64_t samples_before(int64_t step) const;

 private:
  State first_;               // in its normal form: a step of its pass is left
  int64_t first_pass_steps_;  // from first_ to the end of its pass
  int64_t steps_per_pass_;    // of later ones
  int64_t samples_per_pass_;  // that are read, of later ones
};

}  // namespace scalai::data
