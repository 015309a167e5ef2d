#pragma once
// Statistics of a checkpoint whose files are spread over hosts:
//
//   tensors ─► chunks ─► parts that one host has ─► hosts: scalai checkpoint stats-parts there ─► added up in the order
//   of the chunks
//
// A chunk that a host has whole stays whole, so its digits are those of one machine. One whose elements lie in files of
// several hosts is cut by file (compared elements: by box): norm and mean of its tensor may differ in their last
// digits. Elements of the other checkpoint that no host has beside those of this one are compared here, and so are
// parts whose hosts fail; their bytes are fetched. One thread calls.

#include "labs/near/commands/spread_checkpoint.h"
#include "labs/near/commands/stats_near.h"

namespace scalai::apps {

struct SpreadStats {
  const SpreadCheckpoint& checkpoint;
  const SpreadCheckpoint* since = nullptr;  // of the same hosts
  near::Launch launch;
  std::function<void(int64_t, int64_t)> progress = {};  // bytes so far, and of all; one call at a time
};

// InvalidArgument: tensors that are not stored as they are (weights in 8 bits with scales), all of them. Aborted: parts
// that nobody can look at, with the reasons of their hosts.
absl::StatusOr<NearStatsResult> stats_spread(const std::vector<size_t>& tensors, const SpreadStats& spread);

// What each host would look at. Errors as above.
struct SpreadShare {
  std::string host;  // "here" for what is fetched
  int64_t files = 0, parts = 0, bytes = 0;
};
absl::StatusOr<std::vector<SpreadShare>> shares_of(const std::vector<size_t>& tensors, const SpreadStats& spread);

}  // namespace scalai::apps
