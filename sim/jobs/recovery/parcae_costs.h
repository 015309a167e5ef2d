#pragma once
// Parcae's migration costs of the models that it was measured with: what the proactive design knows of its job. Pure
// function; any thread.
//
// github.com/JF-D/Parcae, liveput/cost.py (V100 p3.2xlarge, 10 Gb/s):
//     rendezvous 6.6, process 0.24 (GPT) or 0.03 (seconds)
//     groups (dp + pp + 1 + dp pp) x 0.5 growing, x 0.0393 (GPT 1.5B) or x 0.1156 (6.7B) shrinking; others by dp.

#include <string>

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/liveput.h"

namespace scalai::jobs {

// Migration costs of "gpt-1.5b", "gpt-6.7b", "bert", "resnet152" or "vgg19", without layouts. InvalidArgument: another
// model.
absl::StatusOr<LiveputModel> parcae_costs(const std::string& model);

}  // namespace scalai::jobs
