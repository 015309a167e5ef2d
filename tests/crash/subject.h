#pragma once
// A subject: a piece of work that writes files, and readers that open what a crash left of them.

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/crash/recording.h"

namespace scalai::crash {

enum class Found : uint8_t { kOld, kNew };

class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string name() const = 0;
  // States beyond which nothing new is to be expected.
  virtual int64_t enough() const { return std::numeric_limits<int64_t>::max(); }
  // Before the recording: what the work reads, outside of the recorded folder.
  virtual absl::Status prepare() { return absl::OkStatus(); }
  // Files that the recorder cannot see written and that no reader opens.
  virtual bool ignores(const std::string& /*path*/) const { return false; }
  // The work, in a process under the recorder. Marks what it begins and what has returned. May end by _exit().
  virtual absl::Status play(const std::string& root) = 0;
  // Adds marks to a recording of work that says nothing itself.
  virtual absl::StatusOr<std::vector<Operation>> annotated(std::vector<Operation> operations) { return operations; }
  // Opens a state; may change it. `marks`: those recorded before the crash. Not OK: neither old nor new.
  virtual absl::StatusOr<Found> check(const std::string& root, std::span<const std::string> marks) = 0;
};

// Tells the recorder, if there is one.
void mark(const std::string& text);
// Runs `work` in a process of its own, which ends as if it had been killed. Aborted: the work failed.
absl::Status in_process(const std::function<absl::Status()>& work);
// Number of "begin" and "end" marks.
struct Progress {
  int64_t begun = 0;
  int64_t ended = 0;
};
Progress progress_of(std::span<const std::string> marks);

// States are looked at from the last such mark on.
inline constexpr std::string_view kWatchMark = "watch";

struct SubjectOptions {
  uint64_t seed = 1;
  int variant = 0;
  std::string folder;       // for prepare()
  std::string bin;          // executables
  double resume_share = 0;  // of the states of a run: goes on with them by `scalai exec --resume`, too
};
std::unique_ptr<Subject> journal_subject(const SubjectOptions& options);
std::unique_ptr<Subject> checkpoint_subject(const SubjectOptions& options);
std::unique_ptr<Subject> reshard_subject(const SubjectOptions& options);
std::unique_ptr<Subject> run_subject(const SubjectOptions& options);

}  // namespace scalai::crash
