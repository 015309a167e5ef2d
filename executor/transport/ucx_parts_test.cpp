// The parts of the UCX transport by themselves; ucx_transport_test.cpp has them at work between processes.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "executor/transport/internal/errors.h"
#include "executor/transport/internal/ucx_answering.h"
#include "executor/transport/internal/ucx_asking.h"
#include "executor/transport/internal/ucx_endpoints.h"
#include "executor/transport/internal/ucx_thread.h"
#include "executor/transport/internal/ucx_worker.h"
#include "executor/transport/internal/wire.h"
#include "executor/transport/testing/test_process.h"
#include "ptc/base/status.h"

namespace scalai::executor::internal {
namespace ucx_parts_test {

using ::testing::ElementsAre;

constexpr HostId kPeer(3);

Deadline in_ms(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

TEST(WireTest, AddressesAreWrappedAndChecked) {
  const std::string inner("\0any bytes\xff", 11);
  const std::string address = wrap_address(inner);
  EXPECT_EQ(unwrap_address(kPeer, address).value(), inner);
  for (size_t i = 0; i < address.size(); ++i) {
    std::string broken = address;
    broken[i] = static_cast<char>(broken[i] ^ 1);
    EXPECT_EQ(unwrap_address(kPeer, broken).status(), invalid(bad_address(kPeer))) << "byte " << i;
    EXPECT_FALSE(unwrap_address(kPeer, address.substr(0, i)).ok()) << "cut at " << i;
  }
  EXPECT_FALSE(unwrap_address(kPeer, wrap_address("")).ok());
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

  std::unique_ptr<UcxWorker> worker_ = UcxWorker::create({}).value();
  int lost_ = 0, gone_ = 0;
  UcxEndpoints endpoints_{
      worker_->handle(),
      {.lost = [this](const EndpointPtr&) { ++lost_; }, .gone = [this](const EndpointPtr&) { ++gone_; }}};
};

TEST_F(UcxEndsTest, OneConnectionAnAddressUntilItIsLost) {
  const EndpointPtr first = endpoints_.open(worker_->address()).value();
  EXPECT_EQ(endpoints_.open(worker_->address()).value(), first);
  endpoints_.fail(first, "for the test");
  endpoints_.fail(first, "again");
  EXPECT_EQ(first->lost, "for the test");
  EXPECT_EQ(lost_, 1);
  EXPECT_EQ(gone_, 0) << "not inside the call";
  turn_until([&] { return gone_ == 1; });
  const EndpointPtr second = endpoints_.open(worker_->address()).value();
  EXPECT_NE(second, first);
  EXPECT_GT(second->number, first->number);
}

TEST_F(UcxEndsTest, MessagesOfALostConnectionAreGivenBack) {
  const EndpointPtr endpoint = endpoints_.open(worker_->address()).value();
  endpoints_.fail(endpoint, "for the test");
  std::vector<bool> sent;
  UcxMessage message;
  message.set_header(CancelHeader{.fetch = 1});
  message.sent = [&](bool ok) { sent.push_back(ok); };
  endpoints_.send(endpoint, std::move(message));
  EXPECT_THAT(sent, ElementsAre(false));
}

TEST_F(UcxEndsTest, AFetchFromNobodyEndsAtOnce) {
  UcxAsking asking(endpoints_, worker_->handle(), worker_->address());
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
  UcxAnswering answering(endpoints_, handler, {}, [](const auto& task) { task(); });
  const std::string& address = worker_->address();
  const auto ask = [&](uint64_t connection) {
    answering.asked({.fetch = 1, .connection = connection, .address_bytes = static_cast<int64_t>(address.size())},
                    address + "x");
  };
  ask(4);
  EXPECT_EQ(calls, 0) << "inside a callback";
  EXPECT_TRUE(answering.serve());
  EXPECT_FALSE(answering.serve());
  EXPECT_EQ(calls, 1);
  ask(4);
  const EndpointPtr endpoint = endpoints_.open(address).value();
  endpoints_.fail(endpoint, "for the test");
  answering.lost(endpoint);
  ask(4);
  answering.serve();
  EXPECT_EQ(calls, 1) << "asked before it broke, or late";
  ask(5);
  EXPECT_TRUE(answering.serve());
  EXPECT_EQ(calls, 2) << "a new connection";
  answering.asked({.fetch = 1, .connection = 6, .address_bytes = 1000}, "cut short");
  EXPECT_FALSE(answering.serve());
  answering.stop();
  close_all();  // its messages come back to it
}

TEST(UcxThreadTest, RunsTasksInOrderUntilItStops) {
  const auto thread = UcxThread::start(process_handler, {}).value();
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
}  // namespace scalai::executor::internal
