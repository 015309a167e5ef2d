#pragma once
// Runs the parts of a placement on their hosts, some at a time on each, and keeps what they put out in files: whoever
// reads the outputs has all of all parts, or an error.
//
//   part ─► its host ──(the worker is gone, or the command failed there)──► another host that has the files ─► … ─►
//   here, with the files where they can be read here, or fetched
//
// What a command does here is its answer, as it would be without all this.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/annotation.h"
#include "labs/near/placement.h"
#include "labs/near/session.h"
#include "labs/near/work.h"

namespace scalai::near {

struct Question {
  Pipeline pipeline;
  std::vector<Use> uses;
  Source source;
  Launch launch;
  std::vector<Variable> environment;  // of commands on other hosts; on this machine they have that of this process
  std::string here;                   // folder of the source on this machine; "" = none
  std::string scratch;                // folder for outputs and fetched files
  // Sessions that wait for work, one of each host or null; gather() takes them, and starts more. Null: there are none.
  std::vector<std::unique_ptr<Session>>* waiting = nullptr;
  std::function<void(size_t done, size_t parts)> progress;  // one call at a time
};

struct PartOutput {
  std::string path;
  PartEnd end;
};

struct Gathered {
  std::vector<PartOutput> parts;   // as those of the placement
  int64_t moved_bytes = 0;         // from other hosts
  std::vector<std::string> notes;  // what was run again, and why
};

// Aborted: a part that nobody could run, with all reasons; or no room for outputs here.
absl::StatusOr<Gathered> gather(const Question& question, const Placement& placement);

// Copies files of the source below `folder`, from any host that has them; those that are there already stay. One call
// at a time: a file arrives as `folder`.arriving. Aborted: no host that has a file answers.
absl::Status fetch(const Question& question, const std::vector<std::string>& files, const std::string& folder,
                   int64_t& moved_bytes);

// The status of a command's end as a shell says it.
int status_of(const StageEnd& end);

}  // namespace scalai::near
