#include "executor/cuda/internal/cuda_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"

namespace scalai::executor::cuda::internal {
namespace {
using testing::HasSubstr;

TEST(CudaStatus, SuccessIsOk) {
  EXPECT_TRUE(cuda_status(cudaSuccess, "nothing").ok());
  EXPECT_TRUE(driver_status(CUDA_SUCCESS, "nothing").ok());
}

TEST(CudaStatus, WhatIsMissingHasARemedy) {
  for (const cudaError_t code : {cudaErrorNoDevice, cudaErrorInsufficientDriver, cudaErrorInvalidDevice,
                                 cudaErrorStubLibrary, cudaErrorNoKernelImageForDevice, cudaErrorSystemNotReady}) {
    const absl::Status status = cuda_status(code, "counting GPUs");
    EXPECT_EQ(exit_code_of(status), 4) << status;
    EXPECT_THAT(message_of(status), testing::StartsWith("counting GPUs: "));
    EXPECT_THAT(message_of(status), HasSubstr("; "));
  }
}

TEST(CudaStatus, OtherErrorsSayWhatWhereAndInWhichLine) {
  const absl::Status status = cuda_status(cudaErrorIllegalAddress, "a test");
  const int line = __LINE__ - 1;
  EXPECT_EQ(exit_code_of(status), 5);
  EXPECT_THAT(message_of(status), HasSubstr(": a test: "));
  EXPECT_THAT(message_of(status), HasSubstr("cuda_status_test.cpp:" + std::to_string(line)));
  EXPECT_EQ(exit_code_of(driver_status(CUDA_ERROR_INVALID_VALUE, "a test")), 5);
}

TEST(CudaStatus, OutOfMemoryIsExhaustion) {
  EXPECT_EQ(cuda_status(cudaErrorMemoryAllocation, "a buffer").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(driver_status(CUDA_ERROR_OUT_OF_MEMORY, "a chunk").code(), absl::StatusCode::kResourceExhausted);
}

TEST(CudaStatus, AFunctionThatNoDriverHas) {
  void* function = nullptr;
  EXPECT_EQ(exit_code_of(find_driver_symbol("cuNoSuchFunction", 10020, &function)), 4);
}

}  // namespace
}  // namespace scalai::executor::cuda::internal
