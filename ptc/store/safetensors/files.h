#pragma once
// File system functions for checkpoints: durable files and folders. Errors name the path. ResourceExhausted: a full
// disk or quota. NotFound: the path cannot be opened. Aborted: a read or write failed. Any thread may call the
// functions; one thread at a time for each object.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/file_descriptor.h"

namespace scalai::store {

// Most bytes of one call of write(). Larger ones get page cache in blocks of 2 MiB; a virtual machine that gives free
// memory back to its host has given back those, and takes them back page by page. Measured (2.1 GB to ext4, Linux 6.18,
// 3 s after as much was freed): dd bs=4M 3.2 to 6.2 s, bs=1M 1.2, bs=256k 1.0, bs=4k 2.6.
inline constexpr size_t kMostWritten = size_t{256} << 10;

// A file that is written front to back. The destructor removes the file unless finish() succeeded.
class OutputFile {
 public:
  // Makes a new file (an existing file is emptied) and reserves `bytes_total`, so that a full disk is an error before
  // any write if the file system can reserve space.
  static absl::StatusOr<OutputFile> create(const std::string& path, int64_t bytes_total);
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&&) = delete;

  absl::Status append(std::span<const std::byte> bytes);
  // Flushes and closes. After OK the content is on disk; its folder entry needs sync_folder.
  absl::Status finish();

 private:
  OutputFile(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  std::string path_;
  FileDescriptor fd_;
  int64_t bytes_ = 0;
};

// Writes a small file; its content is on disk when this returns OK.
absl::Status write_synced(const std::string& path, std::string_view bytes);

// Makes the entries of a folder durable.
absl::Status sync_folder(const std::string& path);
// Creates the folder and its parents, durably.
absl::Status make_synced_folders(const std::string& path);

// Renames `temporary`, with content already on disk, to `folder`; durable when this returns OK. An empty `folder` is
// replaced. Any other existing `folder` is InvalidArgument (kRefused), or is exchanged with `temporary` in one step and
// then removed (kReplaced), so at any moment one of the two has the name. File systems without that step (NFS, some of
// FUSE) take two: a kill between them leaves the old folder complete under replaced_name(), and `temporary` as it was;
// the next call goes on from there. Errors before the rename leave both unchanged. After a failed flush (Aborted)
// `folder` may be the new one, and a power cut may undo that: nothing is removed, and the caller removes nothing
// either.
enum class Existing : uint8_t { kRefused, kReplaced };
struct PublishCalls {                                               // of the system; tests give others
  std::function<int(const char* one, const char* other)> exchange;  // as renameat2: −1 and errno
  std::function<absl::Status(const std::string& folder)> sync;
  PublishCalls();
};
absl::Status publish_folder(const std::string& temporary, const std::string& folder,
                            Existing existing = Existing::kReplaced, const PublishCalls& calls = {});
std::string replaced_name(const std::string& folder);  // "a/b" → "a/.b.replaced"
// Removes a folder with its content and ignores errors; use it for folders with temporary names only.
void remove_folder(const std::string& path);

// Whether a relative path leads to something below where it begins: "a/b"; not "", "/a", "a//b", "./a", "a/../b".
bool is_inside(std::string_view path);

// "checkpoints/a/" → "checkpoints"; "a" → ".".
std::string parent_of(const std::string& path);
// The path without slashes at its end; "/" stays.
std::string without_trailing_slash(const std::string& path);

}  // namespace scalai::store
