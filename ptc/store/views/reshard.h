#pragma once
// Writes a view of a checkpoint as a folder, in bounded memory:
//
//   View ─► chunks of its files, read and written by all threads, summed in order ─► DST.partial/ ── rename ──► DST/
//                                          sync points ─► DST.partial.journal
//
// Under its final name the folder is complete or absent. A killed or failed run leaves its finished part in
// DST.partial. The next run with the same source and view continues from the last sync point of the journal (every
// kSyncBytes of a file), after it has compared the checksums of the existing bytes with the journal. manifest.json,
// with a checksum for each file and tensor, is written last. Any thread may call; one run for each DST at a time, also
// across processes.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/store/views/view.h"

namespace scalai::store {

inline constexpr int64_t kSyncBytes = int64_t{256} << 20;

struct ReshardProgress {
  const char* phase = "";  // "checking" the source, "writing", "verifying"; static storage
  int64_t bytes_done = 0;
  int64_t bytes_total = 0;
  int64_t bytes_now = 0;  // part of bytes_done by this run
};

struct ReshardOptions {
  std::string target;                     // DST
  int64_t memory_cap = int64_t{1} << 30;  // of the whole process
  int threads = 0;                        // 0: one for each core
  bool verify = false;                    // check the source first; read the result back and compare
  bool compare_replicas = true;           // of the source; false: the first of each counts
  std::string families;                   // of OpenOptions, with which the source was opened
  bool force = false;                     // replace a checkpoint that has the final name
  int64_t sync_bytes = kSyncBytes;        // bytes of a file between sync points; at most these are written twice
  bool restart = false;                   // remove the rest of an earlier run
  // Go on with an earlier run also if the source has no versions, by which it would be known to be the same.
  bool trust_source = false;
  std::function<void(const ReshardProgress&)> progress;  // called by any thread, one at a time; may be absent
};

// The work of a run, before it starts.
struct PlannedFile {
  std::string name;
  int64_t bytes = 0;
  int64_t source_files = 0;   // number of files that it is assembled from
  int64_t runs = 0;           // number of byte runs that are contiguous in source and result
  int64_t smallest_run = 0;   // bytes; 0: none
  int64_t padding_bytes = 0;  // zeros
};
struct ReshardPlan {
  std::vector<PlannedFile> files;  // by name; without manifest.json
  int64_t bytes_total = 0;
  int threads = 1;
  int64_t chunk_bytes = 0;
  int64_t peak_memory_bytes = 0;  // upper bound for the whole process
  std::string content;            // digest of headers, small files, and the origin of each byte
};
// Plans every file. InvalidArgument: the view cannot be laid out; the memory cap is too small (the message has the
// minimum).
absl::StatusOr<ReshardPlan> plan_reshard(const View& view, const ReshardOptions& options);

struct ReshardResult {
  int64_t files = 0;
  int64_t bytes_total = 0;     // without manifest.json
  int64_t bytes_written = 0;   // by this run
  bool was_complete = false;   // an earlier run had done everything but the cleanup
  std::vector<Damage> damage;  // of the source, that was accepted
};
// Runs the plan; `plan` and `options` must be those of plan_reshard for this view. The arguments are used during the
// call only.
// InvalidArgument: DST exists without force, or is no checkpoint that force may replace; the source is in DST or
// DST.partial; DST.partial belongs to another source or view without restart, or is unknown; the source was changed or
// is damaged, or its replicas differ; verify found a difference. A source that was changed or is damaged leaves nothing
// behind. Damage that the checkpoint was opened to accept is looked for before anything is written, and is in the
// manifest. NotFound: the folder in which DST is to lie.
// ResourceExhausted: the disk is full. Aborted: a read or write failed, or another process writes the same target.
// Errors before the final rename leave DST unchanged.
absl::StatusOr<ReshardResult> reshard(const View& view, const ReshardPlan& plan, const ReshardOptions& options);

// ---- Parts: several machines, one file system ----
//
//   machine 1   View{part 0 of 2} ─► reshard to part_folder(DST, 0, 2) ─┐
//   machine 2   View{part 1 of 2} ─► reshard to part_folder(DST, 1, 2) ─┴─► join_parts, by whoever comes last ─► DST
//
// A part is a folder as any other that reshard writes, so it may be killed and started again.

// "DST.part-1-of-2" of part 0.
std::string part_folder(const std::string& target, int part, int parts);

struct Joined {
  std::vector<int> missing;  // parts that are not there yet; nothing is done
  bool busy = false;         // another process puts the parts together
};
// Moves the files of all parts into `options.target`, with a manifest of all. `whole`: the view of all files. The call
// may be killed at any point; the next goes on. InvalidArgument: parts of something else (another source, layout or
// number of parts), and the errors of reshard() about the target.
absl::StatusOr<Joined> join_parts(const View& whole, int parts, const ReshardOptions& options);
// Whether a call is putting the parts together, or was killed while it did.
bool is_being_joined(const std::string& target);
// Reads a finished part's files again. InvalidArgument: one does not have the checksum of the part's manifest.
absl::Status verify_part(const std::string& folder, int threads);
// Whether something may be written there (reshard()).
absl::Status check_target(const std::string& target, bool force);
// Whether the folder is a finished part of this view (which has spec().parts > 1).
absl::StatusOr<bool> is_part(const std::string& folder, const View& view);

namespace internal {
// What parts of one whole have in common on any machine: what is written, and names and sizes of the source's files.
std::string digest_of_whole(const View& view);
}  // namespace internal

}  // namespace scalai::store
