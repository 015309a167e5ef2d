#include "executor/controller/internal/past.h"

#include "ptc/base/status.h"

namespace scalai::executor::controller {

using control::Agenda;

const control::Event& Past::next() {
  SCALAI_CHECK(!is_over());
  const control::Event& event = run_.options.past[next_++];
  note(event);
  return event;
}

void Past::note(const control::Command& command) {
  if (const auto* train = std::get_if<control::Train>(&command)) {
    (void)training_.take_up(*train, /*tells=*/false);
    run_.job(train->job).work->note_begin(train->collection, train->from_step, train->initial_copies.has_value());
  } else if (const auto* halt = std::get_if<control::Halt>(&command)) {
    run_.agenda.halt(halt->job);
  } else if (const auto* read = std::get_if<control::Read>(&command)) {
    run_.job(read->job).unread.push_back(*read);
  } else if (const auto* execute = std::get_if<control::Execute>(&command)) {
    executions_.take_up(*execute);
    run_.job(execute->job).work->note_execute(*execute);
  } else if (const auto* abort = std::get_if<control::Abort>(&command)) {
    run_.agenda.abort(abort->job);
    executions_.drop(abort->job);
  } else if (const auto* commit = std::get_if<control::Commit>(&command)) {
    training_.note_commit(commit->job);
    run_.job(commit->job).work->note_commit();
  } else if (const auto* background = std::get_if<control::Background>(&command)) {
    run_.agenda.background(*background);
    run_.job(background->job).work->note_background(*background);
  } else if (const auto* forget = std::get_if<control::Forget>(&command)) {
    run_.agenda.drop_copy(forget->snapshot);
    run_.job(forget->job).work->snapshots().note_forget(forget->snapshot);
  } else if (const auto* timer = std::get_if<control::ArmTimer>(&command)) {
    run_.agenda.arm(*timer);
  } else if (const auto* inject = std::get_if<control::Inject>(&command)) {
    note(*inject);
  }
}

void Past::note(const control::Inject& inject) {
  if (const auto* fail = std::get_if<scenario::Fail>(&inject.what)) {
    run_.mark_gone(run_.agenda.fail(*fail, inject.detect_s));
  } else if (const auto* repair = std::get_if<scenario::Repair>(&inject.what)) {
    // Losses that were not known yet were told at once.
    for (Agenda::LossKnown& loss : run_.agenda.repair(*repair)) run_.pending.emplace_back(std::move(loss));
  } else if (const auto* degrade = std::get_if<scenario::Degrade>(&inject.what)) {
    run_.agenda.degrade(*degrade);
  }
}

Past::Verdict Past::compare(const Agenda::Happening& happening, const control::Event& event) {
  const auto is = [](bool same) { return same ? Verdict::kIsIt : Verdict::kOther; };
  if (const auto* end = std::get_if<Agenda::TrainEnd>(&happening)) {
    if (!run_.agenda.counts(*end)) return Verdict::kNothing;
    const auto* step = std::get_if<control::StepReached>(&event.body);
    return is(step != nullptr && step->job == end->job && step->step == end->step);
  }
  if (const auto* end = std::get_if<Agenda::StageEnd>(&happening)) {
    if (!run_.agenda.counts(*end) || !executions_.is_under_way(end->job)) return Verdict::kNothing;
    const bool last = run_.agenda.current_stage(end->job) + 1 == run_.agenda.stages(end->job)->size();
    const auto* done = std::get_if<control::ExecutionDone>(&event.body);
    if (last) return is(done != nullptr && done->job == end->job);
    const int mark = executions_.current_stage(end->job).mark;
    if (executions_.is_told(end->job, mark)) return Verdict::kNothing;
    const auto* round = std::get_if<control::RoundDone>(&event.body);
    return is(round != nullptr && round->job == end->job && round->round == mark);
  }
  if (const auto* end = std::get_if<Agenda::CopyEnd>(&happening)) {
    const auto* copied = std::get_if<control::BackgroundDone>(&event.body);
    return is(copied != nullptr && copied->tag == end->tag);
  }
  if (const auto* loss = std::get_if<Agenda::LossKnown>(&happening)) {
    const auto* lost = std::get_if<control::DevicesLost>(&event.body);
    return is(lost != nullptr && lost->devices == loss->devices);
  }
  const auto* timer = std::get_if<control::TimerFired>(&event.body);
  return is(timer != nullptr && timer->timer == std::get<Agenda::TimerEnd>(happening).timer);
}

bool Past::replay(const control::Event& event) {
  std::deque<Agenda::Happening> later;  // at the same moment, but after the event
  bool found = false;
  while (!found) {
    std::optional<Agenda::Happening> happening = run_.next_pending();
    if (!happening) happening = run_.agenda.next(event.at_s);
    if (!happening) break;
    const Verdict verdict = compare(*happening, event);
    found = verdict == Verdict::kIsIt;
    const auto* stage = std::get_if<Agenda::StageEnd>(&*happening);
    const bool ends_stage = stage != nullptr && run_.agenda.counts(*stage) && executions_.is_under_way(stage->job);
    if (verdict == Verdict::kOther) {
      // Earlier than the event it was void: its work had lost a device.
      if (run_.agenda.now_s() >= event.at_s) later.push_back(std::move(*happening));
    } else if (ends_stage) {
      const int reconfiguration = executions_.reconfiguration(stage->job);
      for (const control::EventBody& body : executions_.end_modelled_stage(stage->job)) {
        const auto* done = std::get_if<control::ExecutionDone>(&body);
        if (done != nullptr && found)
          run_.recorder.executions.push_back(
              {done->job, reconfiguration, std::get<control::ExecutionDone>(event.body).phases, done->phases});
      }
    }
  }
  run_.pending.insert(run_.pending.begin(), later.begin(), later.end());
  return found;
}

void Past::note(const control::Event& event) {
  const bool of_the_agenda = replay(event);
  if (const auto* step = std::get_if<control::StepReached>(&event.body)) {
    if (!of_the_agenda) run_.agenda.halt(step->job);
    run_.job(step->job).work->note_step(step->step);
  } else if (const auto* round = std::get_if<control::RoundDone>(&event.body)) {
    run_.job(round->job).work->note_staged();
    executions_.note_round(round->job, round->round);
  } else if (const auto* done = std::get_if<control::ExecutionDone>(&event.body)) {
    executions_.drop(done->job);
    if (!of_the_agenda) run_.agenda.abort(done->job);
  } else if (const auto* copy = std::get_if<control::CopyLost>(&event.body)) {
    run_.agenda.drop_copy(copy->tag);
    run_.job(copy->job).work->snapshots().leave_files(copy->tag);
  } else if (const auto* copied = std::get_if<control::BackgroundDone>(&event.body)) {
    if (!of_the_agenda) run_.agenda.drop_copy(copied->tag);
    run_.job(copied->job).work->snapshots().note_done(copied->tag);
  } else if (const auto* samples = std::get_if<control::SamplesRead>(&event.body)) {
    std::deque<control::Read>& unread = run_.job(samples->job).unread;
    if (!unread.empty()) unread.pop_front();
  } else if (const auto* lost = std::get_if<control::DevicesLost>(&event.body)) {
    note_losses(*lost, of_the_agenda);
  }
}

void Past::note_losses(const control::DevicesLost& lost, bool of_the_agenda) {
  for (RunState::Job& job : run_.jobs) {
    const bool has_trained = job.training && job.where().steps_done_at(lost.failed_at_s) > job.training->from_step;
    job.work->note_loss(lost.devices, has_trained);
  }
  if (!of_the_agenda) run_.mark_gone(run_.agenda.lose(lost.devices));
  if (lost.usable) run_.agenda.repair({.devices = lost.devices});
}

}  // namespace scalai::executor::controller
