#include "executor/cuda/step_device.h"

#include <gmock/gmock.h>

#include <thread>

#include "executor/cuda/address_map.h"
#include "executor/cuda/cuda_backend.h"
#include "executor/cuda/testing/gpu.h"
#include "executor/state/copy.h"
#include "ptc/state/transform/testing/device_cases.h"

namespace scalai::executor::cuda {

using state::value_or_die;

namespace step_device_test {

using CudaSteps = OnGpu;

std::shared_ptr<transform::Device> device_of(int64_t chunk_bytes, int pairs = 2) {
  return value_or_die(make_step_device({.chunk_bytes = chunk_bytes, .pairs = pairs}));
}

TEST_F(CudaSteps, GiveTheBitsOfTheHost) {
  int compared = 0, errors = 0;
  for (int64_t size = 13; size < 19; ++size) {
    const auto device = device_of(int64_t{1} << size);
    for (uint64_t seed = 1000 + static_cast<uint64_t>(size); seed < 1600; seed += 6) {
      const transform::DeviceDifferences found = transform::differences(device, seed, transform::device_case(seed));
      ASSERT_EQ(found.wrong, "") << "seed " << seed;
      compared += found.compared;
      errors += found.errors;
    }
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(errors, 10);
}

// Every float type to every other and a factor, over many elements of all kinds: the whole grid, not a few threads of
// it. A tensor is larger than all memory that the device gives.
TEST_F(CudaSteps, CastAndScaleMillionsOfElements) {
  constexpr int64_t kRows = 1 << 10, kColumns = 1 << 9;
  const auto device = device_of(kMiB / 2, 1);
  Random random(3);
  for (const transform::DType from : transform::kFloats) {
    const transform::Tensor base = transform::of_bytes(
        "w", from, tensor::Shape{kRows, kColumns}, transform::random_elements(random, from, kRows * kColumns, false));
    for (const std::string to : {"fp64", "fp32", "bf16", "fp16"}) {
      transform::DeviceCase one{.steps = {fmt::format("cast({})", to), "scale(0.3)"}, .tensors = {}};
      one.tensors =
          value_or_die(transform::transform(transform::steps_of(one.steps), {base}, transform::opens_nothing));
      const transform::DeviceDifferences found = transform::differences(device, 3, one);
      ASSERT_EQ(found.wrong, "") << "seed 3";
      ASSERT_EQ(found.compared, 3);
    }
  }
}

TEST_F(CudaSteps, ThreadsWaitForPairs) {
  const auto device = device_of(int64_t{64} << 10, 1);
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t seed = 10 * i; seed < 10 * i + 5 && wrong[i].empty(); ++seed)
        wrong[i] = transform::differences(device, seed, transform::device_case(seed)).wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(""));
}

// As a receiver does: into memory of a device, by the back end's copies.
TEST_F(CudaSteps, WhatTheyGiveIsCopiedToItsPlaceOnTheGpu) {
  const std::unique_ptr<device::Backend> backend = value_or_die(make_cuda_backend({}));
  std::vector<std::byte> on_host(1);
  EXPECT_EQ(value_or_die(backend->steps_at(on_host.data())), nullptr);
  const tensor::Shape shape{3000, 1700};  // more than a chunk
  Random random(9);
  const transform::Tensor base = transform::of_bytes(
      "w", tensor::DType::kF32, shape, transform::random_elements(random, tensor::DType::kF32, shape.elements(), true));
  for (const transform::Tensor& made : value_or_die(transform::transform(
           transform::steps_of({"scale(0.3)", "quantise(i8)"}), {base}, transform::opens_nothing))) {
    const tensor::Box wanted =
        made.dtype == tensor::DType::kI8 ? tensor::Box({10, 20}, {2900, 1500}) : tensor::Box({10}, {2900});
    const int64_t bytes = state::packed_bytes(wanted, made.dtype);
    const std::unique_ptr<device::Staging> place = value_or_die(backend->staging(0, bytes));
    const auto steps = value_or_die(backend->steps_at(place->data()));
    ASSERT_NE(steps, nullptr);
    EXPECT_EQ(steps, value_or_die(backend->steps_at(place->data())));
    int parts = 0;
    ASSERT_OK(transform::make_on(*steps, made, wanted, {}, [&](const tensor::Box& part, const std::byte* there) {
      ++parts;
      const device::BoxCopy copy{part, {part, made.dtype, there}, {wanted, made.dtype, place->data()}};
      return backend->copy({&copy, 1});
    }));
    EXPECT_GT(parts, 1);
    std::vector<std::byte> expected(static_cast<size_t>(bytes));
    ASSERT_OK(made.read(wanted, expected, {}));
    EXPECT_TRUE(get(place->data(), bytes) == expected) << "seed 9: " << made.name;
  }
}

TEST_F(CudaSteps, SaysWhatIsNotThere) {
  const GpuBytes bytes = value_or_die(gpu_bytes(0));
  EXPECT_TRUE(absl::IsNotFound(make_step_device({.gpu = 1000}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(make_step_device({.pairs = 0}).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(make_step_device({.chunk_bytes = 2 * bytes.total}).status()));
}

TEST_F(CudaSteps, BuffersAreInTheMapOfAddressesWhileTheyAreThere) {
  const auto addresses = std::make_shared<AddressMap>();
  const std::byte* at = nullptr;
  {
    const auto device = value_or_die(make_step_device({.chunk_bytes = kMiB, .pairs = 1, .addresses = addresses}));
    at = value_or_die(device->lend())->chunk(0).device(1);
    EXPECT_EQ(addresses->gpu_of(at), 0);
  }
  EXPECT_EQ(addresses->gpu_of(at), AddressMap::kHost);
}

}  // namespace step_device_test
}  // namespace scalai::executor::cuda
