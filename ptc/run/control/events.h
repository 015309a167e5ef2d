#pragma once
// The alphabet of the control loop: step(Event) → [Command]. Events are facts that a runtime reports, with the scenario
// time at which they became known; commands are what the control loop asks a runtime to do. Both are plain data, so
// that the log of events of any run can be fed through the control loop again (scalai replay).

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ptc/base/ids.h"
#include "ptc/cost/change/stages.h"
#include "ptc/plan/plan.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/store/datasets/account.h"

namespace scalai::control {

using change::BulkFlow;
using change::PhaseSeconds;

// ---- events ---------------------------------------------------------------------------------------------------------
struct Started {};  // time 0; the first event of every run
struct StepReached {
  int job = 0;
  int64_t step = 0;
};  // a Train command came to its end
struct RoundDone {
  int job = 0;
  int round = 0;
};  // 0: the transfer phase begins; r: its r-th round is done
struct ExecutionDone {
  int job = 0;
  PhaseSeconds phases;
};  // of the plan under way; detect and aborted are 0 here
struct BackgroundDone {
  int job = 0;
  int64_t tag = 0;
};  // a Background command's flows have all arrived
struct TimerFired {
  int64_t timer = 0;
};
struct DevicesLost {
  std::vector<DeviceId> devices;
  double failed_at_s = 0;
  bool usable = false;     // only what they held is lost: jobs may use them again at once
  std::string cause = {};  // in words (as_cell), for people only; empty: not known, as of every simulated loss
};
struct UserResize {
  int job = 0;
  int gpus = 0;
};  // a live request, outside the scenario's script, like the two that follow
struct UserDrain {
  std::vector<DeviceId> devices;
  std::optional<double> notice_s = std::nullopt;  // so long after the request they are taken
};  // jobs leave these at their next step boundary; they are not used again until they are repaired
struct UserStop {
  std::optional<double> notice_s = std::nullopt;  // so long after the request all is over
};  // every job writes a checkpoint at its next step boundary, then the run is over
struct UserSave {
  int job = 0;
};  // a live request: a checkpoint of the job at its next step boundary
struct SamplesRead {
  int job = 0;
  int64_t from_step = 0, step = 0;                // of the steps [from_step, step)
  std::vector<datasets::SampleAccount> accounts;  // by data-parallel rank
  int64_t bytes = 0;                              // that were read for them
  int64_t assumed = 0;  // samples whose ids no reader told; the accounts have those of its share
};                      // a Read command came to its end
// What a policy that is a program answered to the event before this one: written by the control loop itself, never
// given to it. Read again by policy_text.h.
struct PolicyDecided {
  std::string decision;
};

// A copy came to nothing (its Background command failed), or cannot be read: nobody goes back to it. `tag` as
// SnapshotId.
struct CopyLost {
  int job = 0;
  int64_t tag = 0;
};

using EventBody = std::variant<Started, StepReached, RoundDone, ExecutionDone, BackgroundDone, TimerFired, DevicesLost,
                               UserResize, UserDrain, UserStop, SamplesRead, PolicyDecided, CopyLost, UserSave>;
struct Event {
  double at_s = 0;
  EventBody body;
};

// ---- commands -------------------------------------------------------------------------------------------------------
// Steps run one after another from `start_s`: step from_step + k is done at start_s + k · step_s. Ends with StepReached
// at until_step. A new Train for the same job replaces the old one.
struct Train {
  int job = 0;
  double start_s = 0;
  int64_t from_step = 0;
  int64_t until_step = 0;
  double step_s = 0;
  std::vector<DeviceId> devices;
  std::shared_ptr<const collection::Collection> collection;  // the state that is trained
  // Of state that is made for this command: a copy of it in hosts' memories, too (kInitialState), with these boxes on
  // other hosts.
  std::optional<std::vector<collection::ExtraHolder>> initial_copies = std::nullopt;
};
struct Halt {
  int job = 0;
};  // stop now; the step under way is lost
// These steps are done: what each data-parallel rank read in them is read now, where the runtime reads samples. Ends
// with SamplesRead, those of one job in the order of the commands.
struct Read {
  int job = 0;
  int64_t from_step = 0, until_step = 0;
  std::shared_ptr<const collection::Collection> collection;  // the state that was trained: who was which rank
};

// Which copy of a job's state: 0 the live one, kInitialState the one it began with (its checkpoint of step 0), else the
// one that the Background command with this tag has made.
using SnapshotId = int64_t;
inline constexpr SnapshotId kLiveState = 0, kInitialState = -1;

// Runs a plan through its phases: stage → plan → restart → rounds → verify → load and resume; reports RoundDone and, at
// the end, ExecutionDone. How long the stages take in scenario time: ptc/cost/change/stages.h.
struct Execute {
  int job = 0;
  int64_t epoch = 0;
  int reconfiguration = 0;                                 // the job's k-th, from 1
  std::optional<plan::Plan> plan;                          // always there in a command of the control loop
  std::shared_ptr<const collection::Collection> from, to;  // the plan's two sides
  std::set<DeviceId> gone;                                 // old devices that hold nothing any more
  std::vector<collection::ExtraHolder> extra;              // redundant copies that still live
  SnapshotId snapshot = kLiveState;                        // which copy `from` is
  int64_t step = 0;                                        // that it is of: the job goes on from here
  std::vector<BulkFlow> stage, load;                       // strategies that go through host memory
  bool upload = false;   // pulled state is written into the target host's memory first
  HostId hub;            // valid: all state is staged on this host, and pulled and uploaded on its target_hub()
  bool restore = false;  // kept state comes back from the host-memory copy (rollback)
  change::Costs costs;
  std::optional<std::vector<collection::ExtraHolder>> initial_copies = std::nullopt;  // as those of Train
};
struct Abort {
  int job = 0;
};  // give up the plan under way; what arrived is discarded
struct Commit {
  int job = 0;
  int64_t epoch = 0;
};  // the new epoch holds; the old one may be freed
// Redundant copies, shared by all that know them, because a big job has millions; null: none.
using SharedCopies = std::shared_ptr<const std::vector<collection::ExtraHolder>>;
inline std::span<const collection::ExtraHolder> list_of(const SharedCopies& copies) {
  return copies ? std::span<const collection::ExtraHolder>(*copies) : std::span<const collection::ExtraHolder>();
}

struct Background {
  int job = 0;
  int64_t tag = 0;
  std::string what;  // "checkpoint", "redundancy"
  std::vector<BulkFlow> flows;
  std::shared_ptr<const collection::Collection> collection;  // what is copied, as it is at this step
  int64_t step = 0;
  bool host_copy = false;  // a copy of each device's part stays in its host's memory
  SharedCopies copies;     // redundancy: boxes for other hosts' memory
};
struct Forget {
  int job = 0;
  SnapshotId snapshot = kInitialState;
};  // nobody goes back to this copy any more: another one counts now, or it never came to count
struct ArmTimer {
  int64_t timer = 0;
  double at_s = 0;
};
struct Inject {
  scenario::What what;
  double detect_s = 0;
};               // make it physically so: Fail, Repair or Degrade
struct Stop {};  // the scenario is over

using Command = std::variant<Train, Halt, Read, Execute, Abort, Commit, Background, Forget, ArmTimer, Inject, Stop>;

}  // namespace scalai::control
