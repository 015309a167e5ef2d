#pragma once
// The step-by-step simulators of checkpoint-restart (Varuna), redundancy (Bamboo) and templates (Oobleck) from the
// SOSP'23 Oobleck artifact (github.com/SymbioticLab/Oobleck, branch sosp23-artifact, tools/simulator): their rules in
// our words, with all properties that the published numbers depend on. Time is in whole milliseconds. Pure functions;
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
//  - Varuna's rendezvous takes change_s less the checkpoint's write time. A checkpoint is written every
//    `checkpoint_every_steps` steps and after the first step after a loss; it fails if a removal stands before it in
//    the heap's array.
//  - Without rolls_back a loss costs no samples: the artifact's setting for BERT-large, GPT-2 and GPT-3-medium.
//  - A rollback of samples does not roll back the count of steps, except after a failed checkpoint.
//  - Costs that depend on the number of hosts are those of the last rendezvous.

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"

namespace scalai::policy::validation {

enum class OobleckSystem : uint8_t { kVaruna, kBamboo, kOobleck };

// `availability` must live during the replay.
struct OobleckSetup {
  OobleckSystem system = OobleckSystem::kOobleck;
  const Availability* availability = nullptr;
  int hosts = 0;                                   // all hosts: HostId < hosts
  std::function<double(int hosts)> samples_per_s;  // by usable hosts; 0 = cannot run
  double samples_per_step = 1;
  std::function<double(int hosts)> change_s;  // by hosts since the last rendezvous; 0 hosts: none yet
  double fatal_s = 0;                         // Bamboo: a restart when a host and its fallback are both gone
  double host_ready_s = 0;                    // seconds until a new host can be used
  int64_t checkpoint_every_steps = 10;        // Varuna; >= 1
  double checkpoint_s = 0;                    // Varuna: one write
  bool rolls_back = true;                     // Varuna: losses cost samples
  int stages = 12;                            // hosts of a pipeline
  double fallback_slowdown = 1.5;             // Bamboo: factor of the step time while a fallback is pending
};

struct OobleckResult {
  double from_s = 0, to_s = 0;  // the first start, the last step's end
  int64_t steps = 0, losses = 0, fatal = 0;
  double mean_hosts = 0;
  double samples_per_s = 0, samples = 0, lost_samples = 0;
};

// InvalidArgument: a trace without events.
absl::StatusOr<OobleckResult> replay_oobleck(const OobleckSetup& setup);

// A setup with the tables (throughput_vs_nodes.csv, costs.csv) and the constants of the artifact:
//   a new host takes 45 s; losses cost samples of the two large models only; Varuna's change of BERT-large, by hosts
//   after the first rendezvous: 30: 71.3, 29 and 28: 67.6, 27: 49.1, 26: 112, 25: 108.3, then 3.7 less a host.
// `system`: "varuna", "bamboo", "oobleck". Errors: those of the tables.
absl::StatusOr<OobleckSetup> oobleck_setup(const std::string& system, const std::string& model,
                                           const std::string& throughputs, const std::string& costs);

}  // namespace scalai::policy::validation
