#pragma once
// What the tests of kernels on a GPU share. They skip with CUDA's reason where there is none.

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "executor/cuda/kernels/kernels.h"

namespace scalai::executor::cuda::kernels {

#define ASSERT_CUDA(expression)                                                      \
  do {                                                                               \
    const cudaError_t said = (expression);                                           \
    ASSERT_EQ(said, cudaSuccess) << #expression << ": " << cudaGetErrorString(said); \
  } while (false)

// Memory of the device; the size is rounded up to granules.
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) {
    if (cudaMalloc(&data_, (std::max<size_t>(size, 1) + 15) / 16 * 16) != cudaSuccess) data_ = nullptr;
  }
  explicit DeviceArray(const std::vector<std::byte>& from) : DeviceArray(from.size()) {
    EXPECT_EQ(cudaMemcpy(data_, from.data(), from.size(), cudaMemcpyDefault), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

class KernelsOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    const cudaError_t seen = cudaGetDeviceCount(&devices);
    if (seen != cudaSuccess) GTEST_SKIP() << "no GPU: cudaGetDeviceCount says \"" << cudaGetErrorString(seen) << "\"";
    if (devices == 0) GTEST_SKIP() << "no GPU: cudaGetDeviceCount finds none";
    ASSERT_CUDA(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0));
  }

  // Uploads the batch, calls launch(work, blocks) and waits.
  template <class Piece, class Launch>
  void run(const Pieces<Piece>& batch, Launch launch) const {
    std::vector<std::byte> upload(upload_bytes(batch));
    write_upload(batch, upload.data());
    const DeviceArray on_device(upload);
    ASSERT_CUDA(launch(work_at(batch, on_device.data()), blocks_for(batch.tiles(), multiprocessors_)));
    ASSERT_CUDA(cudaDeviceSynchronize());
  }

  int multiprocessors_ = 0;
};

inline std::vector<std::byte> downloaded(const DeviceArray& array, size_t size) {
  std::vector<std::byte> bytes(size);
  EXPECT_EQ(cudaMemcpy(bytes.data(), array.data(), size, cudaMemcpyDefault), cudaSuccess);
  return bytes;
}

}  // namespace scalai::executor::cuda::kernels
