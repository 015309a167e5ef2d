#include "executor/worker/places.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include "executor/device/testing/forwarding_backend.h"
#include "executor/state/copy.h"
#include "executor/state/testing/support.h"
#include "executor/transport/loopback_transport.h"
#include "executor/transport/rows.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::worker {

using state::StateVersion;
using state::Store;
using state::value_or_die;
using state::VersionKey;
using tensor::Box;
using tensor::DType;

namespace {

using ::testing::HasSubstr;

constexpr VersionKey kVersion{.job = 1, .version = StateVersion::epoch(5)};
constexpr VersionKey kOther{.job = 1, .version = StateVersion::epoch(77)};
constexpr TensorId kTensor(0);
const Location kFirst = Location::device(DeviceId(0));
const state::SegmentOptions kSegments{.capacity = int64_t{1} << 30, .leave_free = 0};

// Of host 0.
proto::Peer peer_of(const Places& owner, const std::string& transport_address) {
  proto::Peer peer;
  for (proto::WorkerPlace& place : owner.addresses()) *peer.add_places() = std::move(place);
  peer.set_transport_address(transport_address);
  return peer;
}

proto::FetchRequest request_for(const Box& box, const VersionKey& key) {
  proto::FetchRequest request;
  request.set_place(kFirst.str());
  request.set_job(key.job);
  request.set_version(key.version.wire());
  request.mutable_box()->set_tensor(kTensor.value);
  request.mutable_box()->set_dtype(static_cast<int>(DType::kU8));
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
    request.mutable_box()->add_lo(box.lo[dim]);
    request.mutable_box()->add_hi(box.hi[dim]);
  }
  return request;
}

// Two hosts of one device each: `owner` is host 0, `reader` host 1.
class TwoHosts : public testing::Test {
 protected:
  TwoHosts() {
    EXPECT_OK(owner_.setup({1, 1}));
    EXPECT_OK(reader_.setup({1, 1}));
  }
  ~TwoHosts() override {
    transport_.close();
    reader_transport_.close();
  }

  proto::Peer owner() const { return peer_of(owner_, transport_.address()); }
  void meet(bool force_network) { ASSERT_OK(reader_.peers({owner()}, force_network)); }

  // Random bytes on the owner's device.
  std::vector<std::byte> hold(const Box& box, DType dtype, uint64_t seed, const VersionKey& key = kVersion) {
    Random random(seed);
    std::vector<std::byte> bytes = state::random_bytes(random, state::packed_bytes(box, dtype));
    Store& store = *owner_.own(kFirst);
    const state::Target target = value_or_die(store.add(key, kTensor, box, dtype));
    std::copy(bytes.begin(), bytes.end(), target.data);
    EXPECT_OK(store.publish(key));
    return bytes;
  }
  absl::Status read(const Box& box, DType dtype, std::vector<std::byte>& into, const VersionKey& key = kVersion) {
    into.assign(static_cast<size_t>(state::packed_bytes(box, dtype)), std::byte{0});
    return reader_.read(kFirst, key, kTensor, box, {box, dtype, into.data()});
  }

  Places* answering_ = &owner_;
  std::atomic<int> asked_ = 0;
  transport::LoopbackNetwork network_;
  transport::LoopbackTransport transport_{network_, [this](std::string_view request) {
                                            ++asked_;
                                            return answering_->answer(request);
                                          }};
  transport::LoopbackTransport reader_transport_{
      network_, [](std::string_view) { return absl::UnimplementedError("asks only"); }};
  std::unique_ptr<device::Backend> backend_ = device::make_host_backend();
  std::shared_ptr<LocalStores> locals_ = std::make_shared<LocalStores>();
  Places owner_{{.host = HostId(0), .segments = kSegments, .backend = backend_.get(), .locals = locals_}};
  Places reader_{{.host = HostId(1),
                  .segments = kSegments,
                  .backend = backend_.get(),
                  .transport = &reader_transport_,
                  .disturbed_s = 1}};
};

TEST_F(TwoHosts, EachHasItsOwnPlaces) {
  EXPECT_EQ(owner_.devices(), std::vector<DeviceId>{DeviceId(0)});
  EXPECT_EQ(reader_.devices(), std::vector<DeviceId>{DeviceId(1)});
  EXPECT_NE(owner_.own(Location::host_memory(HostId(0))), nullptr);
  EXPECT_EQ(owner_.own(Location::device(DeviceId(1))), nullptr);
  EXPECT_EQ(owner_.stores().size(), 2u);
  EXPECT_EQ(owner_.host_of(Location::device(DeviceId(1))), HostId(1));
  EXPECT_TRUE(owner_.in_cluster(Location::host_memory(HostId(1))));
  EXPECT_FALSE(owner_.in_cluster(Location::host_memory(HostId(2))));
  EXPECT_FALSE(owner_.in_cluster(Location::device(DeviceId(2))));
  EXPECT_FALSE(owner_.in_cluster(Location::storage()));
  for (const proto::WorkerPlace& place : owner_.addresses()) EXPECT_EQ(place.pid(), getpid()) << place.place();
}

TEST_F(TwoHosts, SetupAgainKeepsStoresAndRefusesNonsense) {
  const Store* before = owner_.own(kFirst);
  ASSERT_OK(owner_.setup({1, 1}));
  EXPECT_EQ(owner_.own(kFirst), before);
  EXPECT_FALSE(reader_.setup({1}).ok()) << "host 1 is not in a cluster of one";
  EXPECT_FALSE(reader_.setup({1, -1}).ok());
  EXPECT_FALSE(reader_.setup({1, 1 << 30}).ok());
}

TEST_F(TwoHosts, ReadFromTheOwnStore) {
  const Box box({0, 0}, {6, 10}), part({1, 2}, {5, 9});
  const std::vector<std::byte> all = hold(box, DType::kF32, 1);
  std::vector<std::byte> got(static_cast<size_t>(state::packed_bytes(part, DType::kF32))), expected(got.size());
  ASSERT_OK(owner_.read(kFirst, kVersion, kTensor, part, {part, DType::kF32, got.data()}));
  state::pack_box(part, {box, DType::kF32, all.data()}, DType::kF32, expected.data());
  EXPECT_EQ(got, expected);
}

TEST_F(TwoHosts, ReadFromASegmentAndOverTheNetwork) {
  const Box box({0, 0, 0}, {5, 7, 9});
  const std::vector<std::byte> all = hold(box, DType::kBF16, 2);
  for (const bool network : {false, true}) {
    meet(network);
    Random random(3);
    asked_ = 0;
    for (int i = 0; i < 50; ++i) {
      const Box part = state::random_box(random, box);
      SCOPED_TRACE(part.str());
      std::vector<std::byte> got, expected(static_cast<size_t>(state::packed_bytes(part, DType::kBF16)));
      ASSERT_OK(read(part, DType::kBF16, got));
      state::pack_box(part, {box, DType::kBF16, all.data()}, DType::kBF16, expected.data());
      ASSERT_EQ(got, expected);
    }
    EXPECT_EQ(asked_, network ? 50 : 0);
  }
}

TEST_F(TwoHosts, ABoxInSeveralBuffersIsPutTogether) {
  const std::vector<std::byte> left = hold(Box({0}, {10}), DType::kU8, 4);
  const std::vector<std::byte> right = hold(Box({10}, {25}), DType::kU8, 5);
  std::vector<std::byte> expected(left.begin() + 5, left.end());
  expected.insert(expected.end(), right.begin(), right.begin() + 10);
  for (const bool network : {false, true}) {
    meet(network);
    std::vector<std::byte> got;
    ASSERT_OK(read(Box({5}, {20}), DType::kU8, got));
    EXPECT_EQ(got, expected);
  }
}

// The reader's type decides, wherever the bytes come from.
TEST_F(TwoHosts, ReadingCasts) {
  const Box box({0}, {3});
  const std::array<float, 3> values = {1.0F, -2.5F, 3.0000001F};
  const state::Target target = value_or_die(owner_.own(kFirst)->add(kVersion, kTensor, box, DType::kF32));
  std::memcpy(target.data, values.data(), sizeof values);
  ASSERT_OK(owner_.own(kFirst)->publish(kVersion));
  for (const bool network : {false, true}) {
    meet(network);
    std::vector<std::byte> got;
    ASSERT_OK(read(box, DType::kF64, got));
    for (size_t i = 0; i < values.size(); ++i) {
      double value = 0;
      std::memcpy(&value, got.data() + i * sizeof value, sizeof value);
      EXPECT_EQ(value, static_cast<double>(values[i]));
    }
    EXPECT_TRUE(absl::IsInvalidArgument(read(box, DType::kI32, got)));
  }
}

// A request asks for at most 8 MiB: rows of a matrix, parts of a row that is longer, and a rest.
TEST_F(TwoHosts, LargeBoxesComeInParts) {
  meet(true);
  int64_t epoch = 100;
  struct Shape {
    Box box;
    int requests;
  };
  for (const auto& [box, requests] : {Shape{Box({0, 0}, {20, 1 << 20}), 3}, Shape{Box({0, 0}, {2, 9 << 20}), 4},
                                      Shape{Box({0}, {8 << 20}), 1}, Shape{Box({0}, {(8 << 20) + 1}), 2}}) {
    SCOPED_TRACE(box.str());
    const VersionKey key{1, StateVersion::epoch(epoch++)};
    const std::vector<std::byte> all = hold(box, DType::kU8, static_cast<uint64_t>(epoch), key);
    asked_ = 0;
    std::vector<std::byte> got;
    ASSERT_OK(read(box, DType::kU8, got, key));
    EXPECT_TRUE(got == all);
    EXPECT_EQ(asked_, requests);
    owner_.own(kFirst)->drop(key);
  }
}

TEST_F(TwoHosts, WhatIsNotHeldIsNotFound) {
  (void)hold(Box({0}, {10}), DType::kU8, 6);
  for (const bool network : {false, true}) {
    SCOPED_TRACE(network ? "network" : "segment");
    meet(network);
    std::vector<std::byte> got;
    EXPECT_TRUE(absl::IsNotFound(read(Box({0}, {10}), DType::kU8, got, {1, StateVersion::epoch(6)}))) << "version";
    EXPECT_TRUE(absl::IsNotFound(read(Box({0}, {10}), DType::kU8, got, {2, kVersion.version}))) << "job";
    const absl::Status more = read(Box({5}, {11}), DType::kU8, got);
    EXPECT_TRUE(absl::IsNotFound(more)) << more;
    EXPECT_THAT(message_of(more), HasSubstr("g0 does not hold tensor 0 [5:11] of job 1, epoch 5"));
    EXPECT_TRUE(absl::IsNotFound(read(Box({5, 0}, {6, 1}), DType::kU8, got))) << "rank";
    const Location nowhere = Location::device(DeviceId(9));
    const Box box({0}, {10});
    EXPECT_TRUE(absl::IsNotFound(reader_.read(nowhere, kVersion, kTensor, box, {box, DType::kU8, got.data()})));
  }
}

// A version that went and came again lies elsewhere: what was known of it must not be used.
TEST_F(TwoHosts, ARemadeVersionIsReadWhereItLiesNow) {
  meet(false);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const Box box({0}, {5000});
    const std::vector<std::byte> first = hold(box, DType::kU8, seed);
    std::vector<std::byte> got;
    ASSERT_OK(read(box, DType::kU8, got));
    ASSERT_EQ(got, first);
    Store& store = *owner_.own(kFirst);
    store.drop(kVersion);
    (void)hold(box, DType::kU8, seed + 100, kOther);  // where the first was
    const std::vector<std::byte> second = hold(box, DType::kU8, seed + 200);
    ASSERT_OK(read(box, DType::kU8, got));
    ASSERT_EQ(got, second);
    store.drop(kVersion);
    store.drop(kOther);
  }
}

TEST_F(TwoHosts, AFailedPlaceIsANewOne) {
  const Box box({0}, {100});
  (void)hold(box, DType::kU8, 7);
  meet(false);
  std::vector<std::byte> got;
  ASSERT_OK(read(box, DType::kU8, got));
  const state::SegmentAddress before = owner_.own(kFirst)->address();
  ASSERT_OK(owner_.fail(kFirst));
  EXPECT_FALSE(owner_.own(kFirst)->address() == before);
  EXPECT_TRUE(absl::IsNotFound(owner_.read(kFirst, kVersion, kTensor, box, {box, DType::kU8, got.data()})));
  meet(false);
  EXPECT_TRUE(absl::IsNotFound(read(box, DType::kU8, got)));
  const std::vector<std::byte> anew = hold(box, DType::kU8, 8);
  ASSERT_OK(read(box, DType::kU8, got));
  EXPECT_EQ(got, anew);
}

// Changes of other things of the owner: a read that they disturb is repeated, but not for ever.
TEST_F(TwoHosts, ADisturbedReadIsRepeated) {
  const Box box({0}, {100000});
  const std::vector<std::byte> bytes = hold(box, DType::kU8, 3);
  meet(false);
  Store& store = *owner_.own(kFirst);
  std::vector<std::byte> got;
  {
    std::atomic<bool> over = false;
    std::thread disturbing([&] {
      for (int64_t i = 0; !over; ++i) {
        const VersionKey other{.job = 2, .version = StateVersion::epoch(i % 7 + 1)};
        (void)value_or_die(store.add(other, kTensor, Box({0}, {64}), DType::kU8));
        EXPECT_OK(store.publish(other));
        store.drop(other);
      }
    });
    for (int i = 0; i < 200; ++i) {
      EXPECT_OK(read(box, DType::kU8, got));
      EXPECT_EQ(got, bytes);
    }
    over = true;
    disturbing.join();
  }
  store.begin_rewrite();
  const absl::Status torn = read(box, DType::kU8, got);
  EXPECT_TRUE(absl::IsUnavailable(torn));
  EXPECT_THAT(std::string(torn.message()), HasSubstr("changes too often"));
  store.end_rewrite();
  EXPECT_OK(read(box, DType::kU8, got));
}

TEST_F(TwoHosts, PeersForgets) {
  const Box box({0}, {100});
  (void)hold(box, DType::kU8, 9);
  std::vector<std::byte> got;
  EXPECT_TRUE(absl::IsUnavailable(read(box, DType::kU8, got))) << "nobody was named yet";
  for (const bool network : {false, true}) {
    meet(network);
    ASSERT_OK(read(box, DType::kU8, got));
    ASSERT_OK(reader_.peers({}, network));
    EXPECT_TRUE(absl::IsUnavailable(read(box, DType::kU8, got)));
  }
}

TEST_F(TwoHosts, ALimitOfDevicesIsNotOneOfHosts) {
  Places places({.host = HostId(0), .segments = kSegments, .device_limit = 1 << 20, .backend = backend_.get()});
  ASSERT_OK(places.setup({1}));
  EXPECT_TRUE(absl::IsResourceExhausted(places.own(Location::device(DeviceId(0)))->reserve(2 << 20)));
  EXPECT_OK(places.own(Location::host_memory(HostId(0)))->reserve(2 << 20));
}

TEST_F(TwoHosts, PeersRefuses) {
  proto::Peer odd = owner();
  odd.mutable_places(0)->set_place("h0.memory");
  EXPECT_TRUE(absl::IsInvalidArgument(reader_.peers({odd}, false)));
  Places alone({.host = HostId(1), .segments = kSegments, .backend = backend_.get()});
  ASSERT_OK(alone.setup({1, 1}));
  EXPECT_FALSE(alone.peers({owner()}, true).ok()) << "it has no transport";
  proto::Peer far = owner();
  for (proto::WorkerPlace& place : *far.mutable_places()) place.set_fd(-1);
  EXPECT_FALSE(alone.peers({far}, false).ok());
  (void)hold(Box({0}, {10}), DType::kU8, 10);
  ASSERT_OK(reader_.peers({far}, false));
  std::vector<std::byte> got;
  EXPECT_OK(read(Box({0}, {10}), DType::kU8, got));
  EXPECT_EQ(asked_, 1) << "without a descriptor it goes through the transport";
}

TEST_F(TwoHosts, AStrangeRequestIsAnsweredWithAnError) {
  (void)hold(Box({0}, {10}), DType::kU8, 11);
  EXPECT_FALSE(owner_.answer("\xff\xff\xff").ok());
  EXPECT_FALSE(owner_.answer("").ok());
  proto::FetchRequest request;
  request.set_place("g1");
  EXPECT_TRUE(absl::IsNotFound(owner_.answer(request.SerializeAsString()).status()));
  request.set_place("g0");
  request.set_version(-7);
  const absl::Status status = owner_.answer(request.SerializeAsString()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("-7"));
  request.set_version(5);
  for (int i = 0; i < 300; ++i) {
    request.mutable_box()->add_lo(0);
    request.mutable_box()->add_hi(1);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(owner_.answer(request.SerializeAsString()).status()));
}

// The transport's thread answers while the place fails again and again: whole answers or errors, never torn memory.
TEST_F(TwoHosts, AnswersWhileThePlaceFails) {
  meet(true);
  const Box box({0}, {1 << 20});
  std::atomic<bool> done = false;
  std::atomic<int> torn = 0;
  std::thread asking([&] {
    std::vector<std::byte> got;
    while (!done) {
      if (!read(box, DType::kU8, got).ok()) continue;
      if (std::any_of(got.begin(), got.end(), [&](std::byte byte) { return byte != got.front(); })) ++torn;
    }
  });
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(owner_.fail(kFirst));
    Store& store = *owner_.own(kFirst);
    const state::Target target = value_or_die(store.add(kOther, kTensor, box, DType::kU8));
    std::fill_n(target.data, box.volume(), static_cast<std::byte>(i));
    ASSERT_OK(store.keep(kOther, kVersion.version, kTensor, box));
    ASSERT_OK(store.publish(kVersion));
  }
  done = true;
  asking.join();
  EXPECT_EQ(torn, 0);
}

// Rows from a few bytes to more than a list needs, dense at either end or at none.
TEST_F(TwoHosts, RowsOfEveryLengthComeOverTheNetwork) {
  meet(true);
  int64_t epoch = 100;
  for (const int64_t row : {int64_t{3}, transport::kGatheredFrom_bytes - 1, transport::kGatheredFrom_bytes,
                            transport::kInPlaceFrom_bytes, 3 * transport::kInPlaceFrom_bytes + 1}) {
    const Box from({0, 0}, {6, 2 * row}), part({1, row / 2}, {5, row / 2 + row}), to({1, row / 2 - 1}, {6, 2 * row});
    const VersionKey key{1, StateVersion::epoch(epoch++)};
    const std::vector<std::byte> all = hold(from, DType::kU8, static_cast<uint64_t>(row), key);
    for (const Box& array : {part, to}) {
      SCOPED_TRACE(part.str() + " into " + array.str());
      std::vector<std::byte> got(static_cast<size_t>(array.volume()), std::byte{7}), expected = got;
      ASSERT_OK(reader_.read(kFirst, key, kTensor, part, {array, DType::kU8, got.data()}));
      state::copy_box(part, {from, DType::kU8, all.data()}, {array, DType::kU8, expected.data()});
      EXPECT_TRUE(got == expected);
    }
    proto::FetchRequest request = request_for(part, key);
    EXPECT_EQ(value_or_die(owner_.answer(request.SerializeAsString())).has_check(),
              row >= transport::kGatheredFrom_bytes);
  }
}

// Between the handler's answer and the last byte that leaves.
TEST_F(TwoHosts, StateThatChangesUnderWayIsUnavailable) {
  const Box box({0, 0}, {4, 3000}), part({0, 0}, {4, 1000});
  (void)hold(box, DType::kU8, 3);
  const transport::Payload payload = value_or_die(owner_.answer(request_for(part, kVersion).SerializeAsString()));
  EXPECT_OK(payload.check());
  // An answer that nobody waits for is kept for a minute; the memory of a failed place is not.
  const std::shared_ptr<const Store> old = locals_->find(kFirst);
  ASSERT_OK(owner_.fail(kFirst));
  EXPECT_EQ(old->bytes_held(), 0);
  EXPECT_EQ(payload.check(), absl::UnavailableError("g0 changed while it was read"));
}

// What the CPU cannot read is packed by the back end, at both ends.
TEST(PlacesOnGpus, BoxesArePacked) {
  class Unreachable : public device::ForwardingBackend {
   public:
    bool in_host_memory() const override { return false; }
    absl::Status copy(std::span<const device::BoxCopy> copies) override {
      copied += copies.size();
      return device::ForwardingBackend::copy(copies);
    }
    size_t copied = 0;
  };
  Unreachable backend;
  transport::LoopbackNetwork network;
  Places owner({.host = HostId(0), .segments = kSegments, .backend = &backend});
  transport::LoopbackTransport transport(network, [&](std::string_view request) { return owner.answer(request); });
  transport::LoopbackTransport asking(network, [](std::string_view) { return absl::UnimplementedError("asks only"); });
  Places reader({.host = HostId(1), .segments = kSegments, .backend = &backend, .transport = &asking});
  ASSERT_OK(owner.setup({1, 1}));
  ASSERT_OK(reader.setup({1, 1}));
  ASSERT_OK(reader.peers({peer_of(owner, transport.address())}, true));
  const Box box({0}, {100'000});
  const state::Target target = value_or_die(owner.own(kFirst)->add(kVersion, kTensor, box, DType::kU8));
  std::fill_n(target.data, box.volume(), std::byte{9});
  ASSERT_OK(owner.own(kFirst)->publish(kVersion));
  std::vector<std::byte> got(static_cast<size_t>(box.volume()));
  ASSERT_OK(reader.read(kFirst, kVersion, kTensor, box, {box, DType::kU8, got.data()}));
  EXPECT_EQ(std::count(got.begin(), got.end(), std::byte{9}), box.volume());
  EXPECT_EQ(backend.copied, 2u);
  asking.close();
  transport.close();
}

}  // namespace
}  // namespace scalai::executor::worker
