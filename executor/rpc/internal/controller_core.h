#pragma once
// What every controller's end does alike: members, commands that wait for an outcome, the event queue. How messages
// travel is behind Link. Thread-safe; one mutex, and a Link's functions are called under it, so that a worker sees its
// Welcome first and then its commands in the order of their ids.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "executor/rpc/controller_end.h"

namespace scalai::proto {
class Welcome;
}

namespace scalai::executor::rpc::internal {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
Clock::duration seconds(double value);  // a day at most; not below 0

struct Refusal {
  std::string reason;
  bool retry = false;  // it may work later
};
absl::Status status_of(const Refusal& refusal);  // Unavailable when it may work later, else FailedPrecondition

// A connection to one worker. The functions only queue what they say; they neither block nor call back.
class Link {
 public:
  virtual ~Link() = default;
  virtual void welcome(const proto::Welcome& welcome) = 0;
  virtual void deliver(const Command& command) = 0;
  virtual void goodbye(const std::string& reason) = 0;
  virtual void departed(int32_t host) = 0;                        // another worker is lost
  virtual void close(const std::string& reason, bool clean) = 0;  // clean: the worker has said goodbye
};

class ControllerCore : public ControllerEnd {
 public:
  explicit ControllerCore(ControllerOptions options) : options_(std::move(options)) {}
  // InvalidArgument: what start() of every end refuses.
  static absl::Status check(const ControllerOptions& options);

  // --- for the connections -------------------------------------------------------------------------------------------
  // Takes a worker in (its Welcome is delivered through `link`), or says why not.
  std::optional<Refusal> join(const proto::Hello& hello, const std::shared_ptr<Link>& link);
  void replied(const Link* link, Reply reply);
  // The worker's count of work done: if it has changed, commands to it have all of their time again.
  void worked(const Link* link, uint64_t work_done);
  // Does nothing when `link` is not (or no longer) a member's.
  void lost(const Link* link, const std::string& reason, bool clean);

  // --- ControllerEnd -------------------------------------------------------------------------------------------------
  int64_t epoch() const override { return options_.epoch; }
  std::vector<WorkerJoined> workers() const override;
  std::optional<Event> next_event(double timeout_s) override;
  void notify(std::string text) override;
  int64_t send(int32_t host, Command command, double deadline_s) override;
  std::vector<absl::StatusOr<Reply>> call_all(std::vector<Call> calls, double deadline_s) override;
  void cut(int32_t host, const std::string& reason) override;
  void dismiss(const std::string& reason, double timeout_s) override;

 protected:
  using Lock = std::unique_lock<std::mutex>;
  // The seam for virtual time. wait() returns at a change, at `until`, or for no reason.
  virtual TimePoint now() const { return Clock::now(); }
  virtual void wait(Lock& lock, TimePoint until) { changed_.wait_until(lock, until); }
  const ControllerOptions& options() const { return options_; }

 private:
  struct Member {
    std::shared_ptr<const proto::Hello> hello;
    std::shared_ptr<Link> link;
    int64_t session = 0;
    uint64_t work_done = 0;
  };
  struct Pending {
    int32_t host = -1;
    std::string what;
    double deadline_s = 0;
    TimePoint deadline;
    bool awaited = false;  // by call_all, which takes the result
    std::optional<absl::StatusOr<Reply>> result;
  };

  std::optional<Refusal> refusal_of(const proto::Hello& hello) const;
  std::optional<int32_t> free_host() const;
  int64_t begin(int32_t host, Command command, double deadline_s, bool awaited);
  void complete(int64_t id, absl::StatusOr<Reply> result);
  void remove(int32_t host, const std::string& reason, bool clean);
  void expire();
  TimePoint next_deadline(TimePoint at_latest) const;
  bool wait_for(Lock& lock, const std::vector<int64_t>& ids, const std::vector<Call>& calls);
  std::vector<absl::StatusOr<Reply>> take(const std::vector<int64_t>& ids, const std::string& why_cancelled);
  std::optional<std::vector<absl::StatusOr<Reply>>> absent(const std::vector<Call>& calls) const;
  int64_t unclean_losses(const std::vector<Call>& calls) const;

  const ControllerOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int32_t, Member> members_;
  std::set<int32_t> used_hosts_;
  std::map<int32_t, int64_t> losses_;  // not clean, by host
  std::map<int64_t, Pending> pending_;
  std::deque<Event> events_;
  int64_t next_id_ = 1;
  int64_t last_session_ = 0;
  std::optional<std::string> dismissed_;  // why; whoever joins from now on is told too
};

}  // namespace scalai::executor::rpc::internal
