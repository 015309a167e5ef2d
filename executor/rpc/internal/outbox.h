#pragma once
// Messages that wait to be written, and the one thread that writes them, so that nobody else blocks on a slow peer.

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "ptc/base/status.h"
#include "ptc/base/thread.h"

namespace scalai::executor::rpc::internal {

template <typename Message>
class Outbox {
 public:
  ~Outbox() { close(); }

  // `write` returns false when the connection is broken; what is queued then is dropped. ResourceExhausted: no thread.
  absl::Status start(std::function<bool(const Message&)> write) {
    SCALAI_ASSIGN_OR_RETURN(writer_, start_thread([this, write = std::move(write)] { write_all(write); }));
    return absl::OkStatus();
  }
  void push(Message message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    messages_.push_back(std::move(message));
    changed_.notify_all();
  }
  // True when nothing waits or is being written.
  bool idle() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return messages_.empty() && !writing_;
  }
  // Takes nothing more; what is queued is still written.
  void seal() {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }
  // Seals and waits for the writer. Not from within `write`.
  void close() {
    seal();
    if (writer_.joinable()) writer_.join();
  }

 private:
  void write_all(const std::function<bool(const Message&)>& write) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return closed_ || !messages_.empty(); });
      if (messages_.empty()) return;
      const Message message = std::move(messages_.front());
      messages_.pop_front();
      writing_ = true;
      lock.unlock();
      const bool written = write(message);
      lock.lock();
      writing_ = false;
      if (written) continue;
      closed_ = true;
      messages_.clear();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> messages_;
  bool closed_ = false;
  bool writing_ = false;
  std::thread writer_;
};

}  // namespace scalai::executor::rpc::internal
