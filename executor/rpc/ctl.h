#pragma once
// The client of `scalai exec ctl status|resize|drain`. One free function; any thread.

#include <string>

#include "absl/status/statusor.h"
#include "executor/rpc/messages.h"

namespace scalai::executor {

struct CtlTarget {
  std::string address;
  std::string token;
  std::string ca_file;  // "" = no TLS, as for a worker
  double timeout_s = 10;
};

// Sends a request to a controller that proves that it knows the token; returns its answer or its error. Blocks for up to
// timeout_s. Unavailable: no controller at this address. Unauthenticated: wrong token, or the other end does not know it.
// FailedPrecondition: a controller of another build, or another program.
absl::StatusOr<std::string> ask_controller(const CtlTarget& target, const CtlRequest& request);

}  // namespace scalai::executor
