#pragma once
// One job as the control loop sees it: what it is to have, what it holds, how far it has trained, and what is under
// way. Arithmetic on that state lives here; decisions live in the classes that act on jobs. Private to ptc/run/control.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptc/cost/change/bulk_flows.h"
#include "ptc/run/control/internal/time_account.h"
#include "ptc/run/control/records.h"
#include "ptc/run/control/sample_ledger.h"
#include "ptc/run/control/training.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/state/collection/collection.h"

namespace scalai::control {

// A complete job state somewhere: live on devices, or a snapshot of an earlier step. `gone` are devices that have
// failed since, so that what they held is lost even after they are repaired.
struct Holding {
  int64_t step = 0;
  std::shared_ptr<const collection::Collection> collection;
  std::set<DeviceId> gone;
  double made_s = 0;
  SnapshotId snapshot = kLiveState;
  SharedCopies copies;           // redundant ones, on hosts that have kept their memory since
  int survives_host_losses = 0;  // redundant copies: when they were made
  double written_s = 0;          // training from its step until it counted
};

struct Target {
  std::shared_ptr<const scenario::ParallelChoice> choice;
  std::vector<DeviceId> devices;
};

struct Underway {
  ReconfigurationRecord record;
  Target target;
  std::shared_ptr<const collection::Collection> collection;  // of the new epoch
  SnapshotId source = kLiveState;                            // the copy that the attempt under way reads
  double attempt_s = 0;                                      // when the attempt under way began
  std::set<DeviceId> unread = {};                            // old devices that the attempt does without
  std::optional<int> rounds_done = std::nullopt;             // of the attempt; nothing: its transfer has not begun
  bool torn = false;  // the attempt has given up old state, under a memory cap: only its end makes the job whole
};

enum class Mode { kWaiting, kTraining, kStopping, kReconfiguring, kComplete, kFailed, kStopped, kRefused };

// What the job is to have from now on by the policy, whoever is on the devices still.
struct PolicyGrant {
  std::vector<DeviceId> devices;
  std::string why;
  double at_s = 0;               // when the grant last changed
  std::optional<int> gpu_limit;  // a user wants the job to use no more of them
};

struct Wanted {
  int gpus = 0;
  std::vector<DeviceId> devices;  // exactly these, in rank order; empty = the control loop chooses
};

struct Request {
  std::string cause;
  double cause_s = 0;
  double failed_s = -1;                                // failure behind the cause; < 0 = a planned change
  std::optional<FailureMoment> failed = std::nullopt;  // of a loss while the job trained
  bool forced = false;                                 // reconfigure even when the target equals what the job has
  std::optional<double> leaves_s = std::nullopt;       // until then it trains on devices that will be taken
  std::string leaves_for = {};                         // the cause, of the change then
  bool again = false;                                  // look again once the reconfiguration under way is committed
};

struct Copies {
  std::optional<Holding> checkpoint, redundant;
  std::map<int64_t, std::pair<bool, Holding>> in_flight;  // by Background tag; true = checkpoint, false = redundancy
  bool asked = false;                                     // a checkpoint at the next step boundary
  std::optional<int64_t> last;                            // Background tag of the last one, once the run is to end
  std::optional<int64_t> evacuation;                      // of the copies made before devices are taken
  std::optional<int64_t> before_change;                   // of the one that a planned change waits for
};

struct Accounts {
  JobRecord record;
  ScheduleRecord schedule;
  TimeAccount time;
  double held_s = 0;  // time with devices, until allocated_since_s
  double allocated_since_s = 0;
  double usd_per_h = 0;     // of the devices since then
  double span_since_s = 0;  // end of the last span
};

struct Job {
  int index = 0;
  const scenario::JobSpec* spec = nullptr;
  Mode mode = Mode::kWaiting;
  bool submitted = false;  // before that nothing is done about it

  PolicyGrant grant;
  Wanted wanted;
  Request request;

  std::vector<DeviceId> devices;  // allocated, in rank order
  std::shared_ptr<const scenario::ParallelChoice> choice;
  Holding state;  // the committed epoch
  Copies copies;
  Training training;
  std::optional<Underway> underway;
  std::optional<SampleLedger> ledger;  // of its dataset, if it has one
  Accounts accounts;

  // Of the state it began with, while that one counts as a copy: what hosts' memories keep (Train::initial_copies).
  std::optional<std::vector<collection::ExtraHolder>> initial_copies() const;
  bool moves() const { return mode == Mode::kTraining || mode == Mode::kStopping; }
  bool over() const {
    return mode == Mode::kComplete || mode == Mode::kFailed || mode == Mode::kStopped || mode == Mode::kRefused;
  }
};

// Where the job is. One that waits without devices would best go back to where its state was.
const std::vector<DeviceId>& own_devices(const Job& job);

// Ends the stretch of the job's time that is under way at `at_s`, with `steps` done since the last Train command.
void account(const Job& job, int64_t steps, double at_s, TimeAccount& time);

using change::load_flows;
using change::stage_flows;
using change::state_bytes_of_ranks;

// A checkpoint: each distinct box goes once, from its first live holder to storage.
std::vector<BulkFlow> checkpoint_flows(const collection::Collection& collection);

}  // namespace scalai::control
