#pragma once
// The client of `scalai exec ctl status|resize|drain`, and of readers of live steps.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/rpc/messages.h"

namespace scalai::executor::rpc {

struct CtlTarget {
  std::string address;
  std::string token;
  std::string ca_file;  // "" = no TLS, as for a worker
  double timeout_s = 10;
};

// Sends a request to a controller that proves that it knows the token; returns its answer or its error. Blocks for up
// to timeout_s. Unavailable: no controller at this address. Unauthenticated: wrong token, or the other end does not
// know it. FailedPrecondition: a controller of another build, or another program. Any thread.
absl::StatusOr<std::string> ask_controller(const CtlTarget& target, const proto::CtlRequest& request);

// A connection for many requests, one after another: both ends prove once that they know the token. One thread at a
// time.
class CtlLine {
 public:
  // It lasts for timeout_s. Errors: those of ask_controller.
  static absl::StatusOr<std::unique_ptr<CtlLine>> open(const CtlTarget& target);
  ~CtlLine();
  // After an error there is no other answer. DeadlineExceeded: its time is over.
  absl::StatusOr<std::string> ask(const proto::CtlRequest& request);

 private:
  struct State;
  explicit CtlLine(std::unique_ptr<State> state);
  // Ends the call: its error, or else `otherwise`.
  absl::Status end(const absl::Status& otherwise);
  absl::Status failure(const absl::Status& status) const;  // with the controller's address
  const std::unique_ptr<State> state_;
};

}  // namespace scalai::executor::rpc
