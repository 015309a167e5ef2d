#pragma once
// A folder of our own under TMPDIR, which goes with the object. One thread.

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace scalai {

class ScratchFolder {
 public:
  // "scalai-sim" makes /tmp/scalai-sim-k3Jx9q. Absolute: commands that get its path run in other folders.
  explicit ScratchFolder(const std::string& name) {
    std::error_code error;
    std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    if (!error) folder = std::filesystem::absolute(folder, error);
    if (error) return;
    std::string path = (folder / (name + "-XXXXXX")).string();
    if (::mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }  // empty: none could be made

 private:
  std::string path_;
};

}  // namespace scalai
