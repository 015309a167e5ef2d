#pragma once
// `scalai checkpoint stats`: a source finds the numbers, show_stats() prints them. Registration point: a program that
// finds them elsewhere (labs/near, on hosts) has the same command with a source of its own, and answers calls with its
// options. One thread.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/checkpoint/live_source.h"
#include "ptc/base/command.h"
#include "ptc/store/views/checkpoint_stats.h"

namespace scalai::apps {

using StatsProgress = std::function<void(int64_t, int64_t)>;  // bytes so far, and of all; one call at a time

class StatsSource {
 public:
  struct Opened {
    std::string path;  // as it is named
    std::shared_ptr<const store::Checkpoint> checkpoint;
  };
  // `before`: without a checkpoint nothing is compared.
  StatsSource(Opened opened, Opened before) : now(std::move(opened)), since(std::move(before)) {}
  virtual ~StatsSource() = default;
  virtual absl::StatusOr<std::vector<store::TensorStats>> stats(const std::vector<size_t>& tensors,
                                                                const StatsProgress& progress) = 0;
  virtual absl::StatusOr<std::string> explained(const std::vector<size_t>& tensors) const = 0;  // for --explain
  const store::Checkpoint* before() const { return since.checkpoint.get(); }

  const Opened now, since;
  std::vector<std::string> notes;  // of stats(), for stderr
};

CommandSpec stats_spec();
CommandSpec stats_parts_spec();  // what stats asks of hosts

// What options do not go together; empty: nothing.
std::string wrong_stats_options(const Arguments& arguments);
// Of the checkpoint whose options begin with `of`: "" or "since-". Errors: those of open_options_of().
absl::StatusOr<store::OpenOptions> stats_open_options(const Arguments& arguments, const std::string& path,
                                                      const std::string& of);
// The source on this machine, or with `open_run` of a run. Errors: those of Checkpoint::open and of `open_run`; of both
// checkpoints.
absl::StatusOr<std::unique_ptr<StatsSource>> open_here(const Arguments& arguments, const OpenRun& open_run = {});
// Both messages, with the code of the first.
absl::Status joined_problems(const absl::Status& first, const absl::Status& second);

// Returns the exit code.
int show_stats(const Arguments& arguments, StatsSource& source);

}  // namespace scalai::apps
