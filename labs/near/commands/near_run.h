#pragma once
// A run that goes on as the source of `scalai near`: its job's step of now, through a mount of scalai fs of our own,
// here and on the hosts of workers.

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "labs/near/work.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::apps {

// Unmounts when it goes. One thread.
class RunSource {
 public:
  // `view.job`: "" is the only one; `view.view`: a layout, as below views/ of a mount; `view.step`: of a step that
  // another reader keeps, 0: the newest one. `scratch`: a folder for the mount, which has none yet. NotFound: no
  // scalai-fs, no FUSE, no such job, step or view. Aborted: the run does not answer.
  static absl::StatusOr<std::unique_ptr<RunSource>> open(const std::string& run, const near::RunView& view,
                                                         const std::string& scratch);
  ~RunSource();
  RunSource(const RunSource&) = delete;
  RunSource& operator=(const RunSource&) = delete;

  // Of the step's files, which stay as they are while this object lives.
  const std::string& folder() const { return folder_; }
  const std::string& step() const { return step_; }  // "step-00000120"

 private:
  explicit RunSource(std::string mount) : mount_(std::move(mount)) {}
  absl::Status wait_until_mounted(const std::string& run, const std::string& log);
  const std::string mount_;
  pid_t server_ = -1;
  std::string folder_, step_;
  FileDescriptor life_;  // the mount ends when it is closed
  FileDescriptor kept_;  // a file of the step: it does not go while one is open
};

}  // namespace scalai::apps
