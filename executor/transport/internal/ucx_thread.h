#pragma once
// The thread that owns a UCX worker, and both ends that live on it. Others only hand it tasks.

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "executor/transport/internal/ucx_answering.h"
#include "executor/transport/internal/ucx_asking.h"
#include "executor/transport/internal/ucx_endpoints.h"
#include "executor/transport/internal/ucx_worker.h"

namespace scalai::executor::transport::internal {

class UcxThread {
 public:
  using Task = std::function<void()>;

  static absl::StatusOr<std::unique_ptr<UcxThread>> start(AnswerHandler handler, const UcxOptions& options);
  ~UcxThread() { stop(); }

  const Self& self() const { return self_; }

  // Runs the task on the thread, after those posted before it. False, and nothing happens, once stop() is done.
  bool post(Task task);
  // Ends all fetches with Cancelled and all connections, destroys the worker. Waits for it. Idempotent.
  void stop();

  UcxAsking& asking() { return asking_; }
  bool stopping() const { return stopping_; }

  // From UCX's callbacks, on the thread.
  bool answer_came(const AnswerHeader& header, void* data, int64_t bytes, bool rendezvous);
  void ask_came(const AskHeader& header, std::string_view body) { answering_.asked(header, body); }
  void cancel_came(const CancelHeader& header, std::string_view body) { answering_.cancelled(header, body); }

 private:
  UcxThread(std::unique_ptr<UcxWorker> worker, Self self, AnswerHandler handler, const UcxOptions& options);
  absl::Status listen();
  void run();
  void shut_down();
  // Until it is finished and nothing more happens, or `limit` is over.
  void progress_while(std::chrono::milliseconds limit, const std::function<bool()>& unfinished);
  bool run_tasks();
  std::optional<Deadline> next_timer() const;

  const Self self_;
  std::unique_ptr<UcxWorker> worker_;
  UcxEndpoints endpoints_;
  UcxAsking asking_;
  UcxAnswering answering_;
  bool stopping_ = false;  // of the thread

  std::mutex mutex_;
  std::deque<Task> tasks_;
  bool over_ = false;

  std::thread thread_;
};

}  // namespace scalai::executor::transport::internal
