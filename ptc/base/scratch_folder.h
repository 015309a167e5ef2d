#pragma once
// A folder of our own under TMPDIR, which goes with the object. A process that is killed leaves its folder behind; the
// next one of the same user that makes one of this name removes it. One thread.

#include <string>

#include "ptc/base/file_descriptor.h"

namespace scalai {

class ScratchFolder {
 public:
  // "scalai-sim" makes /tmp/scalai-sim-k3Jx9q. Absolute: commands that get its path run in other folders.
  explicit ScratchFolder(const std::string& name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // empty: none could be made

 private:
  std::string path_;
  FileDescriptor lock_;  // says that its owner lives
};

}  // namespace scalai
