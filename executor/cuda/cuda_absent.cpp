// What takes the place of the CUDA back end where Scalai was built without CUDA.

#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/step_device.h"
#include "executor/cuda/topology.h"
#include "executor/cuda/yardsticks.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {
absl::Status absent() {
  return missing(
      "scalai was built without CUDA, so GPUs cannot be used: configure it where nvcc (CUDA 12.5 or later) is on PATH, "
      "or "
      "use --backend=host");
}
}  // namespace

absl::StatusOr<std::unique_ptr<device::Backend>> make_cuda_backend(const CudaOptions&) { return absent(); }
absl::StatusOr<std::shared_ptr<transform::Device>> make_step_device(const StepDeviceOptions&) { return absent(); }
absl::StatusOr<GpuReport> gpu_report() { return absent(); }
absl::StatusOr<double> device_copy_seconds(int, int64_t, int) { return absent(); }
absl::StatusOr<double> memcpy_2d_seconds(int, std::span<const device::BoxCopy>, int) { return absent(); }
absl::StatusOr<double> memcpy_batch_seconds(int, std::span<const device::BoxCopy>, int) { return absent(); }

}  // namespace scalai::executor::cuda
