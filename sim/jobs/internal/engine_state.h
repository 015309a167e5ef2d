#pragma once
// The engine's state: jobs, hosts, times to come. engine.cpp runs the loop, engine_seats.cpp moves jobs between GPUs
// and trains them, engine_decisions.cpp carries out what a policy says.

#include <optional>
#include <vector>

#include "ptc/run/policy/decision.h"
#include "ptc/run/policy/host_ledger.h"
#include "sim/jobs/engine.h"
#include "sim/jobs/internal/indexed_heap.h"
#include "sim/jobs/internal/ledger.h"
#include "sim/jobs/internal/training.h"

namespace scalai::jobs::internal {

enum class State : uint8_t { kFuture, kWaiting, kChanging, kTraining, kEnded };

struct LiveJob {
  State state = State::kFuture;
  Training training;
  policy::Placement placement;      // now; empty = waits
  policy::Placement state_at;       // where it last was; empty before its first start
  policy::JobId beside;             // on the same GPUs
  std::optional<ChangeCause> loss;  // why it lost its GPUs, until it has some again
  double left_s = 0;                // when it lost or left its GPUs
  double booked_s = 0;              // its record is complete until then
  double paid_mark = 0;             // what a GPU of its type had cost then
  double last_rate = 0;             // iterations a second and GPUs when it last trained
  int last_gpus = 0;
  double last_change_s = 0;
  double until_work = policy::kNever;              // its rate changes there
  double arrived_job_s = 0, arrived_up_gpu_s = 0;  // the ledger's integrals at submission
  double arrived_free_gpu_s = 0, arrived_unusable_gpu_s = 0;
};

class Engine : public policy::View {
 public:
  explicit Engine(const Setup& setup);
  absl::StatusOr<policy::Outcome> run();

  double now_s() const override { return now_s_; }
  const policy::Fleet& fleet() const override { return *setup_.fleet; }
  int capacity(policy::GpuType type) const override { return host_ledger_.capacity(type); }
  int capacity(HostId host) const override { return host_ledger_.capacity(host); }
  double price(policy::GpuType type) const override { return ledger_.price(type); }
  const policy::Job& job(policy::JobId id) const override {
    return setup_.workload->jobs[static_cast<size_t>(id.value)];
  }
  policy::Progress progress(policy::JobId id) const override;
  std::span<const policy::JobId> active() const override;
  const policy::Throughput& throughput() const override { return *setup_.throughput; }
  double change_cost_s(policy::JobId id, int to_gpus) const override;

 private:
  // engine.cpp: the loop
  double next_instant() const;
  double until_s() const;
  absl::Status instant(double at_s);
  absl::Status end_changes();
  absl::Status progress_jobs();
  void submit_jobs();
  absl::Status fleet_events();
  absl::Status apply_fleet_event(const policy::FleetEvent& event);
  absl::Status lose_host(HostId host, ChangeCause cause);
  double even_per_s(const LiveJob& one) const;
  absl::Status ask_policy();
  absl::Status repace();
  bool stuck();
  absl::Status end_run();
  void end_job(policy::JobId id, policy::JobEnd end);
  bool could_run(const policy::Job& job) const;

  // engine_seats.cpp: GPUs of jobs
  LiveJob& live(policy::JobId id) { return jobs_[static_cast<size_t>(id.value)]; }
  double whole(int gpus) const { return gpus / static_cast<double>(fleet().per_gpu); }  // GPUs that may be in slices
  const LiveJob& live(policy::JobId id) const { return jobs_[static_cast<size_t>(id.value)]; }
  policy::JobRecord& record(policy::JobId id) { return outcome_.jobs[static_cast<size_t>(id.value)]; }
  int training_gpus(policy::JobId id) const;  // that count as training because of this job or the one beside it
  void book(policy::JobId id);                // brings its record up to now
  void book_queue(policy::JobId id);          // it waits no more for its first GPUs
  void set_state(policy::JobId id, State state);
  void unseat(policy::JobId id);  // off its GPUs; they are free unless another job is on them
  void seat(policy::JobId id, policy::Placement placement, policy::JobId beside);
  void lose(policy::JobId id, ChangeCause cause);
  absl::Status start_training(policy::JobId id);
  absl::Status retime(policy::JobId id);
  absl::Status begin_change(policy::JobId id, const policy::Placement& from, ChangeCause cause, double left_s);
  void stop_training(policy::JobId id, bool keeps_work);
  void drop_work(policy::JobId id, double iterations);  // of a job that changes: to be done again

  // engine_decisions.cpp
  absl::Status apply(const policy::Decision& decision);
  policy::Presence presence(policy::JobId id) const;
  bool stays(const policy::Grant& grant) const;
  absl::Status place(const policy::Grant& grant, const policy::Placement& before);
  absl::Status settle_move(const policy::Grant& grant, const policy::Placement& before, State state_before);
  struct Move {
    const policy::Grant* grant;
    policy::Placement before;
    State state_before;
  };
  absl::Status carry_out(std::vector<Move> moves);
  bool waits_for_slices(const Move& move);

  Setup setup_;
  policy::HostLedger host_ledger_;
  Ledger ledger_;
  Use use_;
  std::vector<LiveJob> jobs_;
  std::vector<std::vector<policy::JobId>> jobs_on_;  // by host
  IndexedHeap times_;                                // of the next completion or change of rate, by job
  policy::Outcome outcome_;

  double now_s_ = 0;
  double wake_at_s_ = policy::kNever;
  size_t next_job_ = 0;
  size_t next_fleet_event_ = 0;
  uint64_t step_rate_version_ = 0;
  int idle_wakes_ = 0;  // timers in a row at which nothing ran, came or was granted
  int64_t ended_ = 0;
  size_t window_left_ = 0;  // jobs of the window that have not ended

  // Granted, in this order, but no GPU has the slices in one piece.
  std::vector<policy::Grant> blocked_;
  std::vector<policy::Event> events_;          // of this instant
  policy::Grants grants_;                      // of this decision
  std::vector<policy::JobId> touched_;         // jobs whose rate may have changed through a neighbour
  mutable std::vector<policy::JobId> active_;  // by id; may hold ended jobs when stale
  mutable bool active_stale_ = false;
};

}  // namespace scalai::jobs::internal
