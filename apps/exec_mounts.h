#pragma once
// Mounts of `scalai fs` that follow jobs: dataset/current of each points to the layout that its job trains in.
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
// Of vfs/control.h, and to stderr.
FollowOptions follow_options();

class FollowedMounts {
 public:
  // By job: where it is mounted. Nobody is asked yet.
  explicit FollowedMounts(std::map<int, std::string> directories, FollowOptions options = follow_options());
  // Does not wait for a server that hangs: its thread is left to itself.
  ~FollowedMounts();
  FollowedMounts(const FollowedMounts&) = delete;
  FollowedMounts& operator=(const FollowedMounts&) = delete;

  // Switches the job's mount, if it has one, and waits for the answer as long as there is patience. What goes wrong is a
  // warning: a run is worth more than a link. While a server hangs only the newest request is kept for it, and nobody
  // waits. From one thread.
  void follow(int job, int dp, int64_t step);

 private:
  class Mount;
  std::map<int, std::shared_ptr<Mount>> mounts_;
};

}  // namespace scalai::apps
