#pragma once
// One UCX context and worker, and the descriptors that its thread sleeps on. Except for wake(), everything is called by
// one thread, the one that made it or one it was handed to. No UCX header is needed to include this.

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "executor/transport/ucx_transport.h"

struct ucp_context;
struct ucp_worker;

namespace scalai::executor::transport::internal {

// Unavailable, with the operation and UCX's word for the status (a ucs_status_t).
absl::Status ucx_error(const std::string& what, int status);

class UcxWorker {
 public:
  // Unavailable when UCX has no usable transport; the message names the call that failed.
  static absl::StatusOr<std::unique_ptr<UcxWorker>> create(const UcxOptions& options);
  // Endpoints are closed before, or leak into a warning of UCX.
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  ucp_worker* handle() const { return worker_; }
  const std::string& address() const { return address_; }

  // Runs what is due, callbacks included; whether there was anything.
  bool progress();
  // Returns when there may be something to do: an event of UCX, a wake(), or `until` is reached.
  void sleep(std::optional<std::chrono::steady_clock::time_point> until);
  // Ends the current sleep() or the next. By any thread; cheap when one is pending already.
  void wake();

 private:
  UcxWorker() = default;
  absl::Status open(const UcxOptions& options);
  absl::Status open_context(const UcxOptions& options);
  absl::Status open_worker();
  absl::Status open_descriptors();

  ucp_context* context_ = nullptr;
  ucp_worker* worker_ = nullptr;
  std::string address_;
  int epoll_ = -1;
  int event_ = -1;  // eventfd of wake()
  std::atomic<bool> woken_ = false;
};

}  // namespace scalai::executor::transport::internal
