#pragma once
// A process group that dies with its owner, however that ends: a guard leads it, waits for the end of a pipe that only
// the owner holds, and kills the group. One thread.

#include <sys/types.h>

#include "absl/status/statusor.h"
#include "ptc/base/file_descriptor.h"

namespace scalai {

class GuardedGroup {
 public:
  // Aborted: there is no room for a process.
  static absl::StatusOr<GuardedGroup> start();
  GuardedGroup() = default;  // none
  GuardedGroup(GuardedGroup&& other) noexcept;
  GuardedGroup& operator=(GuardedGroup&& other) noexcept;
  // Only the guard ends.
  ~GuardedGroup();

  pid_t id() const { return guard_; }  // for SpawnOptions::joins
  void kill();                         // all processes of it

 private:
  pid_t guard_ = -1;
  FileDescriptor held_;
};

}  // namespace scalai
