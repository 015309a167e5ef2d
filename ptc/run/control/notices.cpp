#include "ptc/run/control/internal/notices.h"

#include <cmath>
#include <utility>
#include <vector>

namespace scalai::control {

Notices::Notices(const Condition& condition, const ChangePlanner& planner, Targets& targets, Script& script,
                 Trainer& trainer, Snapshots& snapshots, Turn& turn, Evacuator evacuator)
    : condition_(condition),
      planner_(planner),
      targets_(targets),
      script_(script),
      trainer_(trainer),
      snapshots_(snapshots),
      turn_(turn),
      evacuator_(std::move(evacuator)) {}

Notices::Leave Notices::answer(Job& job, const std::string& cause, bool at_once) {
  if (job.mode != Mode::kTraining) return Leave::kNo;
  std::optional<Evacuation> evacuation = evacuator_.decide(job);
  if (!evacuation) return Leave::kNo;
  if (!cause.empty()) job.request.leaves_for = cause;
  NoticeRecord& record = evacuation->record;
  const bool waits_for_copy = !record.lost.empty() && record.starts_s >= record.deadline_s;
  if (at_once && !waits_for_copy) record.starts_s = turn_.now_s;
  note(job, *evacuation);
  // From a step before `starts_s` on, the next boundary is the last one in time.
  const double step_s = std::isinf(job.training.step_s) ? 0 : job.training.step_s;
  const double leaves_s = waits_for_copy ? record.deadline_s : record.starts_s - step_s;
  job.request.leaves_s = leaves_s;
  if (leaves_s > turn_.now_s) {
    if (!waits_for_copy) script_.arm(turn_, leaves_s, {.purpose = Timer::Purpose::kLeave, .job = job.index});
    return Leave::kLater;
  }
  job.request.leaves_s.reset();
  if (boundary_fits(job, record)) return Leave::kAtBoundary;
  stop(job);
  return Leave::kNow;
}

bool Notices::stop_by(Job& job, double deadline_s) {
  const Evacuation evacuation = evacuator_.decide_stop(job, deadline_s);
  note(job, evacuation);
  if (boundary_fits(job, evacuation.record)) return false;
  stop(job);
  return true;
}

// What the record says would be in time after the step under way, too.
bool Notices::boundary_fits(const Job& job, const NoticeRecord& record) const {
  const Training& training = job.training;
  const int64_t next = training.next_boundary_after(turn_.now_s);
  const double boundary_s = training.start_s + static_cast<double>(next - training.from_step) * training.step_s;
  return record.lost.empty() && boundary_s + record.takes_s <= record.deadline_s;
}

void Notices::stop(Job& job) {
  turn_.commands.push_back(Halt{.job = job.index});
  trainer_.credit(job, job.training.steps_done_at(turn_.now_s), turn_.now_s);
  job.training.until_step = job.training.from_step;
  job.request.cause = job.request.leaves_for;
  job.request.cause_s = turn_.now_s;
  job.request.failed_s = -1;
  job.mode = Mode::kStopping;
}

// A decision made again replaces the one before it.
void Notices::note(Job& job, const Evacuation& evacuation) {
  std::vector<NoticeRecord>& notices = job.accounts.record.notices;
  const NoticeRecord& now = evacuation.record;
  const bool known =
      !notices.empty() && notices.back().deadline_s == now.deadline_s && notices.back().devices == now.devices;
  if (!known) return notices.push_back(now);
  const double at_s = notices.back().at_s;
  notices.back() = now;
  notices.back().at_s = at_s;
}

bool Notices::waits(const Job& job) const {
  return job.mode == Mode::kTraining && job.request.leaves_s && !condition_.leaving(job.devices).empty();
}

bool Notices::saves_first(Job& job) {
  using Answer = Evacuation::Answer;
  std::optional<Evacuation> evacuation = evacuator_.decide(job);
  if (!evacuation) {
    const bool saves = planner_.saves_first(job, /*waits=*/!targets_.choose(job));
    return saves && snapshots_.start_before_change(job);
  }
  if (snapshots_.evacuated(job)) return false;
  evacuation->record.starts_s = turn_.now_s;
  note(job, *evacuation);
  // What leaves devices by a deadline has their links for itself.
  if (evacuation->answer != Answer::kGoBack && evacuation->record.takes_s > 0)
    snapshots_.drop(job, [&](const Holding& copy) { return copy.step != job.state.step; });
  if (evacuation->answer == Answer::kCheckpoint) return snapshots_.start_before_change(job);
  const bool copies = evacuation->answer == Answer::kCopy || evacuation->answer == Answer::kLose;
  if (!copies || evacuation->copies.copies.empty()) return false;
  snapshots_.start_evacuation(job, std::move(evacuation->copies));
  return true;
}

}  // namespace scalai::control
