#include "ptc/state/transform/device.h"

#include <gmock/gmock.h>

#include <thread>

#include "ptc/state/transform/internal/on_device.h"
#include "ptc/state/transform/testing/device_cases.h"
#include "ptc/state/transform/testing/looping_device.h"

namespace scalai::transform {
namespace device_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Chunks from a few rows to all of a tensor.
TEST(StepsOnADevice, GiveTheBitsOfTheHost) {
  int compared = 0, errors = 0;
  for (uint64_t seed = 1; seed <= 800; ++seed) {
    const auto device = std::make_shared<LoopingDevice>(int64_t{1} << (13 + seed % 6));
    const DeviceCase one = device_case(seed);
    const DeviceDifferences found = differences(device, seed, one);
    ASSERT_EQ(found.wrong, "") << "seed " << seed;
    compared += found.compared;
    errors += found.errors;
  }
  EXPECT_GT(compared, 2000);
  EXPECT_GT(errors, 20) << "rows that no code stands for";
}

Tensor counting(const Shape& shape, DType dtype = DType::kF32) {
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    const auto value = static_cast<double>(i);
    std::byte element[8];
    tensor::convert(DType::kF64, dtype, 1, reinterpret_cast<const std::byte*>(&value), element);
    bytes.insert(bytes.end(), element, element + tensor::size_of(dtype));
  }
  return of_bytes("w", dtype, shape, std::move(bytes));
}

// 1 MiB through chunks of 16 KiB, of which a read has two.
TEST(StepsOnADevice, AStateLargerThanTheDevice) {
  const auto device = std::make_shared<LoopingDevice>(int64_t{16} << 10);
  std::vector<Tensor> made =
      *transform(steps_of({"scale(2)", "cast(fp64)"}), {counting(Shape{512, 512})}, opens_nothing);
  EXPECT_THAT(compute_on(device, made), ElementsAre());
  std::vector<double> got(512 * 512);
  ASSERT_TRUE(made[0].read(Box::whole(made[0].shape), std::as_writable_bytes(std::span(got)), {}).ok());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2.0 * static_cast<double>(i));
  EXPECT_EQ(device->lent, 1);
}

TEST(StepsOnADevice, PartsAreHandedOverWhereTheyAre) {
  LoopingDevice device(int64_t{4} << 10);
  const std::vector<Tensor> made = *transform(steps_of({"scale(3)"}), {counting(Shape{40, 50})}, opens_nothing);
  const Box box({3, 5}, {33, 45});
  std::vector<Box> parts;
  ASSERT_TRUE(make_on(device, made[0], box, {}, [&](const Box& part, const std::byte* at) {
                parts.push_back(part);
                std::vector<float> values(static_cast<size_t>(part.volume()));
                std::memcpy(values.data(), at, values.size() * sizeof(float));
                size_t i = 0;
                for_each_element(made[0].shape, part,
                                 [&](int64_t place) { EXPECT_EQ(values[i++], 3 * static_cast<float>(place)); });
                return absl::OkStatus();
              }).ok());
  EXPECT_GT(parts.size(), 2u);
  EXPECT_TRUE(tensor::subtract(box, parts).empty());
  int64_t elements = 0;
  for (const Box& part : parts) elements += part.volume();
  EXPECT_EQ(elements, box.volume()) << "each once";
  const absl::Status refused =
      make_on(device, made[0], box, {}, [](const Box&, const std::byte*) { return failed("no place"); });
  EXPECT_EQ(message_of(refused), "no place");
}

TEST(StepsOnADevice, ReadersMayGiveTheElementsThemselves) {
  const auto device = std::make_shared<LoopingDevice>(int64_t{8} << 10);
  std::vector<Tensor> made = *transform(steps_of({"scale(2)"}), {counting(Shape{4, 4})}, opens_nothing);
  ASSERT_THAT(compute_on(device, made), ElementsAre());
  const Origin sevens = [](const Box&, std::span<std::byte> dst) {
    for (size_t i = 0; i < dst.size(); i += sizeof(float)) {
      const float seven = 7;
      std::memcpy(dst.data() + i, &seven, sizeof seven);
    }
    return absl::OkStatus();
  };
  std::array<float, 16> got{};
  ASSERT_TRUE(made[0].read(Box::whole(made[0].shape), std::as_writable_bytes(std::span(got)), sevens).ok());
  EXPECT_THAT(got, testing::Each(14));
  const Origin broken = [](const Box&, std::span<std::byte>) { return missing("no such file"); };
  EXPECT_EQ(message_of(made[0].read(Box::whole(made[0].shape), std::as_writable_bytes(std::span(got)), broken)),
            "no such file");
}

TEST(StepsOnADevice, ErrorsAreInTheWordsOfTheHost) {
  const auto device = std::make_shared<LoopingDevice>(int64_t{64} << 10);
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<std::byte> bytes(4 * sizeof(float));
  std::memcpy(bytes.data() + 8, &infinity, sizeof infinity);
  std::vector<Tensor> made =
      *transform(steps_of({"quantise(i8)"}), {of_bytes("w", DType::kF32, Shape{2, 2}, bytes)}, opens_nothing);
  ASSERT_THAT(compute_on(device, made), ElementsAre());
  std::array<std::byte, 4> got{};
  EXPECT_THAT(message_of(made[0].read(Box::whole(made[0].shape), got, {})),
              AllOf(HasSubstr("\"w\""), HasSubstr("not finite")));
}

// A step of users takes what is before it to the host; what is after it is computed on the device.
TEST(StepsOnADevice, StepsOfUsersStayOnTheHost) {
  const auto device = std::make_shared<LoopingDevice>(int64_t{64} << 10);
  Function twice{.split = Split::kElements,
                 .name = "twice",
                 .outputs = [](DType dtype, const Shape&) -> absl::StatusOr<std::vector<Function::Output>> {
                   return std::vector<Function::Output>{{"", dtype}};
                 },
                 .run =
                     [](const Function::Part& part) {
                       for (size_t i = 0; i < part.in.size(); i += sizeof(float)) {
                         float value = 0;
                         std::memcpy(&value, part.in.data() + i, sizeof value);
                         value *= 2;
                         std::memcpy(part.out.data() + i, &value, sizeof value);
                       }
                       return absl::OkStatus();
                     }};
  const auto read_all = [](const Tensor& tensor) {
    std::array<float, 16> got{};
    EXPECT_TRUE(tensor.read(Box::whole(tensor.shape), std::as_writable_bytes(std::span(got)), {}).ok());
    return got[15];
  };
  const auto shared = std::make_shared<const Tensor>(counting(Shape{4, 4}));
  EXPECT_EQ(internal::function_on_device(shared, twice, {"", DType::kF32}), nullptr);
  std::vector<Step> steps = steps_of({"scale(3)"});
  steps.push_back({.text = "twice", .tensors = {}, .what = twice});
  std::vector<Tensor> made = *transform(steps, {counting(Shape{4, 4})}, opens_nothing);
  EXPECT_THAT(compute_on(device, made),
              ElementsAre("computed on the host: 1 tensor, such as \"w\", which has a step of users last"));
  EXPECT_EQ(read_all(made[0]), 90);
  EXPECT_EQ(device->lent, 0);
  steps.push_back(steps[0]);
  made = *transform(steps, {counting(Shape{4, 4})}, opens_nothing);
  EXPECT_THAT(compute_on(device, made), ElementsAre());
  EXPECT_EQ(read_all(made[0]), 270);
  EXPECT_EQ(device->lent, 1);
}

TEST(StepsOnADevice, WhatFitsNoChunkStaysOnTheHost) {
  const auto device = std::make_shared<LoopingDevice>(int64_t{4} << 10);
  std::vector<Tensor> made = *transform(steps_of({"quantise(i8)"}), {counting(Shape{2, 1000})}, opens_nothing);
  const std::vector<std::string> why = compute_on(device, made);
  ASSERT_EQ(why.size(), 2u);
  EXPECT_THAT(why[0], AllOf(HasSubstr("computed on the host: 1 tensor, such as \"w"), HasSubstr("4.10 kB"),
                            HasSubstr("1000 elements")));
  std::vector<std::byte> codes(2000);
  EXPECT_TRUE(made[0].read(Box::whole(made[0].shape), codes, {}).ok());
  EXPECT_EQ(device->lent, 0);
}

TEST(StepsOnADevice, SeveralThreadsReadAtOnce) {
  const auto device = std::make_shared<LoopingDevice>(int64_t{16} << 10);
  const DeviceCase one = device_case(7);
  std::vector<std::string> wrong(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < wrong.size(); ++i)
    threads.emplace_back([&, i] { wrong[i] = differences(device, i, one).wrong; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(""));
}

}  // namespace device_test
}  // namespace scalai::transform
