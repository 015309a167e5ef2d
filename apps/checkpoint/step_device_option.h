#pragma once
// --backend of commands with --transform: where its steps are computed.

#include "absl/status/status.h"
#include "ptc/base/command.h"
#include "ptc/store/views/checkpoint.h"

namespace scalai::apps {

OptionSpec step_backend_option();  // --backend=host|cuda
// Sets options.device. NotFound: no GPU here, or none in this build; ResourceExhausted: no room on it.
absl::Status choose_step_device(const Arguments& arguments, store::OpenOptions& options);

}  // namespace scalai::apps
