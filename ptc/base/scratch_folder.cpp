#include "ptc/base/scratch_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace scalai {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRandom = "-XXXXXX";

FileDescriptor opened(const std::string& folder) {
  return FileDescriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

// The lock goes with the process, however that ends; process ids come again, and those of other containers are not
// seen.
bool is_abandoned(const FileDescriptor& folder) {
  struct stat info {};
  return folder.get() >= 0 && ::fstat(folder.get(), &info) == 0 && info.st_uid == ::geteuid() &&
         ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0;
}

void remove_abandoned(const fs::path& parent, const std::string& name) {
  std::error_code error;
  for (fs::directory_iterator at(parent, error), end; !error && at != end; at.increment(error)) {
    const std::string found = at->path().filename().string();
    if (!found.starts_with(name + "-") || found.size() != name.size() + kRandom.size()) continue;
    const FileDescriptor folder = opened(at->path().string());
    std::error_code ignored;
    if (is_abandoned(folder)) fs::remove_all(at->path(), ignored);
  }
}

}  // namespace

ScratchFolder::ScratchFolder(const std::string& name) {
  std::error_code error;
  fs::path parent = fs::temp_directory_path(error);
  if (!error) parent = fs::absolute(parent, error);
  if (error) return;
  remove_abandoned(parent, name);
  constexpr int kTries = 100;  // somebody removes it before it is locked: it looked abandoned
  for (int i = 0; i < kTries && path_.empty(); ++i) {
    std::string path = (parent / (name + std::string(kRandom))).string();
    if (::mkdtemp(path.data()) == nullptr) return;
    lock_ = opened(path);
    if (lock_.get() < 0 && errno == ENOENT) continue;
    struct stat info {};
    const bool ours = ::flock(lock_.get(), LOCK_EX) == 0 && ::fstat(lock_.get(), &info) == 0 && info.st_nlink > 0;
    if (ours || lock_.get() < 0) path_ = path;
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace scalai
