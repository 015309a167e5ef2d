#pragma once
// Writes the files of a view into a folder with several threads. The files are one sequence of chunks; each thread
// takes the next one, reads and writes it, and then, in order within a file, sums it:
//
//   thread 1   read ─ pwrite ─ sum            read ─ pwrite ─ sum
//   thread 2        read ─ pwrite ───── sum        read ─ pwrite …
//
// so that one large file keeps all of them busy and its checksum still comes out in one pass.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/store/views/internal/reshard_journal.h"
#include "ptc/store/views/reshard.h"

namespace scalai::store::internal {

class ReshardWriter {
 public:
  ReshardWriter(const View& view, const ReshardPlan& plan, const ReshardOptions& options, std::string folder,
                Journal& journal);
  ~ReshardWriter();

  // Writes what the journal does not have, or what is no longer as it says. The first error stops all threads.
  absl::Status run();

  // Reads all files again and compares them with what was summed while they were written. InvalidArgument: one differs.
  absl::Status read_back();

  const std::vector<FileSums>& sums() const { return sums_; }  // by file of the view, after run()
  int64_t bytes_written() const { return written_; }

 private:
  struct Target;  // a file that is being written
  struct Chunk {
    std::shared_ptr<Target> target;
    int64_t offset = 0;
    int64_t bytes = 0;
  };

  void work();
  absl::Status check_done();
  absl::StatusOr<bool> is_still_done(size_t file, const FileSums& sums);
  absl::StatusOr<std::optional<Chunk>> next();
  absl::StatusOr<std::shared_ptr<Target>> begin(size_t file);
  absl::Status go_on(Target& target, const SyncPoint& point);
  absl::Status copy(const Chunk& chunk, std::span<std::byte> buffer);
  absl::Status finish_part(Target& target, int64_t end);
  void advance(int64_t bytes, bool now);
  void fail(const absl::Status& status);

  const View& view_;
  const ReshardPlan& plan_;
  const ReshardOptions& options_;
  const std::string folder_;
  Journal& journal_;
  std::vector<FileSums> sums_;
  std::vector<uint8_t> kept_;  // by file: an earlier run has done it, and it still is what it was

  std::mutex next_mutex_;  // for the two below
  size_t next_file_ = 0;
  std::shared_ptr<Target> current_;

  std::mutex mutex_;  // for first_error_ and progress
  absl::Status first_error_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> worked_ = false;  // some thread had the memory to
  std::atomic<int64_t> written_ = 0;
  int64_t done_ = 0;
};

}  // namespace scalai::store::internal
