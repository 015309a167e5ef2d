#include "executor/worker/box_stats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "executor/state/testing/support.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {
namespace box_stats_test {

constexpr float kInf = std::numeric_limits<float>::infinity();

tensor::ElementStats plain(const std::vector<float>& values) {
  return tensor::stats_of(tensor::DType::kF32, std::ssize(values), reinterpret_cast<const std::byte*>(values.data()));
}

void expect_same(const tensor::ElementStats& a, const tensor::ElementStats& b) {
  EXPECT_EQ(a.elements, b.elements);
  EXPECT_EQ(a.nans, b.nans);
  EXPECT_EQ(a.infinities, b.infinities);
  EXPECT_EQ(a.zeros, b.zeros);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  EXPECT_DOUBLE_EQ(a.sum, b.sum);
  EXPECT_DOUBLE_EQ(a.squares, b.squares);
  EXPECT_EQ(a.magnitudes, b.magnitudes);
}

// A part of a larger array, whole rows of it and columns, in more than one chunk, on devices that are host memory and
// as GPUs are.
TEST(BoxStats, AreThoseOfTheElements) {
  const tensor::Box whole({0, 0}, {1500, 2000}), rows({10, 0}, {1400, 2000}), columns({0, 3}, {1500, 1990});
  std::vector<float> values(static_cast<size_t>(whole.volume()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(static_cast<float>(i % 997) - 300, static_cast<int>(i % 40) - 20);
  values[45'000] = std::nanf("");
  values[61'111] = -kInf;
  const state::Source source{whole, tensor::DType::kF32, reinterpret_cast<const std::byte*>(values.data())};
  const std::vector<device::BoxHash> boxes = {{rows, source}, {columns, source}};
  for (const int devices_per_gpu : {0, 1}) {
    const std::unique_ptr<device::Backend> backend = device::make_host_backend({.devices_per_gpu = devices_per_gpu});
    const auto one = state::value_or_die(box_stats(*backend, boxes, 1)),
               three = state::value_or_die(box_stats(*backend, boxes, 3));
    for (size_t i = 0; i < boxes.size(); ++i) {
      EXPECT_EQ(one[i].sum, three[i].sum);
      EXPECT_EQ(one[i].squares, three[i].squares);
      const tensor::Box& part = boxes[i].part;
      std::vector<float> dense;
      for (int64_t row = part.lo[0]; row < part.hi[0]; ++row)
        dense.insert(dense.end(), values.begin() + row * 2000 + part.lo[1], values.begin() + row * 2000 + part.hi[1]);
      const tensor::ElementStats expected = plain(dense);
      EXPECT_EQ(expected.nans, 1);
      EXPECT_EQ(expected.infinities, 1);
      EXPECT_NEAR(one[i].sum, expected.sum, 1e-9 * std::sqrt(expected.squares));
      EXPECT_NEAR(one[i].squares, expected.squares, 1e-9 * expected.squares);
      tensor::ElementStats rounded = one[i];
      rounded.sum = expected.sum, rounded.squares = expected.squares;
      expect_same(rounded, expected);
    }
  }
}

TEST(BoxStats, GoThroughMessages) {
  for (const std::vector<float>& values :
       std::vector<std::vector<float>>{{}, {0, 0}, {kInf}, {1, -2.5F, 3e30F, 1e-38F, 0}}) {
    proto::BoxStats message;
    set_stats(plain(values), message);
    proto::BoxStats there;
    ASSERT_TRUE(there.ParseFromString(message.SerializeAsString()));
    expect_same(state::value_or_die(stats_of(there)), plain(values));
  }
  proto::BoxStats wrong;
  wrong.add_powers(300);
  EXPECT_FALSE(stats_of(wrong).ok());
  wrong.add_counts(1);
  EXPECT_FALSE(stats_of(wrong).ok());
}

}  // namespace box_stats_test
}  // namespace scalai::executor::worker
