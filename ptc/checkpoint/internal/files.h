#pragma once
// What checkpoints need of the file system: files that are on disk when we say so, folders likewise, reads at an offset.
// Errors name the path. A full disk (or quota) is ResourceExhausted, what cannot be opened NotFound, a failed read or
// write Aborted.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::checkpoint {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor();
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// A file being written front to back. Unless finish() succeeds, the file is removed when the object goes.
class OutputFile {
 public:
  // Makes a new file (an old one of the name is emptied) with room for `bytes_total`, so that a full disk is noticed
  // before anything is written where the file system can reserve space.
  static absl::StatusOr<OutputFile> create(const std::string& path, int64_t bytes_total);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;

  absl::Status append(std::span<const std::byte> bytes);
  // On disk when this returns OK, its folder entry excepted (sync_folder).
  absl::Status finish();

 private:
  OutputFile(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  FileDescriptor fd_;
};

// A small file with these bytes, on disk when this returns.
absl::Status write_synced(const std::string& path, std::string_view bytes);

// Makes the entries of a folder durable.
absl::Status sync_folder(const std::string& path);
// Creates the folder and its parents, durably.
absl::Status make_synced_folders(const std::string& path);

// Gives a folder, whose content is on disk, the name that it shall have; durable when this returns. An empty folder of the
// name gives way. Another one is InvalidArgument, or, if it is to be replaced, changes places with it, so that at any
// moment one of the two has the name, and is then removed. On an error nothing has changed. Unimplemented: the file system
// cannot exchange folders.
enum class Existing : uint8_t { kRefused, kReplaced };
absl::Status publish_folder(const std::string& temporary, const std::string& folder,
                            Existing existing = Existing::kReplaced);
// What cannot be removed stays: it has a temporary name.
void remove_folder(const std::string& path);

// "checkpoints/a/" → "checkpoints"; "a" → ".".
std::string parent_of(const std::string& path);
// Without slashes at the end.
std::string without_trailing_slash(const std::string& path);

}  // namespace scalai::checkpoint
