#include "executor/worker/device_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/plan/testing/support.h"

namespace scalai::executor::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr state::VersionKey kKey{3, state::StateVersion::epoch(0)};

// One host with two devices that hold the halves of a matrix.
class DeviceState : public ::testing::Test {
 protected:
  DeviceState() {
    SCALAI_CHECK(places_.setup({2}).ok());
    for (int device = 0; device < 2; ++device) {
      state::Store& store = store_of(device);
      for (const tensor::Piece& piece : side_.pieces(TensorId(0), LogicalRank(device)).pieces)
        SCALAI_CHECK(store.add(kKey, TensorId(0), piece.box, side_.tensors[0].dtype).ok());
      SCALAI_CHECK(fill_version(*backend_, store, kKey, *content_, side_, 5, true).ok());
    }
  }
  state::Store& store_of(int device) { return *places_.own(Location::device(DeviceId(device))); }
  Checked check(int device, int64_t step, CheckDepth depth) {
    return check_version(places_, DeviceId(device), kKey, *content_, side_, step, depth).value();
  }

  const collection::Collection side_ = plan::one_tensor({64, 10}, plan::cut_over("x", 0), plan::devices({0, 1}));
  const std::shared_ptr<const StateSource> content_ = StateSource::open("job", "").value();
  std::unique_ptr<device::Backend> backend_ = device::make_host_backend();
  Places places_{{.host = HostId(0), .segments = {.capacity = int64_t{1} << 24}, .backend = backend_.get()}};
};

TEST_F(DeviceState, WhatWasMadeIsRight) {
  for (int device = 0; device < 2; ++device) {
    EXPECT_THAT(check(device, 5, CheckDepth::kFull).wrong, IsEmpty());
    EXPECT_EQ(check(device, 5, CheckDepth::kFull).bytes, 32 * 10 * 4);
    EXPECT_EQ(check(device, 5, CheckDepth::kSample).bytes, 10 * 4);
    EXPECT_EQ(check(device, 5, CheckDepth::kThere).bytes, 0);
    EXPECT_THAT(check(device, 6, CheckDepth::kSample).wrong, ElementsAre(HasSubstr("expected"))) << "another step";
    EXPECT_THAT(check(device, 6, CheckDepth::kThere).wrong, IsEmpty()) << "it is there";
  }
}

TEST_F(DeviceState, AWrongElementIsNamed) {
  const std::vector<state::Piece> pieces = store_of(1).find(kKey, TensorId(0), tensor::Box({32, 0}, {64, 10}));
  ASSERT_EQ(pieces.size(), 1u);
  store_of(1).target(pieces.front()).data[(3 * 10 + 7) * 4] ^= std::byte{1};
  EXPECT_THAT(check(0, 5, CheckDepth::kFull).wrong, IsEmpty());
  EXPECT_THAT(check(1, 5, CheckDepth::kFull).wrong,
              ElementsAre(testing::AllOf(HasSubstr("g1: tensor"), HasSubstr("[35, 7]"))));
}

TEST_F(DeviceState, WhatIsNotThereIsWrong) {
  const state::TensorBox gone{TensorId(0), tensor::Box({32, 0}, {40, 10})};
  ASSERT_TRUE(store_of(1).give_back(kKey, {&gone, 1}).ok());
  EXPECT_THAT(check(1, 5, CheckDepth::kThere).wrong, ElementsAre(HasSubstr("is not all there")));
}

TEST_F(DeviceState, ADeviceWithoutARankHoldsNothing) {
  const collection::Collection alone = plan::one_tensor({64, 10}, plan::cut_over("x", 0), plan::devices({0}));
  EXPECT_FALSE(rank_of(alone, DeviceId(1)).has_value());
  EXPECT_THAT(check_version(places_, DeviceId(1), kKey, *content_, alone, 5, CheckDepth::kFull)->wrong, IsEmpty());
}

}  // namespace
}  // namespace scalai::executor::worker
