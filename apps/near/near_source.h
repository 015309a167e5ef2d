#pragma once
// The source of `scalai near`: its files, and the hosts that have them.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "near/placement.h"
#include "near/session.h"
#include "ptc/base/command.h"

namespace scalai::apps {

struct SourceRequest {
  std::string folder;              // of the source here, absolute; it need not be there if hosts have it
  bool is_here = false;            // it is a folder of this machine
  std::vector<std::string> files;  // of a dataset, below the folder; empty: all
  std::vector<near::Host> hosts;
};

std::vector<OptionSpec> source_options();

// Checks SOURCE, --host and --hosts: all problems at once. NotFound: no such source. InvalidArgument: hosts that are none, a dataset
// with files outside of its folder.
absl::StatusOr<SourceRequest> read_source(const std::string& source, const Arguments& arguments);

// Asks every host for its files. `jobs`: parts at a time on each; 0: as many as it has processors. Aborted: hosts that do not
// answer, all of them; NotFound: hosts that have no such folder; InvalidArgument: files that differ, or none at all.
absl::StatusOr<near::Source> list_source(const SourceRequest& request, const near::Launch& launch, int jobs);

}  // namespace scalai::apps
