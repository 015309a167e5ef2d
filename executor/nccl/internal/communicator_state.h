#pragma once
// What a Communicator owns: NCCL's handle, and the rule that no call is made on it once it is given back. Every call is
// made under the lock, with the handle still there, and none blocks, because the communicator is non-blocking. Whoever
// ends it takes the handle out under the lock first, and then gives it back.
//
// Any thread at any time, but slot() and set_place(), which belong to the thread that makes it.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/nccl/nccl_api.h"

namespace scalai::executor::nccl::internal {

class CommunicatorState {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  using Call = std::function<NcclResult(NcclComm*)>;

  explicit CommunicatorState(const NcclApi& api) : api_(api) {}

  const NcclApi& api() const { return api_; }
  NcclComm** slot() { return &comm_; }  // where NCCL puts the handle
  void set_place(int rank, int size);
  int rank() const { return rank_; }
  int size() const { return size_; }

  bool healthy() const;
  absl::Status status() const;  // FailedPrecondition with the reason once it has ended

  // Makes a call that starts something; `what` it is, for messages. The reason once it has ended.
  absl::Status start(const char* what, const Call& call);
  // Whether NCCL has finished what was started, or its error. The reason once it has ended.
  absl::StatusOr<bool> look(const char* what);
  absl::Status wait(const char* what, Deadline deadline, const std::stop_token& stop = {});
  // DeadlineExceeded or Cancelled when waiting is over.
  absl::Status still_time(const char* what, Deadline deadline, const std::stop_token& stop = {}) const;
  // Sleeps, less long if it ends meanwhile.
  void pause(std::chrono::microseconds time);

  // Aborts. When it returns, NCCL's abort has returned. The second time it does nothing. The first reason.
  absl::Status end(const absl::Status& reason);
  void destroy();

 private:
  enum class Phase { kUp, kEnding, kDown };
  absl::Status wait_down(std::unique_lock<std::mutex>& lock);

  const NcclApi api_;
  int rank_ = 0;
  int size_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::kUp;
  NcclComm* comm_ = nullptr;
  absl::Status reason_;
};

// Growing pauses between looks: none at first, because a pause takes Linux 60 µs at least, and then longer ones, so
// that what is quick is seen at once and a long wait costs nothing.
class PollPause {
 public:
  std::chrono::microseconds next();

 private:
  static constexpr std::chrono::microseconds kAtOnce{200};
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::chrono::microseconds pause_{10};
};

}  // namespace scalai::executor::nccl::internal
