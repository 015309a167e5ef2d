#pragma once
// Constants of published recovery designs, to compare them without their tables. Pure functions; any thread.
//
// Varuna, Bamboo, Oobleck: github.com/SymbioticLab/Oobleck, branch sosp23-artifact, tools/simulator (seconds):
//     model           BERT-large  GPT-2   GPT-3-medium  GPT-3-2.7b  GPT-3-6.7b
//     Varuna change       76 (*)    83        78.7         515         701       less the checkpoint's write
//     Varuna write        15.8      11.5      11.2          50         120       every 10 steps
//     Bamboo rebalance    76        80       100           230         450       fatal: 30
//     Oobleck              2         2         3             6          10
//     samples a step    8192      1024       819           512        1024
//     (*) by hosts after the first rendezvous: 30: 71.3, 29 and 28: 67.6, 27: 49.1, 26: 112, 25: 108.3, then 3.7 less
//         a host
//     A new host takes 45. Samples are rolled back for the two large models only.
// Parcae: github.com/JF-D/Parcae, liveput/cost.py (V100 p3.2xlarge, 10 Gb/s):
//     rendezvous 6.6, process 0.24 (GPT) or 0.03
//     groups (dp + pp + 1 + dp pp) x 0.5 growing, x 0.0393 (GPT 1.5B) or x 0.1156 (6.7B) shrinking; others by dp.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/host_tables.h"

namespace scalai::sched {

// "varuna", "bamboo", "oobleck"; "" for designs without published constants.
std::string published_system(RecoveryDesign design);

// Constants of the table above. InvalidArgument: a design or model without constants (the message lists the known
// ones).
absl::StatusOr<HostCosts> published_costs(RecoveryDesign design, const std::string& model);
std::vector<std::string> published_models();

// Seconds of a change: `costs.change_s`, or by number of hosts if the publication says so and `costs` are its own. The
// function owns its data.
std::function<double(const HostChange&)> published_change(RecoveryDesign design, const std::string& model,
                                                          const HostCosts& costs);
// True if the artifact rolls samples back when hosts are lost.
bool published_rolls_back(const std::string& model);

// Migration costs of "gpt-1.5b", "gpt-6.7b", "bert", "resnet152" or "vgg19", without layouts. InvalidArgument: another
// model.
absl::StatusOr<LiveputModel> parcae_costs(const std::string& model);

}  // namespace scalai::sched
