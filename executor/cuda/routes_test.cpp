#include "executor/cuda/routes.h"

#include <gtest/gtest.h>

#include <array>

namespace scalai::executor::cuda {
namespace {

// GPUs 0 and 1 reach each other; 2 reaches 0 and nobody reaches 2. An address's thousands are its place.
constexpr uintptr_t kHostAt = 10000;
constexpr uintptr_t kPinnedAt = 20000;
int place_of(const std::byte* address) {
  const auto number = reinterpret_cast<uintptr_t>(address);
  if (number >= kPinnedAt) return kPinned;
  return number >= kHostAt ? kPageable : static_cast<int>(number / 1000) - 1;
}
bool reaches(int gpu, int other) { return (gpu < 2 && other < 2) || (gpu == 2 && other == 0); }
uintptr_t gpu(int n) { return static_cast<uintptr_t>(n + 1) * 1000; }

device::BoxCopy copy_of(uintptr_t from, uintptr_t to) {
  const tensor::Box box({0}, {4});
  return {box,
          {box, tensor::DType::kU8, reinterpret_cast<const std::byte*>(from)},
          {box, tensor::DType::kU8, reinterpret_cast<std::byte*>(to)}};
}

// Which route one copy takes, as text.
std::string route(uintptr_t from, uintptr_t to, bool stage_all = false) {
  const std::array copies = {copy_of(from, to)};
  const Routes routes = sort_copies(copies, place_of, reaches, stage_all);
  std::string text;
  for (const auto& [at, those] : routes.direct) text += "direct " + std::to_string(at);
  for (const auto& [at, those] : routes.up) text += "up " + std::to_string(at);
  for (const auto& [at, those] : routes.down) text += "down " + std::to_string(at);
  for (const auto& [ends, those] : routes.far)
    text += "far " + std::to_string(ends.first) + std::to_string(ends.second);
  if (!routes.host.empty()) text += "host";
  return text;
}

TEST(Routes, EveryPairOfPlaces) {
  EXPECT_EQ(route(gpu(0), gpu(0)), "direct 0");
  EXPECT_EQ(route(gpu(0), gpu(1)), "direct 1");
  EXPECT_EQ(route(gpu(1), gpu(0)), "direct 0");
  EXPECT_EQ(route(gpu(0), gpu(2)), "direct 2");
  EXPECT_EQ(route(gpu(2), gpu(0)), "far 20");
  EXPECT_EQ(route(gpu(1), gpu(2)), "far 12");
  EXPECT_EQ(route(kHostAt, gpu(1)), "up 1");
  EXPECT_EQ(route(gpu(1), kHostAt), "down 1");
  EXPECT_EQ(route(kPinnedAt, gpu(1)), "direct 1");
  EXPECT_EQ(route(gpu(2), kPinnedAt), "direct 2");
  EXPECT_EQ(route(kHostAt, kHostAt + 8), "host");
  EXPECT_EQ(route(kPinnedAt, kHostAt), "host");
  EXPECT_EQ(route(kHostAt, kPinnedAt), "host");
  EXPECT_EQ(route(kPinnedAt, kPinnedAt), "host");
}

TEST(Routes, StagingAll) {
  EXPECT_EQ(route(gpu(0), gpu(0), true), "far 00");
  EXPECT_EQ(route(gpu(0), gpu(1), true), "far 01");
  EXPECT_EQ(route(kPinnedAt, gpu(1), true), "up 1");
  EXPECT_EQ(route(gpu(1), kPinnedAt, true), "down 1");
  EXPECT_EQ(route(kPinnedAt, kPinnedAt, true), "host");
}

TEST(Routes, KeepOrderAndLeaveOutNothingButEmptyParts) {
  std::vector<device::BoxCopy> copies;
  for (uintptr_t i = 0; i < 9; ++i) copies.push_back(copy_of(gpu(static_cast<int>(i % 3)) + i, gpu(1) + i));
  copies.push_back(copy_of(kHostAt, kHostAt));
  copies[4].part = tensor::Box({2}, {2});
  const Routes routes = sort_copies(copies, place_of, reaches);
  ASSERT_EQ(routes.direct.at(1).size(), 5u);
  EXPECT_EQ(routes.direct.at(1)[0].src.data, copies[0].src.data);
  EXPECT_EQ(routes.direct.at(1)[2].src.data, copies[3].src.data);
  EXPECT_EQ(routes.direct.at(1)[3].src.data, copies[6].src.data);
  const auto far = routes.far.at({2, 1});
  ASSERT_EQ(far.size(), 3u);
  EXPECT_EQ(far[1].src.data, copies[5].src.data);
  EXPECT_EQ(routes.host.size(), 1u);
  EXPECT_EQ(routes.gpus(), (std::set<int>{1, 2}));
}

TEST(Routes, SortByPlace) {
  const std::array places = {2, kPageable, 0, kPinned, 2};
  const auto sorted = sort_by_place(places.size(), [&](size_t i) { return places[i]; });
  EXPECT_EQ(sorted, (std::map<int, std::vector<size_t>>{{kPageable, {1, 3}}, {0, {2}}, {2, {0, 4}}}));
}

}  // namespace
}  // namespace scalai::executor::cuda
