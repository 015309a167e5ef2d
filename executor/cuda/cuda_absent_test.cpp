// The stub, also where there is CUDA: this test is linked with it and not with the back end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/step_device.h"
#include "executor/cuda/topology.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {

TEST(CudaAbsent, SaysSoAndWhatToDo) {
  for (const absl::Status& status :
       {make_cuda_backend({}).status(), make_step_device({}).status(), gpu_report().status()}) {
    EXPECT_EQ(exit_code_of(status), 4);
    EXPECT_THAT(message_of(status), testing::HasSubstr("built without CUDA"));
    EXPECT_THAT(message_of(status), testing::HasSubstr("--backend=host"));
  }
}

}  // namespace
}  // namespace scalai::executor::cuda
