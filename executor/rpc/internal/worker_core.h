#pragma once
// At most once: which commands a worker runs, which it answers from memory, which it refuses.

#include <chrono>
#include <map>
#include <mutex>

#include "executor/rpc/messages.h"

namespace scalai::executor::rpc::internal {

class WorkerCore {
 public:
  // Serves this controller epoch from now on. False: it is older than one served before. A newer one makes the worker
  // forget all replies: the ids begin anew.
  bool adopt(int64_t controller_epoch);
  int64_t epoch() const;

  // One thread at a time. Runs the handler unless the id was seen (then: the same reply again), the epoch is older
  // (FailedPrecondition), `expires` has passed (DeadlineExceeded), or the id is too old to know (FailedPrecondition).
  Reply handle(const Command& command, std::chrono::steady_clock::time_point expires, const CommandHandler& handler);

  // Replies kept, at most; beyond either limit the oldest go, but the last one stays.
  static constexpr size_t kReplies = 256;
  static constexpr int64_t kReplyBytes = int64_t{64} << 20;

 private:
  void remember(const Reply& reply);

  mutable std::mutex mutex_;
  int64_t epoch_ = 0;
  std::map<int64_t, Reply> replies_;
  int64_t reply_bytes_ = 0;
  int64_t forgotten_ = 0;  // ids up to this one are neither run nor answered
};

}  // namespace scalai::executor::rpc::internal
