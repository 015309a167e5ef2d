#include "executor/rpc/internal/worker_core.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::executor::rpc::internal {
namespace {

using Clock = std::chrono::steady_clock;

Reply refuse(const Command& command, absl::Status status) {
  return Reply{.status = std::move(status), .id = command.id, .controller_epoch = command.controller_epoch};
}

}  // namespace

bool WorkerCore::adopt(int64_t controller_epoch) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (controller_epoch < epoch_) return false;
  if (controller_epoch > epoch_) {
    epoch_ = controller_epoch;
    replies_.clear();
    reply_bytes_ = 0;
    forgotten_ = 0;
  }
  return true;
}

int64_t WorkerCore::epoch() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return epoch_;
}

Reply WorkerCore::handle(const Command& command, Clock::time_point expires, const CommandHandler& handler) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (command.controller_epoch != epoch_) {
      return refuse(command, absl::FailedPreconditionError(
                                 fmt::format("'{}' is from controller epoch {}, this worker serves epoch {}",
                                             command.what, command.controller_epoch, epoch_)));
    }
    if (const auto known = replies_.find(command.id); known != replies_.end()) return known->second;
    if (command.id <= forgotten_) {
      return refuse(command, absl::FailedPreconditionError(
                                 fmt::format("'{}' (id {}) is too old to repeat", command.what, command.id)));
    }
  }
  const Clock::time_point start = Clock::now();
  if (start >= expires) {
    return refuse(command, absl::DeadlineExceededError(
                               fmt::format("'{}' waited longer than its {} s", command.what, command.deadline_s)));
  }
  Reply reply = handler(command);
  reply.id = command.id;
  reply.controller_epoch = command.controller_epoch;
  reply.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::lock_guard<std::mutex> lock(mutex_);
  // A newer controller may have come meanwhile; it numbers its own commands.
  if (reply.controller_epoch == epoch_) remember(reply);
  return reply;
}

void WorkerCore::remember(const Reply& reply) {
  replies_[reply.id] = reply;
  reply_bytes_ += static_cast<int64_t>(reply.body.size());
  while (replies_.size() > 1 && (replies_.size() > kReplies || reply_bytes_ > kReplyBytes)) {
    const auto oldest = replies_.begin();
    forgotten_ = std::max(forgotten_, oldest->first);
    reply_bytes_ -= static_cast<int64_t>(oldest->second.body.size());
    replies_.erase(oldest);
  }
}

}  // namespace scalai::executor::rpc::internal
