#pragma once
// What happens in time: units (ranks, or classes of them) go through the phases of their slots, start flows and wait
// for timers, messages, collectives and each other.

#include <array>
#include <cstdint>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "ptc/cost/change/network.h"
#include "ptc/cost/step/schedule.h"
#include "sim/internal/iteration_graph.h"
#include "sim/iteration.h"

namespace scalai::sim {

class IterationEngine {
 public:
  // All outlive the engine.
  IterationEngine(change::NetworkBackend& network, const IterationGraph& graph, std::span<const IterationJob> jobs,
                  const IterationOptions& options);
  // Until the steps of all jobs are steady, or there have been enough of them.
  IterationResult run();

 private:
  // What a group can have under way at once. Those in the background do not keep their ranks waiting.
  enum class Channel : uint8_t {
    kTp,
    kCp,
    kEp,
    kDp,
    kEmbedding,
    kGradients,
    kGradientsRest,
    kParameters,
    kParametersRest
  };
  static constexpr int kChannels = 9;

  // Where a unit is in its slot. Those before kDone follow one another; which do something depends on slot and
  // schedule.
  enum class Phase : uint8_t {
    kParametersRest,  // first slot of a step
    kParametersBeside,
    kMessage,
    kGradients,  // backward slots of the last micro-batch
    kCompute,
    kTp,
    kCp,
    kEp,
    kDp,
    kSend,
    kParameters,      // forward slots of the first micro-batch: those of the chunk must be there
    kGradientsReady,  // last slot of a step, from here
    kGradientsRest,
    kBarrier,
    kEmbedding,  // 2BW: all that goes on beside the next step
    kOptimizer,
    kDone,
  };
  enum class Waits : uint8_t { kNot, kTimer, kMessage, kCollective, kBackground, kSend, kBarrier };

  // Collectives of one kind that run one after the other beside the work.
  struct Background {
    bool running = false;
    int queued = 0;
    int done = 0;
    double share = 1;  // of the communication, each
  };
  struct Unit {
    const IterationRank* rank = nullptr;
    const step::StageWork* work = nullptr;
    Phase phase = Phase::kParametersRest;
    Waits waits = Waits::kNot;
    int64_t slot = 0;                       // of all that it does
    int64_t steps = 0, backward_slots = 0;  // finished
    std::array<int64_t, 2> arrived = {};    // messages that no slot has taken: forward, backward
    std::array<Background, kChannels> background = {};
  };
  struct Job {
    const IterationJob* job = nullptr;
    step::PipelineShape shape;
    int64_t slots_per_step = 0;
    // By stage: of one step; of as many as were asked for where steps do not end (2BW).
    std::vector<std::vector<step::Slot>> slots = {};
    int units = 0;
    std::vector<int> at_barrier = {};   // units
    std::vector<int> finished = {};     // units, by step
    std::vector<double> ended_at = {};  // by step

    bool flushes() const { return shape.schedule != step::Schedule::kTwoBW; }
  };
  struct Part {  // of a unit in a collective
    int unit = 0;
    FlowEnds ends = {};
    double bytes = 0;
    bool in_background = false;
  };
  struct Collective {
    int left = 0;  // flows, and the latency
    double latency_s = 0;
    std::vector<Part> parts;
  };
  enum class Event : uint8_t { kUnit, kMessageLatency, kGroupLatency };
  struct Timer {
    double at_s = 0;
    int64_t order = 0;
    Event event = Event::kUnit;
    int id = 0;  // unit or collective
    bool backward = false;
    bool operator>(const Timer& other) const { return at_s != other.at_s ? at_s > other.at_s : order > other.order; }
  };
  struct FlowUse {
    bool message = false;
    bool backward = false;
    int id = -1;  // unit that sends, or collective
  };

  // iteration_engine.cpp: time, flows, groups
  bool is_over() const;
  double step_of(const Job& job) const;
  double by_slots(const Job& job) const;
  void pass_time();
  void handle(const Timer& timer);
  void end_flow(change::FlowId flow);
  void start_timer(double seconds, Event event, int id, bool backward = false);
  void start_flow(FlowEnds ends, double bytes, FlowUse use);
  void join(int unit, Channel channel, const step::Communication& what, double share, bool in_background);
  void start_group(int id);
  void end_part(int id);
  void end_background(int unit, Channel channel);
  void deliver(int from, bool backward);
  void resume(int unit, Waits from);
  void proceed(int unit);
  void end_slot(int unit);
  const step::Slot& slot_of(const Unit& unit);

  // iteration_phases.cpp: what a phase does; false: the unit must wait
  bool enter(int unit);
  bool enter_end_of_step(int unit);
  bool is_piece_end(const Unit& unit, const step::Slot& slot, bool first) const;
  bool work(int unit, double seconds);
  bool collective(int unit, Channel channel, const step::Communication& what, double share = 1);
  void in_background(int unit, Channel channel, double share, int times = 1);
  bool background_done(int unit, Channel channel, int times);
  bool await_message(int unit, const step::Slot& slot);
  bool send(int unit, const step::Slot& slot);
  const step::Communication& message_of(const Unit& unit, bool backward) const;
  bool barrier(int unit);
  static const step::Communication& communication_of(const Unit& unit, Channel channel);

  const Job& job_of(const Unit& unit) const { return jobs_[static_cast<size_t>(unit.rank->job)]; }
  Unit& unit_of(int unit) { return units_[static_cast<size_t>(unit)]; }
  const step::StepParts& parts_of(const Unit& unit) const {
    return job_of(unit).job->parts[static_cast<size_t>(unit.rank->parts)];
  }

  change::NetworkBackend& network_;
  const IterationGraph& graph_;
  IterationOptions options_;
  std::vector<Job> jobs_;
  std::vector<Unit> units_;
  std::vector<Collective> collectives_;  // group · kChannels + channel
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::unordered_map<change::FlowId, FlowUse> flow_uses_;  // of those under way
  int64_t flows_ = 0, events_ = 0, order_ = 0;
};

}  // namespace scalai::sim
