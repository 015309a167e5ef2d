#include "sim/jobs/recovery/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "ptc/base/status.h"
#include "sim/jobs/recovery/internal/event_heap.h"
#include "sim/jobs/recovery/internal/phases.h"
#include "sim/jobs/recovery/internal/replay_books.h"

namespace scalai::sched {
namespace {

constexpr double kMsPerHour = 3'600'000;
constexpr int64_t kNoThroughputMs = 1'000'000'000'000;  // a step that never ends, as the artifact has it

// The order of the kinds decides between events of one instant.
enum class Kind : uint8_t {
  kAdd = 1,
  kRemove,
  kReady = 4,
  kGlobalRendezvous,
  kLocalRendezvous,
  kStepDone,
  kCheckpointDone
};

struct Event {
  int64_t at_ms = 0;
  Kind kind = Kind::kAdd;
  int64_t data = 0;  // host, or version of the rendezvous that started the step
  bool operator<(const Event& other) const { return at_ms != other.at_ms ? at_ms < other.at_ms : kind < other.kind; }
};

enum class Status : uint8_t { kStopped, kRendezvous, kRunning };

struct Coordinate {
  int pipeline = 0;
  int stage = 0;
  friend bool operator==(const Coordinate&, const Coordinate&) = default;
};

struct Host {
  int id = 0;
  enum class State : uint8_t { kCreating, kReady, kRunning } state = State::kCreating;
  std::vector<Coordinate> coordinates;  // its own, and a lost neighbour's
  bool in_step = false;                 // the steps' throughput counts it
  bool usable() const { return state != State::kCreating; }
};

struct Step {
  double from_h = 0;
  double to_h = 0;
  recovery_internal::StepTime nominal;
};

class Replay {
 public:
  explicit Replay(const RecoverySetup& setup) : setup_(setup) {}

  absl::StatusOr<RecoveryResult> run() {
    load();
    if (heap_.empty()) return invalid("recovery: the host trace has no events; it must say when hosts come");
    const int64_t last_ms = heap_.array().back().at_ms;
    const int64_t until_ms = setup_.until_s > 0 ? ms(setup_.until_s) : std::numeric_limits<int64_t>::max();
    while (!heap_.empty()) {
      const Event event = heap_.pop();
      if (event.at_ms >= last_ms || event.at_ms > until_ms) break;
      books_.book(event.at_ms, live());
      now_ms_ = event.at_ms;
      handle(event);
      if (heap_.empty() || heap_.array().front().at_ms != now_ms_) note_hosts();
    }
    return finish();
  }

 private:
  bool redundancy() const { return setup_.design == RecoveryDesign::kRedundancy; }
  bool varuna() const { return setup_.design == RecoveryDesign::kCheckpointRestart; }
  int live() const { return static_cast<int>(hosts_.size()); }
  static int64_t ms(double seconds) { return std::llround(seconds * 1000); }

  void load() {
    const Availability& trace = *setup_.availability;
    for (size_t host = 0; host < trace.up.size(); ++host) {
      if (trace.up[host]) heap_.append({0, Kind::kAdd, static_cast<int64_t>(host)});
    }
    if (trace.up.empty()) {
      for (int host = 0; host < setup_.hosts; ++host) heap_.append({0, Kind::kAdd, host});
    }
    for (const FleetEvent& event : trace.events) {
      const bool goes = event.kind == FleetEvent::Kind::kTaken || event.kind == FleetEvent::Kind::kFailed;
      if (!goes && event.kind != FleetEvent::Kind::kUp) continue;
      for (const HostId host : event.hosts) {
        heap_.append({ms(event.at_s), goes ? Kind::kRemove : Kind::kAdd, host.value});
      }
    }
    heap_.heapify();
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case Kind::kAdd: return host_comes(static_cast<int>(event.data));
      case Kind::kRemove: return host_goes(static_cast<int>(event.data));
      case Kind::kReady: return host_ready(static_cast<int>(event.data));
      case Kind::kGlobalRendezvous: return rendezvous_ends(true);
      case Kind::kLocalRendezvous: return rendezvous_ends(false);
      case Kind::kStepDone: return step_done(event.data);
      case Kind::kCheckpointDone: return;
    }
  }

  Host* find(int id) {
    for (Host& host : hosts_) {
      if (host.id == id) return &host;
    }
    return nullptr;
  }

  void host_comes(int id) {
    if (find(id) != nullptr) return;
    hosts_.push_back({.id = id, .state = Host::State::kCreating, .coordinates = {}});
    heap_.push({now_ms_ + ms(setup_.costs.host_ready_s), Kind::kReady, id});
  }

  void host_ready(int id) {
    Host* host = find(id);
    if (host == nullptr) return;  // gone before it was ready
    host->state = Host::State::kReady;
    if (status_ == Status::kStopped) return start_rendezvous(true);
    if (status_ == Status::kRendezvous) meeting_.push_back(id);
    if (status_ == Status::kRunning) ++waiting_;
  }

  void host_goes(int id) {
    const auto found = std::find_if(hosts_.begin(), hosts_.end(), [id](const Host& h) { return h.id == id; });
    if (found == hosts_.end()) return;
    const Host gone = std::move(*found);
    hosts_.erase(found);
    ++result_.losses;
    if (gone.in_step) --books_.used;
    if (!redundancy()) {
      if (varuna()) roll_back();
      return fatal();
    }
    if (gone.state == Host::State::kRunning && !fall_back(gone)) return fatal();
    if (status_ == Status::kRunning && !fallback_pending_) {
      fallback_pending_ = true;
      fallback_handled_ = false;
      fallback_step_ = steps_;
      fallback_at_ms_ = now_ms_;
      step_ms_ = static_cast<int64_t>(static_cast<double>(step_ms_) * setup_.fallback_slowdown);
    }
  }

  // The previous stage's host holds what the lost one had, unless it already stands in for another.
  bool fall_back(const Host& gone) {
    if (gone.coordinates.size() > 1) return false;
    const Coordinate lost = gone.coordinates.front();
    const Coordinate before{lost.pipeline, lost.stage == 0 ? stages_ - 1 : lost.stage - 1};
    for (Host& host : hosts_) {
      if (std::find(host.coordinates.begin(), host.coordinates.end(), before) == host.coordinates.end()) continue;
      if (host.coordinates.size() > 1) return false;
      host.coordinates.push_back(lost);
      return true;
    }
    return true;
  }

  void roll_back() {
    removed_ = true;
    if (!setup_.checkpoints.rolls_back) return;
    if (!has_checkpoint_) return (void)std::fill(kept_.begin(), kept_.end(), 0.0);
    size_t from = std::min(kept_.size(), track_.size());  // nothing ran since the checkpoint
    for (size_t i = 0; i < std::min(kept_.size(), track_.size()); ++i) {
      if (track_[i].from_h != checkpoint_h_ && track_[i].to_h != checkpoint_h_) continue;
      from = track_[i].from_h == checkpoint_h_ ? i : i + 1;
      break;
    }
    std::fill(kept_.begin() + static_cast<std::ptrdiff_t>(from), kept_.end(), 0.0);
  }

  void fatal() {
    ++result_.fatal;  // also one before the first start, as published
    start_rendezvous(true);
  }

  double change_cost(int lost) const {
    return setup_.costs.change_s({.from = used_, .to = static_cast<int>(hosts_.size()), .lost = lost});
  }

  void start_rendezvous(bool global) {
    if (start_ms_ >= 0) ++result_.restarts;  // not the first start
    if (status_ != Status::kRendezvous) rendezvous_from_ms_ = now_ms_;
    status_ = Status::kRendezvous;
    books_.meeting = true;
    meet();
    push_rendezvous(global);
  }

  void meet() {
    meeting_.clear();
    for (const Host& host : hosts_) {
      if (host.usable()) meeting_.push_back(host.id);
    }
  }

  void push_rendezvous(bool global) {
    double seconds = global && redundancy() ? setup_.costs.fatal_s : change_cost(global ? 1 : 0);
    if (varuna()) seconds -= setup_.checkpoints.write_s;
    heap_.push(
        {now_ms_ + std::max<int64_t>(0, ms(seconds)), global ? Kind::kGlobalRendezvous : Kind::kLocalRendezvous, 0});
    if (!books_.stepping && (phases_.empty() || phases_.back().samples_per_s > 0)) phase(0);
  }

  void rendezvous_ends(bool global) {
    for (const int id : meeting_) {
      if (find(id) != nullptr) continue;
      meet();
      return push_rendezvous(global);
    }
    cut_step();
    assign();
    fallback_pending_ = fallback_handled_ = false;
    ++version_;
    meeting_.clear();
    if (pipelines_ == 0) {
      status_ = Status::kStopped;
      return phase(0);
    }
    status_ = Status::kRunning;
    set_step_time();
    heap_.push({now_ms_ + step_ms_, Kind::kStepDone, version_});
    if (start_ms_ < 0) {
      start_ms_ = step_end_ms_ = now_ms_;
      books_.start();
    }
    books_.stepping = step_ms_ < kNoThroughputMs;
    phase(books_.stepping ? setup_.samples_per_step / (static_cast<double>(step_ms_) / 1000) : 0);
  }

  // The job went on until now; since its last step ended, for nothing.
  void cut_step() {
    const int64_t stands_ms = std::max(books_.step_from_ms(), rendezvous_from_ms_);
    if (books_.stepping && status_ == Status::kRendezvous && stands_ms < now_ms_) phase(0, stands_ms);
    books_.cut();
    books_.stepping = books_.meeting = false;
  }

  void assign() {
    const int present = static_cast<int>(meeting_.size());
    stages_ = present < setup_.stages ? 0 : setup_.stages;
    pipelines_ = stages_ == 0 ? 0 : present / stages_;
    waiting_ = 0;
    int next = 0;
    for (const int id : meeting_) {
      Host& host = *find(id);
      host.coordinates.clear();
      host.state = next < pipelines_ * stages_ ? Host::State::kRunning : Host::State::kReady;
      if (host.state == Host::State::kReady) {
        ++waiting_;
        continue;
      }
      host.coordinates.push_back({next / stages_, next % stages_});
      ++next;
    }
  }

  void set_step_time() {
    for (Host& host : hosts_) host.in_step = host.usable();
    used_ = static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.usable(); }));
    books_.used = used_;
    const double throughput = setup_.samples_per_s(used_);
    step_ms_ = throughput > 0 ? std::max<int64_t>(1, static_cast<int64_t>(setup_.samples_per_step / throughput * 1000))
                              : kNoThroughputMs;
  }

  void step_done(int64_t version) {
    if (version != version_) return;
    if (fallback_pending_ && !fallback_handled_ && fallback_step_ == steps_) {
      // The stage that stood in for the lost one redoes its part of this step.
      fallback_handled_ = books_.redoing = true;
      const double redo = static_cast<double>(now_ms_ - fallback_at_ms_) * (setup_.fallback_slowdown - 1.0);
      return heap_.push({now_ms_ + static_cast<int64_t>(redo), Kind::kStepDone, version});
    }
    ++steps_;
    record_step();
    int64_t end_ms = now_ms_;
    if (varuna() && (steps_ % std::max<int64_t>(1, setup_.checkpoints.every_steps) == 0 || removed_)) {
      end_ms = write_checkpoint();
    }
    step_end_ms_ = end_ms;
    if (redundancy() && should_rebalance()) {
      books_.stepping = false;
      return start_rendezvous(false);
    }
    heap_.push({end_ms + step_ms_, Kind::kStepDone, version_});
  }

  void record_step() {
    const int64_t took_ms = now_ms_ - step_end_ms_;
    track_.push_back({.from_h = static_cast<double>(step_end_ms_) / kMsPerHour,
                      .to_h = static_cast<double>(now_ms_) / kMsPerHour,
                      .nominal = books_.step_done()});
    kept_.push_back(took_ms == 0 ? 0 : setup_.samples_per_step / (static_cast<double>(took_ms) / 1000));
  }

  // Returns when training goes on.
  int64_t write_checkpoint() {
    removed_ = false;
    const int64_t write_ms = ms(setup_.checkpoints.write_s);
    const int64_t end_ms = now_ms_ + write_ms;
    books_.write_until(end_ms);
    // The published simulator adds the write time once to the step's end and once more to the event that ends it.
    heap_.push({end_ms + write_ms, Kind::kCheckpointDone, 0});
    heap_.heapify();
    if (!setup_.checkpoints.rolls_back || !removal_before_checkpoint()) {
      has_checkpoint_ = true;
      checkpoint_h_ = static_cast<double>(end_ms) / kMsPerHour;
      return end_ms;
    }
    const size_t period = static_cast<size_t>(std::max<int64_t>(1, setup_.checkpoints.every_steps));
    steps_ = std::max<int64_t>(0, steps_ - static_cast<int64_t>(period));
    // With fewer steps than a period behind it, the published list of rates grows past the steps it belongs to.
    if (kept_.size() < period) kept_.resize(period);
    std::fill(kept_.end() - static_cast<std::ptrdiff_t>(period), kept_.end(), 0.0);
    return end_ms;
  }

  bool removal_before_checkpoint() const {
    for (const Event& event : heap_.array()) {
      if (event.kind == Kind::kCheckpointDone) return false;
      if (event.kind == Kind::kRemove) return true;
    }
    return false;
  }

  // Bamboo's rule: waiting hosts can replace what doubled up, or more than 5 % of the pairs are at risk, or a pipeline
  // more fits.
  bool should_rebalance() const {
    int doubled = 0;
    for (const Host& host : hosts_) doubled += host.state == Host::State::kRunning && host.coordinates.size() > 1;
    if (doubled > 0 && waiting_ >= doubled) return true;
    const int active = pipelines_ * stages_ - doubled;
    if (doubled > 0 && 2.0 * doubled / active > 0.05) return true;
    return (active + waiting_) / setup_.stages > pipelines_;
  }

  void phase(double rate) { phase(rate, now_ms_); }
  void phase(double rate, int64_t from_ms) {
    recovery_internal::add_phase(phases_, {.from_s = static_cast<double>(from_ms) / 1000,
                                           .live = live(),
                                           .used = rate > 0 ? used_ : 0,
                                           .samples_per_s = rate});
  }

  void note_hosts() {
    const int live = static_cast<int>(hosts_.size());
    const double hour = static_cast<double>(now_ms_) / kMsPerHour;
    if (live_track_.empty()) {
      if (now_ms_ > 0) live_track_.push_back({0, live});
    } else if (live_track_.back().second != live) {
      live_track_.push_back({hour, live});
    }
  }

  RecoveryResult finish() {
    const double end_h = track_.empty() ? 0 : track_.back().to_h;
    const double start_h = start_ms_ < 0 ? 0 : static_cast<double>(start_ms_) / kMsPerHour;
    result_.from_s = start_h * 3600;
    result_.to_s = std::max(end_h, start_h) * 3600;
    result_.steps = steps_;
    const double host_hours = sum_hosts(end_h);
    if (end_h > 0) result_.mean_hosts = host_hours / end_h;
    const recovery_internal::HostTime& time = books_.settled();
    const double gpu_h = setup_.gpus_per_host / kMsPerHour;  // of a host's millisecond
    result_.lost_gpu_h = time.lost * gpu_h;
    result_.changing_gpu_h = time.changing * gpu_h;
    result_.checkpoint_gpu_h = time.checkpoint * gpu_h;
    result_.idle_gpu_h = time.idle * gpu_h;
    result_.usd = time.hosts / kMsPerHour * setup_.usd_per_host_hour;
    double kept_ms = 0;
    double rate_hours = 0;
    for (size_t i = 0; i < track_.size(); ++i) {
      const Step& step = track_[i];
      const bool kept = i < kept_.size() && kept_[i] > 0;
      rate_hours += i < kept_.size() ? (step.to_h - step.from_h) * kept_[i] : 0;
      kept_ms += kept ? static_cast<double>(step.nominal.ms) : 0;
      (kept ? result_.training_gpu_h : result_.lost_gpu_h) += step.nominal.used * gpu_h;
      result_.lost_samples += kept ? 0 : setup_.samples_per_step;
    }
    result_.samples = rate_hours * 3600;
    if (end_h > start_h) {
      result_.samples_per_s = rate_hours / (end_h - start_h);
      result_.ettr = kept_ms / kMsPerHour / (end_h - start_h);
    }
    result_.phases = std::move(phases_);
    return result_;
  }

  // Hours of hosts up to `end_h`. Changes after the last step count backwards, as published.
  double sum_hosts(double end_h) const {
    double sum = 0;
    for (size_t i = 0; i < live_track_.size(); ++i) {
      const double to = i + 1 < live_track_.size() ? live_track_[i + 1].first : end_h;
      sum += (to - live_track_[i].first) * live_track_[i].second;
    }
    return sum;
  }

  const RecoverySetup& setup_;
  recovery_internal::EventHeap<Event> heap_;
  std::vector<Host> hosts_;   // up, in order of coming
  std::vector<int> meeting_;  // who takes part in the rendezvous
  Status status_ = Status::kStopped;
  int64_t now_ms_ = 0;
  int64_t start_ms_ = -1;
  int64_t rendezvous_from_ms_ = 0;
  int64_t step_end_ms_ = 0;
  int64_t step_ms_ = 0;
  int64_t version_ = 0;
  int64_t steps_ = 0;
  int pipelines_ = 0, stages_ = 0, waiting_ = 0, used_ = 0;
  bool fallback_pending_ = false, fallback_handled_ = false;
  int64_t fallback_step_ = 0, fallback_at_ms_ = 0;
  bool removed_ = false, has_checkpoint_ = false;
  double checkpoint_h_ = 0;
  std::vector<Step> track_;
  std::vector<double> kept_;  // samples/s of each step; 0 = its samples were lost. May be longer than track_
  std::vector<std::pair<double, int>> live_track_;
  std::vector<RecoveryPhase> phases_;
  recovery_internal::ReplayBooks books_;
  RecoveryResult result_;
};

}  // namespace

absl::StatusOr<RecoveryResult> replay_published(const RecoverySetup& setup) {
  const bool known = setup.design == RecoveryDesign::kCheckpointRestart ||
                     setup.design == RecoveryDesign::kRedundancy || setup.design == RecoveryDesign::kTemplates;
  if (!known) {
    return invalid(
        "recovery: rules=published exist for checkpoint-restart, redundancy and templates; use rules=steady for this "
        "design");
  }
  return Replay(setup).run();
}

}  // namespace scalai::sched
