#include "executor/live/live_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <memory>
#include <new>

#include "executor/live/live_run.h"
#include "executor/transport/loopback_transport.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/plan/testing/support.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::live {
namespace live_answer_test {

using ::testing::HasSubstr;
using Change = std::function<void(proto::LiveState&)>;

// Two hosts with two devices each; tensor 0 is F32 [6, 4], of whose halves there are digests of two rows each.
collection::Collection side() {
  return plan::one_tensor(tensor::Shape({6, 4}), plan::cut_over("x", 0), plan::first_devices(2));
}

proto::LiveState sound() {
  proto::LiveState live;
  live.set_ready(true);
  live.set_step(3);
  live.set_digest_bytes(32);
  for (int host = 0; host < 2; ++host) {
    live.add_gpus_of_host(2);
    live.add_peers()->set_host(host);
    proto::BoxDigests& digests = *live.add_digests();
    worker::set_box(tensor::Box({3 * host, 0}, {3 * host + 3, 4}), TensorId(0), tensor::DType::kF32,
                    *digests.mutable_box());
    for (int piece = 0; piece < 2; ++piece) digests.add_digests(7);
    *live.add_stats()->mutable_box() = digests.box();
  }
  live.add_tensors(0);
  return live;
}

std::string after(const Change& change) {
  proto::LiveState live = sound();
  change(live);
  return message_of(check_live(live, side()));
}

TEST(CheckLive, ASoundAnswerIsOne) {
  EXPECT_EQ(after([](auto&) {}), "");
  EXPECT_EQ(after([](auto& live) { live.mutable_digests()->Clear(), live.set_digest_bytes(0); }), "");
  EXPECT_EQ(after([](auto& live) { live.mutable_peers()->RemoveLast(); }), "") << "a host that was lost";
}

TEST(CheckLive, NumbersThatOthersIndexByAreInRange) {
  const std::vector<std::pair<Change, std::string>> cases = {
      {[](auto& live) { live.set_gpus_of_host(0, -1); }, "a host of -1 devices"},
      {[](auto& live) { live.set_gpus_of_host(1, INT32_MAX); }, "a host of 2147483647 devices"},
      {[](auto& live) { live.set_gpus_of_host(0, 0), live.set_gpus_of_host(1, 1); }, "a rank on device 1 of 1"},
      {[](auto& live) { live.mutable_peers(0)->set_host(2); }, "host 2 of 2"},
      {[](auto& live) { live.mutable_peers(0)->set_host(-1); }, "host -1 of 2"},
      {[](auto& live) { live.mutable_peers(0)->set_host(1); }, "host 1 of 2, or twice"},
      {[](auto& live) { live.set_tensors(0, 1); }, "tensor 1 of 1"},
      {[](auto& live) { live.set_step(-1); }, "step -1"}};
  for (const auto& [change, said] : cases) EXPECT_THAT(after(change), HasSubstr(said));
}

TEST(CheckLive, DigestsAndStatisticsAreOfBoxesThatThereAre) {
  const auto after_box = [](const std::function<void(proto::TensorBox&)>& change) {
    return after([&](auto& live) { change(*live.mutable_digests(0)->mutable_box()); });
  };
  EXPECT_THAT(after_box([](auto& box) { box.set_tensor(1); }), HasSubstr("a box of tensor 1 of 1"));
  EXPECT_THAT(after_box([](auto& box) { box.set_tensor(-1); }), HasSubstr("a box of tensor -1"));
  EXPECT_THAT(after_box([](auto& box) { box.set_hi(0, 7); }),
              HasSubstr("a box [0:7, 0:4] F32 of tensor \"w\", which is"));
  EXPECT_THAT(after_box([](auto& box) { box.set_dtype(0); }), HasSubstr("a box [0:3, 0:4]"));
  EXPECT_THAT(after_box([](auto& box) { box.mutable_lo()->RemoveLast(), box.mutable_hi()->RemoveLast(); }),
              HasSubstr("a box [0:3] F32"));
  EXPECT_THAT(after([](auto& live) { live.mutable_stats(1)->mutable_box()->set_tensor(3); }), HasSubstr("tensor 3"));
  EXPECT_THAT(after([](auto& live) { live.mutable_digests(1)->add_digests(1); }), HasSubstr("3 digests of tensor 0"));
  EXPECT_THAT(after([](auto& live) { live.mutable_digests(1)->clear_digests(); }), HasSubstr("0 digests of tensor 0"));
  for (const int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MIN})
    EXPECT_THAT(after([&](auto& live) { live.set_digest_bytes(bytes); }), HasSubstr("digests of")) << bytes;
}

// Pieces are not made to be counted where there are too few numbers for them.
TEST(CheckLive, ManyPiecesTakeNoMemory) {
  const collection::Collection huge =
      plan::one_tensor(tensor::Shape({int64_t{1} << 40}), plan::cut_over("x", 0), plan::first_devices(2));
  proto::LiveState live = sound();
  live.clear_digests();
  live.clear_stats();
  live.set_digest_bytes(4);
  proto::BoxDigests& digests = *live.add_digests();
  worker::set_box(tensor::Box({0}, {int64_t{1} << 40}), TensorId(0), tensor::DType::kF32, *digests.mutable_box());
  digests.add_digests(1);
  EXPECT_THAT(message_of(check_live(live, huge)), HasSubstr("1 digests of tensor 0"));
}

// Found by live_fuzz: readers that share blocks put all of them in order, 64 B each.
TEST(LiveStepOfAnyAnswer, ManyBlocksTakeNoMemory) {
  proto::LiveState live;
  live.set_ready(true);
  live.set_name("a");
  live.set_version(state::StateVersion::live(1).wire());
  live.set_step(5);
  live.set_force_network(true);
  live.set_collection(collection::collection_text(
      plan::one_tensor(tensor::Shape({int64_t{1} << 43}), plan::cut_over("x", 0), plan::first_devices(2)), {}));
  live.add_gpus_of_host(2);
  live.add_peers()->set_host_name("elsewhere");
  transport::LoopbackNetwork network;
  transport::LoopbackTransport transport(network, [](std::string_view) { return absl::NotFoundError("no state"); });
  live.mutable_peers(0)->set_transport_address(transport.address());
  LiveRun run({.place = "the run",
               .patience_s = 0,
               .kept_bytes = int64_t{1} << 20,
               .transport = &transport,
               .served = std::make_shared<ServedBlocks>(),
               .ask = [&](const proto::CtlRequest&) { return live.SerializeAsString(); }});
  rlimit before{}, tight{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  tight = {.rlim_cur = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + (int64_t{1} << 29)),
           .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  std::string problem;
  try {
    const auto step = run.newest("a");
    problem = message_of(step.status());
  } catch (const std::bad_alloc&) {
    problem = "out of memory";
  }
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_EQ(problem, "");
}

}  // namespace live_answer_test
}  // namespace scalai::executor::live
