#pragma once
// `scalai doctor`: the resources of a machine for runs, and for each missing one the reason and the consequence. Pure
// functions from facts to findings and text; doctor_command.cpp queries the libraries.
//
//   facts (system, CUDA, NCCL, UCX) ──► findings ──► table | JSON, and a check of the required areas

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/doctor/doctor_machine.h"
#include "executor/cuda/topology.h"
#include "executor/transport/ucx_info.h"
#include "ptc/base/screen.h"

namespace scalai::apps {

struct NcclFacts {
  std::string version;  // "2.28.9"
  std::string path;     // of the opened library
};

struct DoctorFacts {
  MachineFacts machine;
  absl::StatusOr<executor::cuda::GpuReport> cuda = absl::UnknownError("not asked");
  std::string gpu_text;  // the report as text, one line per GPU
  absl::StatusOr<NcclFacts> nccl = absl::UnknownError("not asked");
  absl::StatusOr<executor::transport::UcxInfo> ucx = absl::UnknownError("not asked");
  std::string grpc_version, sqlite_version;
};

enum class Found { kYes, kPartly, kNo };

struct Finding {
  std::string area;  // "machine", "limits", "cuda", "nccl", "ucx", "fuse", "libraries"
  Found found = Found::kYes;
  std::string detail;       // the observation; for a missing resource: the reason
  std::string consequence;  // of a missing resource, with a remedy; "" if all is well
};

// In the order of the areas above; at least one finding per area.
std::vector<Finding> diagnose(const DoctorFacts& facts);

// The areas that --require accepts. Valid for the whole process.
const std::vector<std::string>& areas_to_require();
// NotFound, naming each required area that is missing and why; OK if all are present, even partly.
absl::Status check_required(const std::vector<Finding>& findings, const std::vector<std::string>& required);

// A table of findings, the GPUs one by one with their links, and the consequences of missing resources.
std::string doctor_table(const DoctorFacts& facts, const std::vector<Finding>& findings, const Screen& screen = {});
// {"schema_version", "findings": [{"area", "found", "detail", "consequence"}], "gpus", "gpu_links", "ucx_devices"};
// gpu_links[from][to] is "NVLink", "peer access" or "-".
std::string doctor_json(const DoctorFacts& facts, const std::vector<Finding>& findings);

}  // namespace scalai::apps
