// The parts of the UCX transport by themselves; ucx_transport_test.cpp has them at work between processes.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/transport/internal/chunk_set.h"
#include "executor/transport/internal/errors.h"
#include "executor/transport/internal/ucx_answering.h"
#include "executor/transport/internal/ucx_asking.h"
#include "executor/transport/internal/ucx_endpoints.h"
#include "executor/transport/internal/ucx_thread.h"
#include "executor/transport/internal/ucx_worker.h"
#include "executor/transport/internal/wire.h"
#include "executor/transport/testing/test_process.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace ucx_parts_test {

using ::testing::ElementsAre;

constexpr HostId kPeer(3);

Deadline in_ms(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

TEST(WireTest, AddressesCarryTheCodeOfTheRun) {
  const std::string inner("\0any bytes\xff", 11);
  const Self self = make_self(kTestKey, inner).value();
  EXPECT_EQ(read_address(self, kPeer, self.address)->ucx, inner);
  EXPECT_EQ(read_address(self, kPeer, self.address)->number, self.number);
  for (size_t i = 0; i < self.address.size(); ++i) {
    std::string broken = self.address;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    EXPECT_EQ(read_address(self, kPeer, broken).status(), invalid(bad_address(kPeer))) << "byte " << i;
    EXPECT_FALSE(read_address(self, kPeer, self.address.substr(0, i)).ok()) << "cut at " << i;
  }
  const Self other = make_self("the key of another run", inner).value();
  EXPECT_EQ(read_address(other, kPeer, self.address).status(), invalid(bad_address(kPeer)));
  EXPECT_FALSE(read_address(self, kPeer, make_self(kTestKey, "").value().address).ok());
  EXPECT_EQ(make_self("short", inner).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WireTest, ATagIsOfOneMessageBetweenTwoEnds) {
  AnswerHeader header{.fetch = 1, .offset = 2, .total = 3, .code = 0, .bytes = 4};
  header.tag = tag_of(kTestKey, "from", "to", header, "text");
  EXPECT_TRUE(is_sealed(kTestKey, "from", "to", header, "text"));
  EXPECT_FALSE(is_sealed("another key", "from", "to", header, "text"));
  EXPECT_FALSE(is_sealed(kTestKey, "else", "to", header, "text"));
  EXPECT_FALSE(is_sealed(kTestKey, "from", "else", header, "text"));
  EXPECT_FALSE(is_sealed(kTestKey, "to", "from", header, "text")) << "sent back";
  EXPECT_FALSE(is_sealed(kTestKey, "from", "to", header, "other"));
  for (size_t i = 0; i < sizeof header; ++i) {
    AnswerHeader changed = header;
    reinterpret_cast<char*>(&changed)[i] ^= 1;
    EXPECT_FALSE(is_sealed(kTestKey, "from", "to", changed, "text")) << i;
  }
}

TEST(ChunkSetTest, AgreesWithBytesOneByOne) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<bool> taken(64, false);
    ChunkSet chunks;
    for (int i = 0; i < 40; ++i) {
      const int64_t offset = random.below(64);
      const int64_t bytes = random.between(0, std::min<int64_t>(8, 64 - offset));
      const int64_t before = std::count(taken.begin() + offset, taken.begin() + offset + bytes, true);
      const ChunkSet::Fit expected = before == bytes ? ChunkSet::Fit::kAgain
                                     : before == 0   ? ChunkSet::Fit::kNew
                                                     : ChunkSet::Fit::kOverlaps;
      ASSERT_EQ(chunks.add(offset, bytes), expected) << offset << " " << bytes;
      if (expected == ChunkSet::Fit::kNew) std::fill_n(taken.begin() + offset, bytes, true);
    }
    size_t ranges = 0;
    for (size_t i = 0; i < taken.size(); ++i) ranges += taken[i] && (i == 0 || !taken[i - 1]) ? 1 : 0;
    EXPECT_EQ(chunks.ranges(), ranges);
  }
}

TEST(UcxWorkerTest, SleepsUntilItIsWokenOrItIsTime) {
  const auto worker = UcxWorker::create({}).value();
  EXPECT_FALSE(worker->address().empty());
  const auto settle = [&] {
    while (worker->progress()) continue;
  };
  settle();
  const Deadline until = in_ms(30);
  while (std::chrono::steady_clock::now() < until) {
    worker->sleep(until);
    settle();
  }
  // Would never return without the wakes: one before it sleeps, then one of another thread.
  worker->wake();
  worker->wake();
  worker->sleep(std::nullopt);
  std::atomic<bool> woken = false;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    woken = true;
    worker->wake();
  });
  while (!woken) {
    worker->sleep(std::nullopt);
    settle();
  }
  other.join();
}

TEST(UcxWorkerTest, UnknownTransportsAreAnError) {
  EXPECT_EQ(UcxWorker::create({.transports = "carrier-pigeon"}).status().code(), absl::StatusCode::kUnavailable);
}

// Nothing that a kill could leave in /dev/shm.
TEST(UcxWorkerTest, MakesNoSegmentsOfSharedMemory) {
  const auto worker = UcxWorker::create({});
  ASSERT_TRUE(worker.ok()) << worker.status();
  std::ifstream file("/proc/self/maps");
  const std::string maps((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_THAT(maps, ::testing::HasSubstr("libucp"));
  EXPECT_THAT(maps, ::testing::Not(::testing::HasSubstr("ucx_shm")));
  EXPECT_THAT(maps, ::testing::Not(::testing::HasSubstr("/SYSV")));
}

// A worker that talks to itself, turned by hand.
class UcxEndsTest : public ::testing::Test {
 protected:
  void turn_until(const std::function<bool()>& done) {
    for (const Deadline until = in_ms(20'000); !done();) {
      ASSERT_LT(std::chrono::steady_clock::now(), until) << "nothing came of it";
      worker_->progress();
      endpoints_.poll();
    }
  }
  void close_all() {
    endpoints_.close_all("the test is over");  // by force: nobody listens for messages here
    turn_until([&] { return !endpoints_.closing(); });
  }
  void TearDown() override { close_all(); }
  // An ask of `self` to this end.
  std::pair<AskHeader, std::string> sealed_ask(const Self& self, const std::string& address, uint64_t connection) {
    const std::string body = address + "x";
    AskHeader header{.fetch = 1, .connection = connection, .address_bytes = static_cast<int64_t>(address.size())};
    header.tag = tag_of(self.key, self.number, self_.number, header, body);
    return {header, body};
  }

  std::unique_ptr<UcxWorker> worker_ = UcxWorker::create({}).value();
  const Self self_ = make_self(kTestKey, worker_->address()).value();
  const PeerAddress address_{.number = self_.number, .ucx = worker_->address()};
  int lost_ = 0, gone_ = 0;
  UcxEndpoints endpoints_{
      worker_->handle(),
      {.lost = [this](const EndpointPtr&) { ++lost_; }, .gone = [this](const EndpointPtr&) { ++gone_; }}};
};

TEST_F(UcxEndsTest, OneConnectionAnAddressUntilItIsLost) {
  const EndpointPtr first = endpoints_.open(address_).value();
  EXPECT_EQ(endpoints_.open(address_).value(), first);
  endpoints_.fail(first, "for the test");
  endpoints_.fail(first, "again");
  EXPECT_EQ(first->lost, "for the test");
  EXPECT_EQ(lost_, 1);
  EXPECT_EQ(gone_, 0) << "not inside the call";
  turn_until([&] { return gone_ == 1; });
  const EndpointPtr second = endpoints_.open(address_).value();
  EXPECT_NE(second, first);
  EXPECT_GT(second->number, first->number);
}

TEST_F(UcxEndsTest, MessagesOfALostConnectionAreGivenBack) {
  const EndpointPtr endpoint = endpoints_.open(address_).value();
  endpoints_.fail(endpoint, "for the test");
  std::vector<bool> sent;
  UcxMessage message;
  message.set_header(CancelHeader{.fetch = 1});
  message.sent = [&](bool ok) { sent.push_back(ok); };
  endpoints_.send(endpoint, std::move(message));
  EXPECT_THAT(sent, ElementsAre(false));
}

TEST_F(UcxEndsTest, AFetchFromNobodyEndsAtOnce) {
  UcxAsking asking(endpoints_, worker_->handle(), self_);
  std::vector<std::byte> into(8);
  const std::span<std::byte> dst(into);
  const auto fetch = std::make_shared<Fetch>(kPeer, "x", std::span(&dst, 1));
  asking.start(fetch);
  EXPECT_EQ(fetch->wait(), not_connected(kPeer));
  EXPECT_FALSE(asking.next_late().has_value());
}

TEST_F(UcxEndsTest, AskedOverABrokenConnectionIsNotAnswered) {
  int calls = 0;
  const AnswerHandler handler = [&](std::string_view) -> absl::StatusOr<Payload> {
    ++calls;
    return Payload();
  };
  UcxAnswering answering(endpoints_, self_, handler, {}, [](const auto& task) { task(); });
  const auto ask = [&](uint64_t connection) {
    const auto [header, body] = sealed_ask(self_, self_.address, connection);
    answering.asked(header, body);
  };
  ask(4);
  EXPECT_EQ(calls, 0) << "inside a callback";
  EXPECT_TRUE(answering.serve());
  EXPECT_FALSE(answering.serve());
  EXPECT_EQ(calls, 1);
  ask(4);
  const EndpointPtr endpoint = endpoints_.open(address_).value();
  endpoints_.fail(endpoint, "for the test");
  answering.lost(endpoint);
  ask(4);
  answering.serve();
  EXPECT_EQ(calls, 1) << "asked before it broke, or late";
  ask(5);
  EXPECT_TRUE(answering.serve());
  EXPECT_EQ(calls, 2) << "a new connection";
  answering.asked({.fetch = 1, .connection = 6, .address_bytes = 1000}, "cut short");
  answering.asked({.fetch = 1, .connection = 6, .address_bytes = -1}, "cut short");
  EXPECT_FALSE(answering.serve());
  answering.stop();
  close_all();  // its messages come back to it
}

// UCX crashes on an address that is none: it never gets to see one.
TEST_F(UcxEndsTest, StrangersAndMalformedAddressesAreNotAnswered) {
  const AnswerHandler handler = [&](std::string_view) -> absl::StatusOr<Payload> {
    ADD_FAILURE() << "it was asked";
    return Payload();
  };
  UcxAnswering answering(endpoints_, self_, handler, {}, [](const auto& task) { task(); });
  const Self stranger = make_self("the key of another run", worker_->address()).value();
  const std::string garbage(24, '\x7f');
  for (const auto& [header, body] :
       {sealed_ask(stranger, stranger.address, 1), sealed_ask(stranger, self_.address, 1),
        sealed_ask(self_, stranger.address, 1), sealed_ask(self_, garbage, 1), sealed_ask(self_, "", 1)}) {
    answering.asked(header, body);
    EXPECT_FALSE(answering.serve());
  }
  auto [header, body] = sealed_ask(self_, self_.address, 1);
  answering.asked(header, body + "and more");
  header.fetch = 2;
  answering.asked(header, body);
  answering.asked({.fetch = 1, .connection = 1, .address_bytes = 24}, garbage + "x");
  answering.cancelled({.fetch = 1}, self_.address);
  EXPECT_FALSE(answering.serve());
  answering.stop();
}

// Answers to a fetch of eight bytes.
class UcxAnswersTest : public UcxEndsTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(asking_.connect(kPeer, address_).ok());
    asking_.start(fetch_);
  }
  AnswerHeader sealed(AnswerHeader header, std::string_view error = "") {
    header.fetch = fetch_->id;
    header.tag = tag_of(self_.key, self_.number, self_.number, header, error);
    return header;
  }
  void receive(const AnswerHeader& header, std::string bytes) {
    asking_.receive(header, bytes.data(), static_cast<int64_t>(bytes.size()), /*rendezvous=*/false);
  }
  std::string into() const { return {reinterpret_cast<const char*>(into_.data()), into_.size()}; }

  UcxAsking asking_{endpoints_, worker_->handle(), self_};
  std::vector<std::byte> into_ = std::vector<std::byte>(8, std::byte{'-'});
  const std::span<std::byte> dst_{into_};
  const FetchPtr fetch_ = std::make_shared<Fetch>(kPeer, "x", std::span(&dst_, 1));
};

TEST_F(UcxAnswersTest, AChunkCountsOnce) {
  for (int i = 0; i < 3; ++i) receive(sealed({.offset = 0, .total = 8, .bytes = 4}), "abcd");
  receive(sealed({.offset = 1, .total = 8, .bytes = 2}), "XX");
  receive(sealed({.offset = 4, .total = 8, .bytes = 0}), "");
  ASSERT_FALSE(fetch_->given.has_value()) << *fetch_->given;
  EXPECT_EQ(into(), "abcd----");
  receive(sealed({.offset = 4, .total = 8, .bytes = 4}), "efgh");
  EXPECT_EQ(fetch_->wait(), absl::OkStatus());
  EXPECT_EQ(into(), "abcdefgh");
}

TEST_F(UcxAnswersTest, ForgedAnswersAreNothing) {
  const AnswerHeader good = sealed({.offset = 0, .total = 8, .bytes = 8});
  AnswerHeader untagged = good;
  untagged.tag = {};
  receive(untagged, "XXXXXXXX");
  AnswerHeader elsewhere = good;
  elsewhere.offset = 4;
  receive(elsewhere, "XXXX");
  receive(good, "XXXX");
  AnswerHeader another = good;
  another.tag = tag_of(self_.key, "another transport", self_.number, another, "");
  receive(another, "XXXXXXXX");
  receive({.fetch = fetch_->id, .code = 5, .bytes = 9}, "not found");
  receive(sealed({.code = 5, .bytes = 9}, "not found"), "all fine!");
  ASSERT_FALSE(fetch_->given.has_value()) << *fetch_->given;
  EXPECT_EQ(into(), "--------");
  receive(good, "abcdefgh");
  EXPECT_EQ(fetch_->wait(), absl::OkStatus());
  EXPECT_EQ(into(), "abcdefgh");
}

TEST_F(UcxAnswersTest, AChunkOverAnotherOneIsAnError) {
  receive(sealed({.offset = 0, .total = 8, .bytes = 4}), "abcd");
  receive(sealed({.offset = 2, .total = 8, .bytes = 4}), "XXXX");
  EXPECT_EQ(fetch_->wait(), absl::InternalError("a chunk over another one of its answer"));
  EXPECT_EQ(into(), "abcd----");
}

TEST_F(UcxAnswersTest, AChunkOutsideIsAnError) {
  receive(sealed({.offset = 6, .total = 8, .bytes = 4}), "XXXX");
  EXPECT_EQ(fetch_->wait(), absl::InternalError("a chunk outside its answer"));
  EXPECT_EQ(into(), "--------");
}

TEST_F(UcxAnswersTest, AnUnknownCodeIsAnErrorAllTheSame) {
  receive(sealed({.code = 99, .bytes = 4}, "what"), "what");
  EXPECT_EQ(fetch_->wait(), absl::UnknownError("error 99: what"));
}

TEST(UcxThreadTest, RunsTasksInOrderUntilItStops) {
  const auto thread = UcxThread::start(process_handler, {.key = kTestKey}).value();
  std::vector<int> order;
  std::promise<void> done;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(thread->post([&, i] { order.push_back(i); }));
  EXPECT_TRUE(thread->post([&] { done.set_value(); }));
  done.get_future().wait();
  EXPECT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  thread->stop();
  EXPECT_FALSE(thread->post([] { FAIL() << "after the end"; }));
  thread->stop();
}

}  // namespace ucx_parts_test
}  // namespace scalai::executor::transport::internal
