#include "apps/exec/exec_mounts.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "vfs/control.h"

namespace scalai::apps {

FollowOptions follow_options() {
  return {.ask = vfs::ask, .warn = [](const std::string& line) { say("scalai exec: {}\n", line); }};
}

// Asking may take for ever, when the server's threads do. So a thread does it that can be left behind: it keeps this
// alive.
class FollowedMounts::Mount : public std::enable_shared_from_this<Mount> {
 public:
  Mount(std::string directory, FollowOptions options)
      : directory_(std::move(directory)), options_(std::move(options)) {}

  void begin() {
    try {
      std::thread([self = shared_from_this()] { self->serve(); }).detach();
    } catch (const std::system_error& error) {  // of the standard library: no more threads
      busy_ = true;                             // for good: follow() waits for nobody
      options_.warn(fmt::format("{}: {}; its dataset/current stays as it is", directory_, error.what()));
    }
  }
  void end() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }

  void follow(std::string request) {
    std::unique_lock lock(mutex_);
    const bool hangs = busy_;
    next_ = std::move(request);
    changed_.notify_all();
    if (hangs) return;  // its warning has been given
    const bool answered = changed_.wait_for(lock, std::chrono::duration<double>(options_.patience_s),
                                            [this] { return !next_ && !busy_; });
    if (!answered)
      options_.warn(fmt::format("{}: no answer within {} s; dataset/current follows when its server goes on",
                                directory_, options_.patience_s));
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || next_; });
      if (!next_) return;  // what was asked for before the end is asked still
      const std::string request = *std::exchange(next_, std::nullopt);
      busy_ = true;
      lock.unlock();
      const absl::StatusOr<std::string> answer = options_.ask(directory_, request);
      lock.lock();
      busy_ = false;
      if (!answer.ok()) options_.warn(fmt::format("dataset/current stays: {}", message_of(answer.status())));
      changed_.notify_all();
    }
  }

  const std::string directory_;
  const FollowOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string> next_;
  bool busy_ = false;
  bool over_ = false;
};

FollowedMounts::FollowedMounts(const std::map<int, std::string>& directories, const FollowOptions& options) {
  for (auto& [job, directory] : directories) {
    const auto mount = std::make_shared<Mount>(directory, options);
    mount->begin();
    mounts_.emplace(job, mount);
  }
}

FollowedMounts::~FollowedMounts() {
  for (const auto& [job, mount] : mounts_) mount->end();
}

void FollowedMounts::follow(int job, int dp, int64_t step) {
  const auto found = mounts_.find(job);
  if (found != mounts_.end()) found->second->follow(fmt::format("repartition dp={} step={}", dp, step));
}

}  // namespace scalai::apps
