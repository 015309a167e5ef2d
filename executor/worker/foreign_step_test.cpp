#include "executor/worker/foreign_step.h"

#include <gtest/gtest.h>

#include <array>

#include "executor/state/testing/support.h"
#include "executor/transport/loopback_transport.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {
namespace {

TEST(ForeignStepTest, RefusesWhatDoesNotFitThePlan) {
  const std::vector<plan::TensorInfo> planned = {{.name = "w", .shape = {2}}};
  proto::Foreign foreign;
  foreign.set_version(state::StateVersion::live(1).wire());
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.add_tensors(0);
  EXPECT_TRUE(ForeignStep::make(foreign, planned).ok());
  foreign.add_changes()->set_tensor(1);
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.mutable_changes(0)->set_tensor(0);
  foreign.mutable_changes(0)->add_lo(5);
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.mutable_changes(0)->add_hi(6);
  EXPECT_TRUE(ForeignStep::make(foreign, planned).ok());
  foreign.add_changes();  // of another rank
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
  foreign.set_version(-77);
  EXPECT_FALSE(ForeignStep::make(foreign, planned).ok());
}

// Each question to it would cost the whole deadline, in every chunk of every tensor.
TEST(ForeignStepTest, ASilentHostIsAskedOncePerStep) {
  int asked = 0;
  transport::LoopbackNetwork network;
  transport::LoopbackTransport there(network, [&](std::string_view) -> absl::StatusOr<transport::Payload> {
    ++asked;
    return absl::DeadlineExceededError("silent");
  });
  transport::LoopbackTransport here(network, [](std::string_view) { return absl::UnimplementedError("asks only"); });
  const std::unique_ptr<device::Backend> backend = device::make_host_backend();
  Places places({.host = HostId(1), .backend = backend.get(), .transport = &here});
  ASSERT_OK(places.setup({1, 1}));
  proto::Peer peer;
  peer.set_transport_address(there.address());
  peer.add_places()->set_place("g0");
  ASSERT_OK(places.peers({peer}, true));
  proto::Foreign foreign;
  foreign.set_hosts(1);
  foreign.set_version(state::StateVersion::live(1).wire());
  foreign.add_tensors(0);
  const ForeignStep step = state::value_or_die(ForeignStep::make(foreign, {{.name = "w", .shape = {4}}}));
  std::array<std::byte, 16> into{};
  ForeignStep::Taken taken;
  for (int64_t i = 0; i < 4; ++i) {
    const tensor::Box box({i}, {i + 1});
    const absl::Status read = step.read(places, Location::device(DeviceId(0)), TensorId(0), box,
                                        {box, tensor::DType::kF32, into.data()}, taken);
    EXPECT_TRUE(absl::IsDeadlineExceeded(read)) << read;
  }
  EXPECT_EQ(asked, 1);
  EXPECT_TRUE(taken.empty());
  there.close();
  here.close();
}

}  // namespace
}  // namespace scalai::executor::worker
