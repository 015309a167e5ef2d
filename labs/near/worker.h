#pragma once
// The worker of a host: reads work from one descriptor, answers on another, one after the other, until the first is
// closed. It has no port and no secret: whoever may start a process as this user may use it, and nobody else.

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "labs/near/work.h"

namespace scalai::near {

// The folder in which the files of a run's step are; it stays as long as the worker serves. Asked for once for each.
// While it takes its time, the worker says that it lives.
using OpenRun = std::function<absl::StatusOr<std::string>(const std::string& run, const RunView& view)>;

// Returns when `in` is closed, or nobody reads the answers. Ignores SIGPIPE from then on, and sets variables of this
// process: one thread. `scratch`: a folder for scripts that are sent along; "" = there is none. Without `open_run` runs
// are refused.
void serve(int in, int out, const std::string& scratch, const OpenRun& open_run = {});

// Regular files below a folder, by their paths in it, links followed; names that begin with a dot are left out, as a
// pattern of a shell leaves them out.
Listed list_folder(const std::string& folder);

}  // namespace scalai::near
