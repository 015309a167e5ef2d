#pragma once
// The asking side of `scalai exec ctl status|resize|drain`.

#include <string>

#include "absl/status/statusor.h"
#include "executor/control/messages.h"

namespace scalai::executor {

struct CtlTarget {
  std::string address;
  std::string token;
  std::string ca_file;  // as for a worker
  double timeout_s = 10;
};

// The controller's answer, or its error. Unavailable: no controller at this address; Unauthenticated: token.
absl::StatusOr<std::string> ask_controller(const CtlTarget& target, const CtlRequest& request);

}  // namespace scalai::executor
