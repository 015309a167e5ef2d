#include "apps/doctor/doctor_command.h"

#include "apps/common/output.h"
#include "apps/doctor/doctor.h"
#include "executor/cuda/topology.h"
#include "executor/nccl/library.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

absl::StatusOr<NcclFacts> ask_nccl(const std::string& file) {
  SCALAI_ASSIGN_OR_RETURN(const executor::nccl::NcclLibrary library, executor::nccl::NcclLibrary::open(file));
  return NcclFacts{.version = library.version(), .path = library.path()};
}

absl::StatusOr<executor::transport::UcxInfo> ask_ucx() {
#ifdef SCALAI_WITH_UCX
  return executor::transport::ucx_info();
#else
  return missing("scalai-exec was built without UCX (Debian: libucx-dev)");
#endif
}

int doctor_command(const Arguments& arguments) {
  DoctorFacts facts;
  facts.machine = look_at_machine();  // before any library has begun a thread: it forks
  facts.cuda = executor::cuda::gpu_report();
  if (facts.cuda.ok()) facts.gpu_text = executor::cuda::text_of(*facts.cuda);
  facts.nccl = ask_nccl(arguments.text("nccl"));
  facts.ucx = ask_ucx();
  facts.grpc_version = SCALAI_GRPC_VERSION;
  facts.sqlite_version = SCALAI_SQLITE_VERSION;
  const std::vector<Finding> findings = diagnose(facts);
  print(arguments.text("format") == "json" ? doctor_json(facts, findings)
                                           : doctor_table(facts, findings, stdout_screen()));
  return report_error(check_required(findings, arguments.list("require")));
}

}  // namespace

Command exec_doctor_command() {
  return {
      {.name = "scalai-exec doctor",
       .summary = "say what this machine has for runs on GPUs and between machines",
       .usage = "scalai doctor [--require=cuda,nccl]",
       .description =
           R"(Prints what was found of GPUs, NCCL, UCX, FUSE, memory and limits, and for what is missing: why, and what
then does not work. Changes nothing.)",
       .options = {list_option("require", "AREA,…", "Exit with 4 when one of these is not there.", areas_to_require()),
                   text_option("nccl", "FILE",
                               "The NCCL library to open; without it libnccl.so.2 as the loader finds it."),
                   format_option({"table", "json"})},
       .examples = {"scalai doctor --require=cuda,nccl", "srun --ntasks-per-node=1 scalai doctor --format=json"}},
      doctor_command};
}

}  // namespace scalai::apps
