#pragma once
// Recovery designs under one set of rules, so that they can be compared: checkpoint-restart, redundancy, templates,
// spare-swap and reshard. Exact in continuous time; the work is a few operations a host event and a checkpoint,
// whatever the number of steps.
//
//   loss without notice   detect_s, then change_s without training, on the hosts that are left; a further change
//                         meanwhile starts the pause anew
//     checkpoint-restart, spare-swap   back to the last whole checkpoint
//     templates, reshard               the step under way is lost; back to the checkpoint if the state did not survive
//     redundancy                       no pause: the neighbour in the pipeline does both parts, fallback_slowdown
//                                      slower, until the hosts are put in order again at a step's end (when more than
//                                      5 % of the pairs are at risk or waiting hosts can fill the gaps); fatal when the
//                                      neighbour is gone too: back to the checkpoint, fatal_s
//   notice                reshard leaves the hosts at once and loses nothing; the others wait for the loss
//   hosts come            usable after host_ready_s; taken in when it pays within join_horizon_s
//   which hosts           reshard: as many of the usable ones as train fastest; spare-swap: hosts - spares, or none;
//                         else all

#include "absl/status/statusor.h"
#include "ptc/sched/recovery/recovery.h"

namespace scalai::sched {

// Errors as simulate_recovery; the proactive design is not one of these.
absl::StatusOr<RecoveryResult> simulate_steady(const RecoverySetup& setup);

}  // namespace scalai::sched
