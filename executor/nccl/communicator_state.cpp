#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "executor/nccl/internal/communicator_state.h"
#include "executor/nccl/library.h"
#include "ptc/base/status.h"

namespace scalai::executor::nccl::internal {

std::chrono::microseconds PollPause::next() {
  if (std::chrono::steady_clock::now() - began_ < kAtOnce) return {};
  return std::exchange(pause_, std::min(pause_ * 2, std::chrono::microseconds(1'000)));
}

void CommunicatorState::set_place(int rank, int size) {
  rank_ = rank;
  size_ = size;
}

bool CommunicatorState::healthy() const {
  const std::scoped_lock lock(mutex_);
  return phase_ == Phase::kUp;
}

absl::Status CommunicatorState::status() const {
  const std::scoped_lock lock(mutex_);
  if (phase_ == Phase::kUp) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("rank {} of {}: this communicator has ended: {}", rank_, size_, message_of(reason_)));
}

absl::Status CommunicatorState::start(const char* what, const Call& call) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kUp) return wait_down(lock);
  const NcclResult result = call(comm_);
  if (result == NcclResult::kInProgress) return absl::OkStatus();
  return nccl_status(api_, result, fmt::format("rank {} of {}: {}", rank_, size_, what), comm_);
}

absl::StatusOr<bool> CommunicatorState::look(const char* what) {
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kUp) return wait_down(lock);
  NcclResult state = NcclResult::kInProgress;
  const NcclResult asked = api_.comm_get_async_error(comm_, &state);
  const NcclResult result = asked == NcclResult::kSuccess ? state : asked;
  if (result == NcclResult::kInProgress) return false;
  SCALAI_RETURN_IF_ERROR(nccl_status(api_, result, fmt::format("rank {} of {}: {}", rank_, size_, what), comm_));
  return true;
}

absl::Status CommunicatorState::wait(const char* what, Deadline deadline, const std::stop_token& stop) {
  for (PollPause poll;; pause(poll.next())) {
    SCALAI_ASSIGN_OR_RETURN(const bool done, look(what));
    if (done) return absl::OkStatus();
    SCALAI_RETURN_IF_ERROR(still_time(what, deadline, stop));
  }
}

absl::Status CommunicatorState::still_time(const char* what, Deadline deadline, const std::stop_token& stop) const {
  if (stop.stop_requested()) {
    return absl::CancelledError(fmt::format("rank {} of {}: {}: given up", rank_, size_, what));
  }
  if (std::chrono::steady_clock::now() < deadline) return absl::OkStatus();
  return absl::DeadlineExceededError(fmt::format("rank {} of {}: {}: not done in time", rank_, size_, what));
}

void CommunicatorState::pause(std::chrono::microseconds time) {
  if (time.count() == 0) return std::this_thread::yield();
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, time, [&] { return phase_ != Phase::kUp; });
}

absl::Status CommunicatorState::end(const absl::Status& reason) {
  SCALAI_CHECK(!reason.ok());
  std::unique_lock lock(mutex_);
  if (phase_ != Phase::kUp) return wait_down(lock);
  phase_ = Phase::kEnding;
  reason_ = reason;
  NcclComm* comm = std::exchange(comm_, nullptr);
  lock.unlock();
  changed_.notify_all();
  // Without the lock, because it takes as long as the kernels need to leave. What it returns cannot be acted on.
  if (comm != nullptr) api_.comm_abort(comm);
  lock.lock();
  phase_ = Phase::kDown;
  lock.unlock();
  changed_.notify_all();
  return reason;
}

void CommunicatorState::destroy() {
  const std::scoped_lock lock(mutex_);
  if (phase_ != Phase::kUp) return;
  phase_ = Phase::kDown;
  reason_ = absl::CancelledError("it was left in good order");
  if (comm_ != nullptr) api_.comm_destroy(std::exchange(comm_, nullptr));
}

absl::Status CommunicatorState::wait_down(std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] { return phase_ == Phase::kDown; });
  return reason_;
}

}  // namespace scalai::executor::nccl::internal
