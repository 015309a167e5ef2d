#pragma once
// The ledger of one job's dataset: which steps were done, what was read for them, and what had to be read again after a
// rollback. It proves that in committed history every position of every pass is read exactly once:
//
//   done ──► awaited ◄── account: each data-parallel rank's sum against our own reckoning, in global order
//   roll_back ──► steps after it are no history any more: what was read for them is read again
//
// History is one unbroken run of steps by construction, each step's batch is reckoned here by walking from the step
// before it, and every account of it has to fit; so the proof does not rest on how ranks find their samples
// (ptc/store/datasets/share.h). Of each sample the order's inverse has to lead back to its position, so no two
// positions have one sample. Samples whose ids no reader told are not proved, and then nothing is said of "exactly
// once". What is proved are the ids; that an id stands for the right bytes is up to the checksums of the index
// (ptc/store/datasets/index.h) and of the records.
// Without `reads` nobody reads: steps are only counted, in closed form.
//
// One thread.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/run/control/events.h"
#include "ptc/store/datasets/order.h"
#include "ptc/store/datasets/state.h"

namespace scalai::control {

// What the report says of it.
struct DatasetRecord {
  int64_t samples = 0;                         // of the dataset
  int64_t pass = 0;                            // that the next step reads, from 0
  int64_t consumed = 0;                        // positions of it that are behind
  std::optional<int64_t> samples_read;         // in all, those read again included; nothing: nobody reads
  std::optional<int64_t> bytes_read;           // of them
  int64_t steps_again = 0, samples_again = 0;  // read once more after rollbacks
  int64_t samples_assumed = 0;                 // in committed history: no reader told their ids
  std::optional<bool> exactly_once;  // every position up to the last step, in committed history; nothing: not known
};

class SampleLedger {
 public:
  // `state` is that before step 0.
  SampleLedger(const datasets::State& state, bool reads);

  // Up to this step, which is not before the last one (CHECK), all is done with so many data-parallel ranks.
  void done(int64_t until_step, int dp);
  // The job goes on from this step, which has been reached (CHECK).
  void roll_back(int64_t step);
  // Accounts come in the order of done(). DataLoss: they do not fit; names steps, ranks, and counts expected and found.
  // Afterwards nothing is awaited any more and the proof has failed.
  absl::Status account(const SamplesRead& read);

  // Steps that are done and not accounted for; nothing is awaited after an account that did not fit.
  bool awaits() const { return !awaited_.empty(); }
  // "steps 5 to 9": the first that are awaited.
  std::string first_awaited() const;
  // In the first so many steps.
  int64_t samples_before(int64_t step) const;
  // As it is after so many steps; steps that were not told to be done have not been read.
  DatasetRecord record(int64_t step) const;

 private:
  struct Awaited {
    int64_t from_step, until_step;
    int dp;
  };
  // Where a step begins: of our own walk.
  struct Place {
    int64_t step = 0, pass = 0, position = 0;
  };
  int64_t batch_at(const Place& place) const;
  void walk(Place& place, int64_t step) const;
  absl::StatusOr<std::vector<datasets::SampleAccount>> reckon(const Awaited& steps);
  absl::Status compare(const SamplesRead& read);

  const datasets::State state_;
  const datasets::Steps steps_;
  const datasets::Order order_;
  const bool reads_;
  int64_t next_step_ = 0;
  std::deque<Awaited> awaited_;
  std::vector<Place> places_ = {{}};    // where accounts began, rising
  std::map<int64_t, int64_t> assumed_;  // samples, by the step where their account began
  bool broken_ = false;
  int64_t samples_read_ = 0, bytes_read_ = 0, steps_again_ = 0, samples_again_ = 0;
};

}  // namespace scalai::control
