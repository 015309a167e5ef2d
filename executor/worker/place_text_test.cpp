// Places and boxes in messages: their text, and what is refused.

#include <gtest/gtest.h>

#include "executor/state/testing/support.h"
#include "executor/worker/places.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

using state::value_or_die;
using tensor::Box;

namespace {

TEST(Place, NamesReadBack) {
  for (const Location& place : {Location::device(DeviceId(0)), Location::device(DeviceId(123)), Location::storage(),
                                Location::host_memory(HostId(0)), Location::host_memory(HostId(77))})
    EXPECT_EQ(parse_place(place.str()), place) << place.str();
}

TEST(Place, OtherNamesAreRefused) {
  for (const std::string text : {"", "g", "h", "h1", ".mem", "h.mem", "g1.mem", "g-1", "g1x", "g 1", "x1", "Storage",
                                 "g99999999999", "h1.memory", "g1 "})
    EXPECT_EQ(parse_place(text), std::nullopt) << text;
}

TEST(TensorBoxMessage, WhatIsNoBoxIsRefused) {
  const auto message = [](const std::vector<int64_t>& lo, const std::vector<int64_t>& hi) {
    proto::TensorBox box;
    for (const int64_t bound : lo) box.add_lo(bound);
    for (const int64_t bound : hi) box.add_hi(bound);
    return box_of(box);
  };
  EXPECT_EQ(value_or_die(message({}, {})), Box({}, {}));
  EXPECT_EQ(value_or_die(message({1, 0}, {4, 7})), Box({1, 0}, {4, 7}));
  EXPECT_FALSE(message({1}, {}).ok());
  EXPECT_FALSE(message({0, 0, 0, 0, 0, 0}, {1, 1, 1, 1, 1, 1}).ok());
  EXPECT_FALSE(message({-1}, {3}).ok());
  EXPECT_FALSE(message({4}, {3}).ok());
  EXPECT_FALSE(message({0, 0}, {int64_t{1} << 40, int64_t{1} << 40}).ok());
  proto::TensorBox box;
  box.set_dtype(99);
  EXPECT_FALSE(dtype_of(box).ok());
  box.set_dtype(-1);
  EXPECT_FALSE(dtype_of(box).ok());
}

}  // namespace
}  // namespace scalai::executor::worker
