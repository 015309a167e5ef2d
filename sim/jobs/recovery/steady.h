#pragma once
// Recovery designs under one set of rules, for comparisons: checkpoint-restart, redundancy, templates, spare-swap and
// reshard. Exact in continuous time. The work is a few operations per host event and checkpoint, for any number of
// steps. Pure function; any thread.
//
//   loss without notice   detect_s, then change_s without training, on the remaining hosts; a further change
//                         meanwhile restarts the pause
//     checkpoint-restart, spare-swap   roll back to the last complete checkpoint
//     templates, reshard               lose the step under way; roll back to the checkpoint if state is lost
//     redundancy                       no pause: the neighbour in the pipeline does both parts, slower by
//                                      fallback_slowdown, until the hosts are reordered at the end of a step (when more
//                                      than 5 % of the pairs are at risk or waiting hosts can fill the gaps); fatal if
//                                      the neighbour is gone, too: roll back to the checkpoint, fatal_s
//   notice                OnNotice: the job leaves the hosts and loses nothing; or it writes a checkpoint first, which
//                         a loss meanwhile makes worthless; or it waits for the loss. With leave_s leaving takes so
//                         long unless the other hosts hold all state. If the notice is shorter, the job rolls back at
//                         once; if it is longer, reshard trains on until 1.1 · leave_s before its end
//   hosts come            usable after host_ready_s; they join if it pays within join_horizon_s. Designs that save at a
//                         notice write a checkpoint for this, too
//   hosts in use          reshard: the number of usable hosts that trains fastest; spare-swap: hosts - spares, or none;
//                         else all

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs {

// Errors as simulate_recovery. CHECK: not the proactive design.
absl::StatusOr<policy::RecoveryResult> simulate_steady(const RecoverySetup& setup);

}  // namespace scalai::jobs
