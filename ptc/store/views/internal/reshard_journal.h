#pragma once
// What a run of reshard has on disk, so that the next one can go on: a line of JSON for each fact, appended and flushed
// after what it tells of is on disk. Beside the folder, DST.partial.journal, so that the folder holds only what it
// shall.

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {

// Of one file: `bytes` of it are on disk, and their checksum.
struct SyncPoint {
  int64_t bytes = 0;
  std::string checksum;
};

// Safe from several threads once it is open.
class Journal {
 public:
  // Opens or makes the file and locks it until the object goes; nothing is written yet. `job` says what is written
  // (source, view, files). A file of another job is InvalidArgument unless it is to be `restart`ed; so is, in any case,
  // one that is no journal. One that another process has open is Aborted. A line that was cut short by a kill is as if
  // it were not there, and so is all after it.
  static absl::StatusOr<std::unique_ptr<Journal>> open(const std::string& path, const std::string& job, bool restart);

  // A run before has begun it: what lies in the folder is its work.
  bool was_there() const { return was_there_; }
  // What the runs before had done.
  const std::map<size_t, FileSums>& done() const { return done_; }
  const std::map<size_t, SyncPoint>& begun() const { return begun_; }
  const std::optional<std::string>& publishing() const { return publishing_; }

  // Says that what comes to lie in the folder is ours. The first of those below does it, too.
  absl::Status begin();
  absl::Status sync_point(size_t file, const SyncPoint& point);
  absl::Status file_done(size_t file, const FileSums& sums);
  // The folder is whole, its manifest has this checksum, and it is about to get its name.
  absl::Status publish(const std::string& manifest_checksum);
  // It is not about to get its name any more: work goes on in it.
  absl::Status withdraw();
  // Nothing of what is done counts any more; the folder is still ours.
  absl::Status forget();
  // The next open() finds nothing.
  absl::Status remove();

 private:
  Journal(std::string path, FileDescriptor fd, std::string head)
      : path_(std::move(path)), fd_(std::move(fd)), head_(std::move(head)) {}
  absl::Status append(const std::string& line);
  absl::Status write(const std::string& line);
  absl::Status read(const std::string& text, const std::string& job, bool restart);
  bool take(const std::string& line);

  std::string path_;
  FileDescriptor fd_;
  std::string head_;  // the first line
  bool was_there_ = false;
  std::mutex mutex_;  // for writing
  bool has_head_ = false;
  std::map<size_t, FileSums> done_;
  std::map<size_t, SyncPoint> begun_;
  std::optional<std::string> publishing_;
};

}  // namespace scalai::store::internal
