#include "apps/checkpoint/step_device_option.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#if defined(SCALAI_WITH_EXECUTOR)
#include "executor/cuda/step_device.h"
#endif

namespace scalai::apps {
namespace {

absl::StatusOr<std::shared_ptr<transform::Device>> first_gpu() {
#if defined(SCALAI_WITH_EXECUTOR)
  return executor::cuda::make_step_device({});
#else
  return missing("scalai was built without its executor, so GPUs cannot be used");
#endif
}

}  // namespace

OptionSpec step_backend_option() {
  return choice_option("backend", "WHERE",
                       "Where the steps of --transform are computed: by the host's processors, or on a GPU, in chunks "
                       "that go up and come down beside its work. Both give the same bits.",
                       {"host", "cuda"}, "host");
}

absl::Status choose_step_device(const Arguments& arguments, store::OpenOptions& options) {
  if (arguments.text("backend") != "cuda") return absl::OkStatus();
  absl::StatusOr<std::shared_ptr<transform::Device>> device = first_gpu();
  if (!device.ok())
    return absl::Status(device.status().code(), fmt::format("--backend=cuda: {}", message_of(device.status())));
  options.device = *std::move(device);
  return absl::OkStatus();
}

}  // namespace scalai::apps
