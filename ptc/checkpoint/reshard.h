#pragma once
// Writes a view of a checkpoint as a folder, in bounded memory:
//
//   View ─► chunks of its files, read and written by all threads, summed in order ─► DST.partial/ ── rename ──► DST/
//                                          sync points ─► DST.partial.journal
//
// Under its final name the folder is whole or not there. What a killed or failed run has finished stays in DST.partial;
// the next run with the same source and view goes on from the journal's last sync point (every kSyncBytes of a file), once
// it has summed what is there and found it to be what the journal says.
// manifest.json, with a checksum for each file and tensor, is written last.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/checkpoint/view.h"

namespace scalai::checkpoint {

inline constexpr int64_t kSyncBytes = int64_t{256} << 20;

struct ReshardProgress {
  const char* phase = "";  // "checking" the source, "writing", "verifying"
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
  int64_t bytes_now = 0;  // of those done, what this run did
};

struct ReshardOptions {
  std::string target;                     // DST
  int64_t memory_cap = int64_t{1} << 30;  // of the whole process
  int threads = 0;                        // 0: one for each core
  bool verify = false;                    // check the source first; read the target back and compare with it
  bool force = false;                     // replace a checkpoint that has the final name
  int64_t sync_bytes = kSyncBytes;        // of a file between sync points: the most of it that is done twice
  bool restart = false;                   // remove what an earlier run has left
  std::function<void(const ReshardProgress&)> progress;  // from any thread, one at a time; may be absent
};

// What a run would do.
struct PlannedFile {
  std::string name;
  int64_t bytes = 0;
  int64_t source_files = 0;   // that it is put together from
  int64_t runs = 0;           // of bytes that lie together in both
  int64_t smallest_run = 0;   // bytes; 0: none
  int64_t padding_bytes = 0;  // zeros
};
struct ReshardPlan {
  std::vector<PlannedFile> files;  // by name; manifest.json is not among them
  int64_t bytes_total = 0;
  int threads = 1;
  int64_t chunk_bytes = 0;
  int64_t peak_memory_bytes = 0;  // at most, of the whole process
  std::string content;            // digest of headers, small files, and where each byte comes from
};
// Works out every file. InvalidArgument: what the view cannot lay out; a memory cap that is too small (the message has
// the smallest).
absl::StatusOr<ReshardPlan> plan_reshard(const View& view, const ReshardOptions& options);

struct ReshardResult {
  int64_t files = 0;
  int64_t bytes_total = 0;    // without manifest.json
  int64_t bytes_written = 0;  // by this run
  bool was_complete = false;  // an earlier run had done everything but tidying up
};
// InvalidArgument: DST is there and force is not given, or is no checkpoint that force replaces; the source is read from
// DST or DST.partial; DST.partial is of another source or view and restart is not given, or is nobody's; the source was
// changed or is damaged; verify found a difference. ResourceExhausted: the disk is full. Aborted: reading or
// writing failed, or another process writes the same target. After all of them DST is as it was before.
absl::StatusOr<ReshardResult> reshard(const View& view, const ReshardPlan& plan, const ReshardOptions& options);

}  // namespace scalai::checkpoint
