#include "executor/controller/live_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace {

// No two controllers of a run begin at the same number, so a version stands for one copy.
int64_t random_start() {
  std::random_device random;
  return (static_cast<int64_t>(random() & 0x0fff'ffff) << 28) + static_cast<int64_t>(random() & 0x0fff'ffff);
}

}  // namespace

LiveSteps::LiveSteps(LiveLimits limits) : limits_(limits), next_(random_start()) {}
LiveSteps::~LiveSteps() = default;

absl::StatusOr<std::string> LiveSteps::answer(int job, const CtlRequest& request, const std::function<void()>& wake) {
  std::unique_lock lock(mutex_);
  proto::LiveState reply;
  Reader& reader = readers_[request.reader];
  reader.heard = Clock::now();
  reader.keeps.clear();
  for (const int64_t version : request.keeps) {
    if (copies_.contains(version)) {
      reader.keeps.insert(version);
    } else {
      reply.add_gone(version);
    }
  }
  if (over_) return absl::UnavailableError("the run is over");
  if (!request.wants) return reply.SerializeAsString();
  const auto mine = waiting_.insert(
      waiting_.end(),
      Waiting{.job = job, .reader = request.reader, .optimizer = request.optimizer, .after_step = request.after_step});
  lock.unlock();
  wake();
  lock.lock();
  served_.wait_for(lock, std::chrono::duration<double>(limits_.patience_s), [&] { return mine->done || over_; });
  const Waiting served = *mine;
  waiting_.erase(mine);
  if (!served.done && !over_) return reply.SerializeAsString();
  SCALAI_RETURN_IF_ERROR(served.version.status());
  const auto copy = copies_.find(*served.version);
  if (copy == copies_.end()) return reply.SerializeAsString();  // the reader has said since that it keeps others
  proto::LiveState full = *copy->second.state;
  full.set_ready(true);
  *full.mutable_gone() = reply.gone();
  return full.SerializeAsString();
}

void LiveSteps::end() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  served_.notify_all();
}

bool LiveSteps::waits(int job) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.job == job && !one.done; });
}

bool LiveSteps::watched(int job) const {
  const std::lock_guard lock(mutex_);
  const bool kept =
      std::any_of(copies_.begin(), copies_.end(), [&](const auto& entry) { return entry.second.job == job; });
  return kept || std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) { return one.job == job; });
}

bool LiveSteps::is_kept(int64_t version) const {
  return std::any_of(readers_.begin(), readers_.end(),
                     [&](const auto& entry) { return entry.second.keeps.contains(version); });
}

// Makes the copy if there is none. Without the lock while it is made: the run's thread alone adds and takes away.
absl::StatusOr<int64_t> LiveSteps::version_for(const Waiting& waiting, int64_t epoch, int64_t step, const Copy& copy) {
  size_t of_job = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [version, kept] : copies_) {
      if (kept.job != waiting.job) continue;
      of_job += is_kept(version) ? 1 : 0;
      if (kept.epoch == epoch && kept.step == step && (kept.optimizer || !waiting.optimizer)) return version;
    }
    if (of_job >= limits_.most)
      return absl::ResourceExhaustedError(fmt::format(
          "readers keep {} steps of this job already\nhint: they are let go when nothing of them is open", of_job));
  }
  const StateVersion version = StateVersion::live(next_++);
  SCALAI_ASSIGN_OR_RETURN(proto::LiveState state, copy(version, waiting.optimizer));
  const std::lock_guard lock(mutex_);
  copies_[version.wire()] = {.job = waiting.job,
                             .epoch = epoch,
                             .step = step,
                             .optimizer = waiting.optimizer,
                             .state = std::make_unique<proto::LiveState>(std::move(state))};
  return version.wire();
}

absl::Status LiveSteps::serve(int job, int64_t epoch, int64_t step, const Copy& copy) {
  absl::Status result;
  for (const bool optimizer : {true, false}) {  // what has all serves both
    Waiting wish;
    {
      const std::lock_guard lock(mutex_);
      const auto found = std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
        return one.job == job && !one.done && one.optimizer == optimizer && one.after_step < step;
      });
      if (found == waiting_.end()) continue;
      wish = *found;
    }
    const absl::StatusOr<int64_t> version = version_for(wish, epoch, step, copy);
    result.Update(version.status());
    const std::lock_guard lock(mutex_);
    for (Waiting& one : waiting_) {
      if (one.job != job || one.done || one.optimizer != optimizer || one.after_step >= step) continue;
      one.done = true;
      one.version = version;
      if (version.ok()) readers_[one.reader].keeps.insert(*version);
    }
    served_.notify_all();
  }
  return result;
}

std::vector<StateVersion> LiveSteps::take_unkept(int job) {
  const std::lock_guard lock(mutex_);
  const auto oldest = Clock::now() - std::chrono::duration<double>(limits_.forget_after_s);
  std::erase_if(readers_, [&](const auto& entry) { return entry.second.heard < oldest; });
  std::vector<StateVersion> unkept;
  std::erase_if(copies_, [&](const auto& entry) {
    if (entry.second.job != job || is_kept(entry.first)) return false;
    const auto version = StateVersion::from_wire(entry.first);
    SCALAI_CHECK(version.ok());
    unkept.push_back(*version);
    return true;
  });
  return unkept;
}

}  // namespace scalai::executor
