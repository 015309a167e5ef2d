#pragma once
// The step-by-step simulators of checkpoint-restart (Varuna), redundancy (Bamboo) and templates (Oobleck) from the
// SOSP'23 Oobleck artifact (github.com/SymbioticLab/Oobleck, branch sosp23-artifact, tools/simulator): their rules in
// our words, with all properties that the published numbers depend on. Time is in whole milliseconds. Pure function;
// any thread.
//
//   host comes ─► ready after host_ready_s ─► joins at the next rendezvous (starts one if the job is stopped)
//   rendezvous ends ─► pipelines of `stages` hosts; a step takes floor(1000 samples_per_step / throughput) ms, with the
//                      throughput of all ready hosts
//   host goes  ─► a rendezvous of all hosts (Varuna, Oobleck: always; Bamboo: if its fallback is gone, too)
//
// Quirks kept on purpose:
//  - The run ends at the time of the LAST ELEMENT OF THE EVENT HEAP'S ARRAY after the trace was loaded.
//  - Until a rendezvous ends, the job continues with its old step time.
//  - Each loss starts a rendezvous of its own. The first to end takes all hosts; the next one finds no host, stops the
//    job until another host becomes ready, and makes the step under way worthless.
//  - A host that comes during training joins only when another event starts a rendezvous (Bamboo: also when its
//    rebalancing rule says so).
//  - Varuna's rendezvous takes change_s less the checkpoint's write time. A checkpoint is written every `every_steps`
//    steps and after the first step after a loss; it fails if a removal stands before it in the heap's array.
//  - Without rolls_back a loss costs no samples: the artifact's setting for BERT-large, GPT-2 and GPT-3-medium.
//  - A rollback of samples does not roll back the count of steps, except after a failed checkpoint.
//  - Costs that depend on the number of hosts are those of the last rendezvous.

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::sched {

// setup.rules must be kPublished, and the design one of the three. Errors as simulate_recovery.
absl::StatusOr<RecoveryResult> replay_published(const RecoverySetup& setup);

}  // namespace scalai::sched
