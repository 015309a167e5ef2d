#pragma once
// The source of `scalai near`: its files, and the hosts that have them.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/placement.h"
#include "labs/near/session.h"
#include "ptc/base/command.h"

namespace scalai::apps {

struct SourceRequest {
  std::string folder;              // of the source here, absolute; it need not be there if hosts have it
  bool is_here = false;            // it is a folder of this machine
  std::vector<std::string> files;  // of a dataset, below the folder; empty: all
  std::vector<near::Host> hosts;
};

// The folder of SOURCE on this machine, absolute: itself, or that of a dataset's index.
std::string folder_of_source(const std::string& source);
// Without hosts this machine is the only one. NotFound: no such source. InvalidArgument: a dataset with files outside
// of its folder.
absl::StatusOr<SourceRequest> read_source(const std::string& source, std::vector<near::Host> hosts);

// Asks every host for its files. `jobs`: parts at a time on each; 0: as many as it has processors. Aborted: hosts that
// do not answer, all of them; NotFound: hosts that have no such folder; InvalidArgument: files that differ, or none at
// all. `waiting` receives a session of each host.
absl::StatusOr<near::Source> list_source(const SourceRequest& request, const near::Launch& launch, int jobs,
                                         std::vector<std::unique_ptr<near::Session>>& waiting);

}  // namespace scalai::apps
