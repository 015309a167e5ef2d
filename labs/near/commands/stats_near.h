#pragma once
// Statistics of a checkpoint's tensors on hosts that have it, or reach it sooner than this one:
//
//   tensors ─► groups ─► hosts, whichever is free: scalai checkpoint stats --tensors=… there ─► in the order of the
//   tensors
//
// A tensor is never cut, so the digits are those of one machine. The hosts' copies have to be the same: names, types,
// shapes and step are compared, bytes are not. A group whose host is gone, or fails, goes to another one, in the
// end to this machine. One thread calls.

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/near/session.h"
#include "ptc/store/views/checkpoint_stats.h"

namespace scalai::apps {

struct NearStats {
  std::vector<near::Host> hosts;  // folders: of the checkpoint there
  near::Launch launch;
  std::vector<std::string> form, since_words;  // options that say the form of the checkpoint, and --since with its own
  const store::Checkpoint* since = nullptr;    // for what is computed here
  std::function<void(int64_t, int64_t)> progress;  // bytes so far, and of all; one call at a time
};

struct NearStatsResult {
  std::vector<store::TensorStats> stats;
  std::vector<std::string> notes;  // hosts that did not help
};

// As stats_of(); its errors where this machine has to compute.
absl::StatusOr<NearStatsResult> stats_near(const store::Checkpoint& checkpoint, const std::vector<size_t>& tensors,
                                           const NearStats& near);

// What `scalai checkpoint WORDS` prints on the host of the session; the stage has the words. Unavailable:
// the host is gone. Aborted: another failure, with the first line of what it said.
absl::StatusOr<std::string> checkpoint_output(near::Session& session, const near::Host& host,
                                              const near::Launch& launch, near::StageWork stage);

}  // namespace scalai::apps
