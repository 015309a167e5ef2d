#pragma once
// What a run of reshard has on disk, so that the next one can go on: a line of JSON for each fact, appended and flushed
// after what it tells of is on disk. Beside the folder, DST.partial.journal, so that the folder holds only what it shall.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/checkpoint/internal/files.h"
#include "ptc/checkpoint/view.h"

namespace scalai::checkpoint::internal {

// Of one file: `bytes` of it are on disk, and their checksum.
struct SyncPoint {
  int64_t bytes = 0;
  std::string checksum;
};

// Safe from several threads once it is open.
class Journal {
 public:
  // Opens or makes the file and locks it until the object goes. `job` says what is written (source, view, files). A file
  // of another job is InvalidArgument unless it is to be `restart`ed; one that another process has open is Aborted. A
  // line that was cut short by a kill is as if it were not there, and so is all after it.
  static absl::StatusOr<std::unique_ptr<Journal>> open(const std::string& path, const std::string& job, bool restart);

  // What the runs before had done.
  const std::map<size_t, FileSums>& done() const { return done_; }
  const std::map<size_t, SyncPoint>& begun() const { return begun_; }
  const std::optional<std::string>& publishing() const { return publishing_; }

  absl::Status sync_point(size_t file, const SyncPoint& point);
  absl::Status file_done(size_t file, const FileSums& sums);
  // The folder is whole, its manifest has this checksum, and it is about to get its name.
  absl::Status publish(const std::string& manifest_checksum);
  // Forgets everything: the next open() finds nothing.
  absl::Status remove();

 private:
  Journal(std::string path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  absl::Status append(const std::string& line);
  absl::Status begin(const std::string& job);
  bool take(const std::string& line);

  std::string path_;
  FileDescriptor fd_;
  std::mutex mutex_;
  std::map<size_t, FileSums> done_;
  std::map<size_t, SyncPoint> begun_;
  std::optional<std::string> publishing_;
};

}  // namespace scalai::checkpoint::internal
