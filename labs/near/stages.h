#pragma once
// Processes of a pipeline on one machine, joined by pipes, without a shell:
//
//   ranges ─► pump ─► stage 0 ─► pump ─► stage 1 ─► … ─► output
//                        └── standard error of all stages ─► errors
//
// A pump passes bytes on and looks at them: NUL bytes, the end of the last line. A stage that ends early ends those
// before it by SIGPIPE, as in a shell. All of them die with this process. SIGPIPE must be ignored in this process. One
// thread calls; pumps have threads of their own.

#include <functional>
#include <string>
#include <string_view>

#include "labs/near/work.h"

namespace scalai::near {

struct StageWatch {
  // Both from the caller's thread; false ends the part. output: what came; beat: called at least each second.
  std::function<bool(std::string_view bytes)> output;
  std::function<bool()> beat;
  std::string scratch;  // folder for scripts that were sent along
};

// Never fails: what went wrong is in PartEnd::problem. All processes have ended on return.
PartEnd run_part(const PartWork& work, const StageWatch& watch);

// The status that sh gives a command which spawn() could not start.
int status_without_start(const absl::Status& spawned);

// The first byte of the record that begins at `position` or after it; the size of the file if none does.
absl::StatusOr<int64_t> record_at(int fd, int64_t position, int64_t size);

}  // namespace scalai::near
