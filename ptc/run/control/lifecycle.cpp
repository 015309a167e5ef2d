#include "ptc/run/control/internal/lifecycle.h"

#include <algorithm>
#include <utility>

namespace scalai::control {

Lifecycle::Lifecycle(Jobs& jobs, RunRecords& records, Snapshots& snapshots, PolicyLoop& policy, Turn& turn)
    : jobs_(jobs), records_(records), snapshots_(snapshots), policy_(policy), turn_(turn) {}

void Lifecycle::leave(Job& job, Mode mode) {
  account(job, 0, turn_.now_s, job.accounts.time);
  job.mode = mode;
  job.accounts.record.wall_s = turn_.now_s - job.spec->submit_s;
  allocate(job, {}, turn_);
  policy_.leave(job);
  end_if_all_over();
}

void Lifecycle::complete(Job& job) {
  records_.end_span(job, "train", turn_.now_s);
  leave(job, Mode::kComplete);
}

void Lifecycle::fail(Job& job, std::string why) {
  if (policy_.active()) turn_.freed_by = job.spec->name;  // also the devices it was to go to
  job.accounts.record.failure = std::move(why);
  job.accounts.time.changed(turn_.now_s);
  job.accounts.record.reconfigurations.push_back(job.underway->record);
  job.underway.reset();
  leave(job, Mode::kFailed);
}

// The policy is not told: it knows.
void Lifecycle::refuse(Job& job) {
  records_.end_span(job, "waiting", turn_.now_s);
  account(job, 0, turn_.now_s, job.accounts.time);
  job.mode = Mode::kRefused;
  allocate(job, {}, turn_);
  job.accounts.record.wall_s = turn_.now_s - job.spec->submit_s;
  policy_.drop_change(job);
  end_if_all_over();
}

void Lifecycle::stop(Job& job) {
  records_.end_span(job, job.mode == Mode::kWaiting ? "waiting" : "train", turn_.now_s);
  account(job, 0, turn_.now_s, job.accounts.time);
  job.mode = Mode::kStopped;
  job.accounts.record.failure.clear();  // what it waited for
  job.accounts.record.wall_s = std::max(0.0, turn_.now_s - job.spec->submit_s);
  policy_.leave(job);
  end_if_all_over();
}

void Lifecycle::misread(Job& job, std::string why) {
  job.accounts.record.failure = std::move(why);
  if (job.over()) {
    job.mode = Mode::kFailed;
    return;
  }
  if (job.moves()) {
    turn_.commands.push_back(Halt{.job = job.index});
    records_.end_span(job, "train", turn_.now_s);
  } else if (job.mode == Mode::kWaiting) {
    records_.end_span(job, "waiting", turn_.now_s);
  } else {
    turn_.commands.push_back(Abort{.job = job.index});
    job.accounts.record.reconfigurations.push_back(job.underway->record);
    job.underway.reset();
  }
  snapshots_.drop(job, [](const Holding&) { return true; });
  leave(job, Mode::kFailed);
}

void Lifecycle::end_if_all_over() {
  if (std::all_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.over(); })) end();
}

void Lifecycle::end() {
  if (over_) return;
  ending_ = true;
  over_ = std::none_of(jobs_.begin(), jobs_.end(), [](const Job& job) { return job.ledger && job.ledger->awaits(); });
  if (over_) turn_.commands.push_back(Stop{});
}

}  // namespace scalai::control
