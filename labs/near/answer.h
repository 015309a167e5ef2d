#pragma once
// The answer to a question: the output of its pipeline, on standard output, and the status of its last command, both as
// `sh -c` in the folder of the source gives them. Parts run near (gather.h); what they put out shows at times that the
// split was not right (a NUL byte for grep, a last line without its end amid the stream): then less is split, and it
// begins anew. Nothing is written before every part is whole.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/gather.h"
#include "labs/near/merge.h"

namespace scalai::near {

struct Answered {
  int status = 0;  // of the last command; 128 + the signal that ended it
  int64_t moved_bytes = 0;
  std::vector<std::string> notes;
};

// For a program's main thread, while there are no others: standard input, output and error are those of commands that
// run here. Sets the handling of SIGPIPE. Errors: those of gather() and fetch(). FailedPrecondition: nobody reads
// standard output.
absl::StatusOr<Answered> answer(const Question& question, const PlaceOptions& options);

// Runs commands in a folder ("": the one of this process), joined by pipes. `feed` writes standard input of the first,
// which without it is this process's; the commands may be none: then it writes standard output. Returns the status of
// the last command.
absl::StatusOr<int> run_commands(const std::vector<Command>& commands, const std::string& folder,
                                 const std::function<absl::Status(const Sink&)>& feed);

}  // namespace scalai::near
