#pragma once
// The options of `scalai fs mount`, read and checked as a whole before the mount. All problems are reported.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/fs/fs_live.h"
#include "ptc/base/command.h"
#include "ptc/store/views/checkpoint.h"
#include "vfs/dataset_tree.h"
#include "vfs/server.h"

namespace scalai::apps {

struct FsRequest {
  vfs::ServerOptions server;
  std::shared_ptr<const store::Checkpoint> checkpoint;  // null: none
  std::unique_ptr<vfs::DatasetTree> datasets;           // null: none
  std::unique_ptr<LiveMount> live;                      // a run's jobs; null: none

  // "a checkpoint and 2 datasets"
  std::string what() const;
  std::shared_ptr<vfs::Directory> root() const;
};

std::vector<OptionSpec> fs_mount_options();

struct FsRefusal {
  std::string text;  // lines for stderr
  int code = 0;      // exit code
};

// The request, or nullopt and all problems in `refusal`. Removes dead scalai mounts at the mount point; changes nothing
// else.
std::optional<FsRequest> read_fs_request(const Arguments& arguments, FsRefusal& refusal);

}  // namespace scalai::apps
