#pragma once
// Mounts of `scalai fs` that follow jobs: dataset/current of each points to the present layout of its job.
//
//   follow(job, dp, step) ─► the mount's thread ─ "repartition dp= step=" ─► its server ─► dataset/current

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace scalai::apps {

struct FollowOptions {
  std::function<absl::StatusOr<std::string>(const std::string& directory, const std::string& request)> ask;
  std::function<void(const std::string& line)> warn;
  double patience_s = 5;  // for an answer
};
// Asks by vfs/control.h; warns on stderr.
FollowOptions follow_options();

class FollowedMounts {
 public:
  // `directories`: mount point by job. Sends nothing.
  explicit FollowedMounts(const std::map<int, std::string>& directories,
                          const FollowOptions& options = follow_options());
  // Does not wait for a hanging server: its thread is detached.
  ~FollowedMounts();
  FollowedMounts(const FollowedMounts&) = delete;
  FollowedMounts& operator=(const FollowedMounts&) = delete;

  // Switches the job's mount, if it has one, and waits up to patience_s for the answer. Failures are warnings: a run
  // matters more than a link. While a server hangs, only the newest request is kept for it, and nobody waits. One
  // thread.
  void follow(int job, int dp, int64_t step);

 private:
  class Mount;
  std::map<int, std::shared_ptr<Mount>> mounts_;
};

}  // namespace scalai::apps
