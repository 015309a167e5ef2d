#pragma once
// For tests of scenarios and of those that play them: a small cluster, a tiny model. Four hosts of two GPUs (h0: g0 g1,
// h1: g2 g3, …); four layers of 64.

#include <fmt/format.h>

#include <string>
#include <vector>

#include "ptc/run/scenario/scenario.h"

namespace scalai::scenario::testing {

inline constexpr const char* kTinyModel =
    R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 64, "n_head": 4, "n_positions": 128,
        "vocab_size": 512})";

inline constexpr const char* kSmallCluster = R"(
  schema_version: 1
  name: "test"
  seed: 1
  cluster {
    name: "small"
    hosts { count: 4 gpus: 2 gpu: "a6000-48g" nics: 1 nic: "1GB/s" pcie: "2GB/s" gpu_link: "4GB/s" }
    fabric { kind: STAR }
    storage { read: "1GB/s" write: "1GB/s" }
  }
)";

// A job on the tiny model, eight samples a step; `more` are further fields, its configs at least.
inline std::string job_text(const std::string& name, const std::string& more) {
  return fmt::format("jobs {{ name: \"{}\" model_config: \"tiny.json\" global_batch: 8 sequence: 128 {} }}\n", name,
                     more);
}

inline absl::StatusOr<Scenario> scenario_of(const std::string& text) {
  const auto read = [](const std::string&) -> absl::StatusOr<std::string> { return std::string(kTinyModel); };
  return parse_scenario(text, "test.textproto", read);
}

inline std::vector<DeviceId> device_ids(const std::vector<int>& indices) {
  return std::vector<DeviceId>(indices.begin(), indices.end());
}

}  // namespace scalai::scenario::testing
