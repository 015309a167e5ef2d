#pragma once
// `scalai doctor`: what a machine has of what runs use, and for what is missing: why, and what then does not work. Pure:
// facts in, findings and text out; doctor_command.cpp asks the libraries.
//
//   facts (system, CUDA, NCCL, UCX) ──► findings ──► table | JSON, and whether what was required is there

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/doctor_machine.h"
#include "executor/cuda/topology.h"
#include "executor/transport/ucx_info.h"

namespace scalai::apps {

struct NcclFacts {
  std::string version;  // "2.28.9"
  std::string path;     // of the library that was opened
};

struct DoctorFacts {
  MachineFacts machine;
  absl::StatusOr<executor::cuda::GpuReport> cuda = absl::UnknownError("not asked");
  std::string gpu_text;  // the report as text, a line a GPU
  absl::StatusOr<NcclFacts> nccl = absl::UnknownError("not asked");
  absl::StatusOr<executor::UcxInfo> ucx = absl::UnknownError("not asked");
  std::string grpc_version, sqlite_version;
};

enum class Found { kYes, kPartly, kNo };

struct Finding {
  std::string area;  // "machine", "limits", "cuda", "nccl", "ucx", "fuse", "libraries"
  Found found = Found::kYes;
  std::string detail;       // what was seen; for what is missing: why
  std::string consequence;  // what then does not work, and what helps; "" when all is well
};

// In the order of the areas above; each area has at least one.
std::vector<Finding> diagnose(const DoctorFacts& facts);

// The areas that --require may name.
const std::vector<std::string>& areas_to_require();
// NotFound, naming each required area that is missing and why; ok when all are there, even if not in full.
absl::Status check_required(const std::vector<Finding>& findings, const std::vector<std::string>& required);

// A table of what was found, the GPUs one by one and their links, and what follows from what is missing.
std::string doctor_table(const DoctorFacts& facts, const std::vector<Finding>& findings);
// {"schema_version", "findings": [{"area", "found", "detail", "consequence"}], "gpus", "gpu_links", "ucx_devices"};
// gpu_links[from][to] is "NVLink", "peer access" or "-".
std::string doctor_json(const DoctorFacts& facts, const std::vector<Finding>& findings);

}  // namespace scalai::apps
