#pragma once
// The part of a mount that shows running jobs: jobs/NAME/step-current -> step-00000012/views/LAYOUT/FILES.
//
// step-current leads to the job's state as it is when the link is followed, or was within the last second; to the last
// step that is still there, if no newer one is to be had. A step stays as it was, and is kept where it is
// read from, while a file of it is open, and for a while after anything of it was looked up or read, or a
// moment where newer ones find no room. Then its memory goes
// back to the job, and what is still known of it is ESTALE: never the bytes of another step. A step that is shown once
// more later has another name ("step-00000012.1"), since kernels remember the first.
//
// Owns a thread. The directory may outlive the LiveTree: nothing new is shown then. Thread-safe.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/views/checkpoint.h"
#include "vfs/tree.h"

namespace scalai::vfs {

struct ShownStep {
  std::shared_ptr<const store::Checkpoint> checkpoint;  // its info() has the step
  std::shared_ptr<const void> kept;                     // as long as this lives, reads of the checkpoint work
  const void* id = nullptr;                             // equal for equal copies
};
// The state of a job as it is. May block. Any thread, several at once.
using NewestStep = std::function<absl::StatusOr<ShownStep>()>;

struct LiveTimes {
  double idle_s = 30;  // so long a step stays after its last use
  double fresh_s = 1;  // so long the link stays where it led
};

class LiveTree {
 public:
  // `complain` gets what kept a newer step from being shown.
  LiveTree(std::vector<std::pair<std::string, NewestStep>> jobs, LiveTimes times,
           const std::function<void(const std::string& line)>& complain);
  ~LiveTree();
  std::shared_ptr<Directory> directory() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace scalai::vfs
