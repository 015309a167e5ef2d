#pragma once
// The jobs of a run that goes on, as a part of a mount (vfs/live_tree.h). One thread, except the directory.

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "executor/live/live_bytes.h"
#include "vfs/log.h"
#include "vfs/tree.h"

namespace scalai::apps {

struct LiveShown {
  bool optimizer = false;  // masters and moments, too
  bool fleeting = false;   // executor::LiveOptions
  int64_t version = 0;     // executor::LiveOptions
  double keep_s = 30;      // vfs::LiveTimes
  double refresh_s = 1;
  int64_t kept_bytes = 0;  // executor::LiveOptions
};

class LiveMount {
 public:
  virtual ~LiveMount() = default;
  // `run`: its --out folder. Errors: NotFound (no run goes on there, or the program was built without the executor),
  // those of asking its controller for its jobs.
  static absl::StatusOr<std::unique_ptr<LiveMount>> open(const std::string& run, const LiveShown& shown);
  virtual std::shared_ptr<vfs::Directory> directory() const = 0;
  // Where it is said why a step is not shown; outlives this.
  virtual void log_to(vfs::Log& log) = 0;
  virtual executor::live::LiveBytes read() const = 0;  // any thread
};

}  // namespace scalai::apps
