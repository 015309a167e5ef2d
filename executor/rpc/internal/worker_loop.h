#pragma once
// What every worker's end does alike: join, read commands on one thread while run() executes them on another, join
// again after a loss, leave. How messages travel is behind Dialer and Wire.

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>

#include "absl/status/statusor.h"
#include "executor/rpc/internal/controller_core.h"
#include "executor/rpc/internal/worker_core.h"
#include "executor/rpc/worker_end.h"

namespace scalai::executor::rpc::internal {

struct Dismissed {
  std::string reason;
};
struct Departed {
  int32_t host = 0;
};
using Incoming = std::variant<Command, Dismissed, Departed>;

// One connection that was welcomed.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual const proto::Welcome& welcome() const = 0;
  // Blocks; nullopt: the connection is over. One thread.
  virtual std::optional<Incoming> read() = 0;
  virtual std::string reason() = 0;
  // The rest from any thread; they only queue.
  virtual void reply(const Reply& reply) = 0;
  virtual void goodbye(const std::string& reason) = 0;  // last; read() ends soon
  virtual void cut() = 0;                               // read() ends now
};

class Dialer {
 public:
  virtual ~Dialer() = default;
  // Unavailable: try again. Any other error is a refusal. Takes some seconds at most.
  virtual absl::StatusOr<std::shared_ptr<Wire>> dial(const proto::Hello& hello) = 0;
};

class WorkerLoop final : public WorkerEnd {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerEnd>> connect(WorkerOptions options, std::unique_ptr<Dialer> dialer);
  ~WorkerLoop() override;

  proto::Welcome welcome() const override;
  absl::Status run(const CommandHandler& handler) override;
  void stop(const std::string& reason) override;

 private:
  struct Queued {
    Command command;
    TimePoint expires;
    uint64_t work_done;  // when it came: what is done since then has given it more time
  };

  WorkerLoop(WorkerOptions options, std::unique_ptr<Dialer> dialer);
  // A worker that holds state outlasts refusals: who refuses may be another program, or gone in a moment.
  enum class OnRefusal { kGiveUp, kTryAgain };
  absl::StatusOr<std::shared_ptr<Wire>> join(double timeout_s, OnRefusal on_refusal);
  absl::StatusOr<std::shared_ptr<Wire>> dial();
  void adopt(std::shared_ptr<Wire> wire);
  void read_until_over();
  bool read_until_lost(Wire& wire);
  void finish(absl::Status status);
  bool over() const;
  std::optional<Queued> next();
  void answer(const Reply& reply);

  const WorkerOptions options_;
  const std::unique_ptr<Dialer> dialer_;
  WorkerCore core_;
  const std::unique_ptr<proto::Hello> hello_;  // of the thread that joins

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Wire> wire_;
  std::deque<Queued> inbox_;
  std::optional<absl::Status> over_;
  bool leaving_ = false;  // we said goodbye
  std::thread reader_;
};

}  // namespace scalai::executor::rpc::internal
