#include "labs/validation/policies/emulations/oobleck_replay.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "labs/validation/policies/emulations/event_heap.h"
#include "ptc/base/status.h"
#include "sim/jobs/recovery/host_tables.h"

namespace scalai::policy::validation {
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
  bool usable() const { return state != State::kCreating; }
};

struct Step {
  double from_h = 0;
  double to_h = 0;
};

class Replay {
 public:
  explicit Replay(const OobleckSetup& setup) : setup_(setup) {}

  absl::StatusOr<OobleckResult> run() {
    load();
    if (heap_.empty()) return invalid("the host trace has no events; it must say when hosts come");
    const int64_t last_ms = heap_.array().back().at_ms;
    while (!heap_.empty()) {
      const Event event = heap_.pop();
      if (event.at_ms >= last_ms) break;
      now_ms_ = event.at_ms;
      handle(event);
      if (heap_.empty() || heap_.array().front().at_ms != now_ms_) note_hosts();
    }
    return finish();
  }

 private:
  bool bamboo() const { return setup_.system == OobleckSystem::kBamboo; }
  bool varuna() const { return setup_.system == OobleckSystem::kVaruna; }
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
    heap_.push({now_ms_ + ms(setup_.host_ready_s), Kind::kReady, id});
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
    if (!bamboo()) {
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
    if (!setup_.rolls_back) return;
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

  void start_rendezvous(bool global) {
    status_ = Status::kRendezvous;
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
    double seconds = global && bamboo() ? setup_.fatal_s : setup_.change_s(used_);
    if (varuna()) seconds -= setup_.checkpoint_s;
    heap_.push(
        {now_ms_ + std::max<int64_t>(0, ms(seconds)), global ? Kind::kGlobalRendezvous : Kind::kLocalRendezvous, 0});
  }

  void rendezvous_ends(bool global) {
    for (const int id : meeting_) {
      if (find(id) != nullptr) continue;
      meet();
      return push_rendezvous(global);
    }
    assign();
    fallback_pending_ = fallback_handled_ = false;
    ++version_;
    meeting_.clear();
    if (pipelines_ == 0) {
      status_ = Status::kStopped;
      return;
    }
    status_ = Status::kRunning;
    set_step_time();
    heap_.push({now_ms_ + step_ms_, Kind::kStepDone, version_});
    if (start_ms_ < 0) start_ms_ = step_end_ms_ = now_ms_;
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
    used_ = static_cast<int>(std::count_if(hosts_.begin(), hosts_.end(), [](const Host& h) { return h.usable(); }));
    const double throughput = setup_.samples_per_s(used_);
    step_ms_ = throughput > 0 ? std::max<int64_t>(1, static_cast<int64_t>(setup_.samples_per_step / throughput * 1000))
                              : kNoThroughputMs;
  }

  void step_done(int64_t version) {
    if (version != version_) return;
    if (fallback_pending_ && !fallback_handled_ && fallback_step_ == steps_) {
      // The stage that stood in for the lost one redoes its part of this step.
      fallback_handled_ = true;
      const double redo = static_cast<double>(now_ms_ - fallback_at_ms_) * (setup_.fallback_slowdown - 1.0);
      return heap_.push({now_ms_ + static_cast<int64_t>(redo), Kind::kStepDone, version});
    }
    ++steps_;
    record_step();
    int64_t end_ms = now_ms_;
    if (varuna() && (steps_ % std::max<int64_t>(1, setup_.checkpoint_every_steps) == 0 || removed_)) {
      end_ms = write_checkpoint();
    }
    step_end_ms_ = end_ms;
    if (bamboo() && should_rebalance()) return start_rendezvous(false);
    heap_.push({end_ms + step_ms_, Kind::kStepDone, version_});
  }

  void record_step() {
    const int64_t took_ms = now_ms_ - step_end_ms_;
    track_.push_back(
        {.from_h = static_cast<double>(step_end_ms_) / kMsPerHour, .to_h = static_cast<double>(now_ms_) / kMsPerHour});
    kept_.push_back(took_ms == 0 ? 0 : setup_.samples_per_step / (static_cast<double>(took_ms) / 1000));
  }

  // Returns when training goes on.
  int64_t write_checkpoint() {
    removed_ = false;
    const int64_t write_ms = ms(setup_.checkpoint_s);
    const int64_t end_ms = now_ms_ + write_ms;
    // The published simulator adds the write time once to the step's end and once more to the event that ends it.
    heap_.push({end_ms + write_ms, Kind::kCheckpointDone, 0});
    heap_.heapify();
    if (!setup_.rolls_back || !removal_before_checkpoint()) {
      has_checkpoint_ = true;
      checkpoint_h_ = static_cast<double>(end_ms) / kMsPerHour;
      return end_ms;
    }
    const size_t period = static_cast<size_t>(std::max<int64_t>(1, setup_.checkpoint_every_steps));
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

  void note_hosts() {
    const int live = static_cast<int>(hosts_.size());
    const double hour = static_cast<double>(now_ms_) / kMsPerHour;
    if (live_track_.empty()) {
      if (now_ms_ > 0) live_track_.push_back({0, live});
    } else if (live_track_.back().second != live) {
      live_track_.push_back({hour, live});
    }
  }

  OobleckResult finish() {
    const double end_h = track_.empty() ? 0 : track_.back().to_h;
    const double start_h = start_ms_ < 0 ? 0 : static_cast<double>(start_ms_) / kMsPerHour;
    result_.from_s = start_h * 3600;
    result_.to_s = std::max(end_h, start_h) * 3600;
    result_.steps = steps_;
    if (end_h > 0) result_.mean_hosts = sum_hosts(end_h) / end_h;
    double rate_hours = 0;
    for (size_t i = 0; i < track_.size(); ++i) {
      const double rate = i < kept_.size() ? kept_[i] : 0;
      rate_hours += (track_[i].to_h - track_[i].from_h) * rate;
      result_.lost_samples += rate > 0 ? 0 : setup_.samples_per_step;
    }
    result_.samples = rate_hours * 3600;
    if (end_h > start_h) result_.samples_per_s = rate_hours / (end_h - start_h);
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

  const OobleckSetup& setup_;
  EventHeap<Event> heap_;
  std::vector<Host> hosts_;   // up, in order of coming
  std::vector<int> meeting_;  // who takes part in the rendezvous
  Status status_ = Status::kStopped;
  int64_t now_ms_ = 0;
  int64_t start_ms_ = -1;
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
  OobleckResult result_;
};

double varuna_bert_change_s(int hosts) {
  if (hosts <= 0) return 76;
  const int n = std::clamp(hosts, 15, 30);
  if (n == 30) return 71.3;
  if (n >= 28) return 67.6;
  if (n == 27) return 49.1;
  if (n == 26) return 112;
  return 108.3 - 3.7 * (25 - n);
}

bool is_one_of(const std::string& model, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](const char* name) { return jobs::plain_model_name(name) == jobs::plain_model_name(model); });
}

}  // namespace

absl::StatusOr<OobleckResult> replay_oobleck(const OobleckSetup& setup) {
  SCALAI_CHECK(setup.availability != nullptr && setup.samples_per_s && setup.change_s);
  SCALAI_CHECK(setup.samples_per_step > 0 && setup.checkpoint_every_steps > 0 && setup.stages > 0);
  return Replay(setup).run();
}

absl::StatusOr<OobleckSetup> oobleck_setup(const std::string& system, const std::string& model,
                                           const std::string& throughputs, const std::string& costs) {
  OobleckSetup setup;
  if (system == "varuna") setup.system = OobleckSystem::kVaruna;
  if (system == "bamboo") setup.system = OobleckSystem::kBamboo;
  SCALAI_ASSIGN_OR_RETURN(setup.samples_per_s,
                          read_host_throughput(throughputs, {system, model}, jobs::HostsBeyond::kNearest));
  SCALAI_ASSIGN_OR_RETURN(const jobs::HostCosts found, jobs::read_host_costs(costs, {system, model}));
  setup.samples_per_step = found.samples_per_step;
  setup.change_s = [seconds = found.change_s](int) { return seconds; };
  if (system == "varuna" && is_one_of(model, {"BERT-large"})) setup.change_s = varuna_bert_change_s;
  setup.fatal_s = std::max(0.0, found.fatal_s);
  setup.host_ready_s = 45;
  setup.checkpoint_s = std::max(0.0, found.checkpoint_s);
  if (found.checkpoint_every_steps > 0) setup.checkpoint_every_steps = std::llround(found.checkpoint_every_steps);
  setup.rolls_back = !is_one_of(model, {"BERT-large", "GPT-2", "GPT-3-medium"});
  return setup;
}

}  // namespace scalai::policy::validation
