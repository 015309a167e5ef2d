#include "executor/transport/ucx_transport.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "executor/transport/internal/wire.h"
#include "executor/transport/testing/test_process.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport {
namespace ucx_transport_test {

using internal::expected_byte;
using internal::process_handler;
using internal::TestProcess;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr HostId kPeer(3);

// Long enough never to be reached; what must end sooner says so by its status.
Deadline patient() { return std::chrono::steady_clock::now() + std::chrono::seconds(60); }
Deadline in_ms(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

std::unique_ptr<UcxTransport> make_transport(UcxOptions options = {}, AnswerHandler handler = process_handler) {
  if (options.key.empty()) options.key = internal::kTestKey;
  auto transport = UcxTransport::create(std::move(handler), options);
  SCALAI_CHECK(transport.ok(), message_of(transport.status()));
  return *std::move(transport);
}

// Memory that is cut into spans at random, filled with what no answer holds by chance.
struct Target {
  Target(int64_t bytes, Random& random) : memory(static_cast<size_t>(bytes), std::byte{0xEE}) {
    const int64_t parts = random.between(1, 20);
    for (size_t at = 0; at < memory.size();) {
      const auto size = static_cast<size_t>(random.between(1, std::max<int64_t>(1, 2 * bytes / parts)));
      spans.push_back(std::span(memory).subspan(at, std::min(size, memory.size() - at)));
      at += size;
    }
  }
  int64_t wrong(uint64_t seed) const {
    int64_t count = 0;
    for (size_t i = 0; i < memory.size(); ++i) count += memory[i] != expected_byte(seed, static_cast<int64_t>(i));
    return count;
  }
  std::vector<std::byte> memory;
  std::vector<std::span<std::byte>> spans;
};

void fetch_and_check(PeerTransport& transport, uint64_t seed, int64_t bytes) {
  Random random(seed);
  const std::string kind = std::vector<std::string>{"owned", "parts", "produced"}[static_cast<size_t>(random.below(3))];
  Target target(bytes, random);
  const std::string request = fmt::format("{} {} {}", kind, seed, bytes);
  const absl::Status status = transport.fetch(kPeer, request, target.spans, patient());
  EXPECT_EQ(status, absl::OkStatus()) << request;
  EXPECT_EQ(target.wrong(seed), 0) << request;
}

class UcxTransportTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(transport_->connect(kPeer, peer_->address()).ok()); }

  absl::Status fetch(const std::string& request, int64_t bytes, Deadline deadline = patient()) {
    std::vector<std::byte> into(static_cast<size_t>(bytes));
    return transport_->fetch(kPeer, request, into, deadline);
  }
  void restart() {
    peer_ = std::make_unique<TestProcess>();
    ASSERT_EQ(transport_->connect(kPeer, peer_->address()), absl::OkStatus());
  }

  std::unique_ptr<TestProcess> peer_ = std::make_unique<TestProcess>();
  std::unique_ptr<UcxTransport> transport_ = make_transport();
};

TEST_F(UcxTransportTest, FetchesAnySize) {
  const int64_t kChunk = UcxOptions{}.chunk_bytes;
  uint64_t seed = 1;
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{8}, kChunk - 1, kChunk, kChunk + 1, 64 * kChunk + 3}) {
    fetch_and_check(*transport_, seed++, bytes);
  }
  fetch_and_check(*transport_, seed, int64_t{64} << 20);
}

TEST_F(UcxTransportTest, FetchesForSeveralCallersAtOnce) {
  std::vector<std::thread> callers;
  for (uint64_t caller = 0; caller < 6; ++caller) {
    callers.emplace_back([this, caller] {
      for (uint64_t turn = 0; turn < 12; ++turn) {
        const uint64_t seed = 100 * caller + turn;
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Random random(seed);
        fetch_and_check(*transport_, seed, random.between(0, int64_t{1} << random.between(0, 24)));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST_F(UcxTransportTest, ErrorsOfTheHandlerTravel) {
  EXPECT_EQ(fetch("error 5 there is no box [0:4]", 8), absl::NotFoundError("there is no box [0:4]"));
  EXPECT_EQ(fetch("error 9 ", 8), absl::FailedPreconditionError(""));
  const std::string text(100'000, 'x');
  EXPECT_EQ(fetch("error 3 " + text, 8), absl::InvalidArgumentError(text));
  EXPECT_EQ(fetch("owned 1 9", 8), absl::FailedPreconditionError("peer h3: answered with 9 bytes, 8 are expected"));
  EXPECT_EQ(fetch("owned 1 8", 8), absl::OkStatus()) << "the connection is as it was";
}

TEST_F(UcxTransportTest, NobodyThereIsUnavailable) {
  std::vector<std::byte> into(8);
  EXPECT_EQ(transport_->fetch(HostId(7), "owned 1 8", into, patient()),
            absl::UnavailableError("peer h7: not connected"));
  for (const std::string& address : {std::string(), std::string("nonsense"), peer_->address() + "x",
                                     peer_->address().substr(0, peer_->address().size() - 1)}) {
    EXPECT_EQ(transport_->connect(HostId(7), address).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(fetch("owned 1 8", 8), absl::OkStatus());
}

TEST_F(UcxTransportTest, ConnectingAgainToTheSameChangesNothing) {
  EXPECT_EQ(transport_->connect(kPeer, peer_->address()), absl::OkStatus());
  EXPECT_EQ(transport_->connect(HostId(4), peer_->address()), absl::OkStatus());
  EXPECT_EQ(fetch("owned 1 8", 8), absl::OkStatus());
}

// "slow" answers take 50 ms a chunk, so that what happens to the peer happens in the middle.
TEST_F(UcxTransportTest, AKilledPeerFailsAllFetchesAndCanBeReplaced) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(fetch("owned 1 8", 8), absl::OkStatus());
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller) {
      callers.emplace_back([this, caller] {
        const bool slow = caller % 2 == 0;
        absl::Status status;
        while (status.ok()) status = fetch(slow ? "slow 1 8000000" : "parts 1 8000000", 8'000'000);
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
        EXPECT_THAT(message_of(status), HasSubstr("peer h3: connection lost"));
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    peer_->signal(SIGKILL);
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(fetch("owned 1 8", 8).code(), absl::StatusCode::kUnavailable);
    restart();
  }
  EXPECT_EQ(fetch("owned 1 8", 8), absl::OkStatus());
}

TEST_F(UcxTransportTest, APeerThatDiedUnnoticedIsUnavailable) {
  peer_->signal(SIGKILL);
  EXPECT_EQ(fetch("owned 1 8", 8).code(), absl::StatusCode::kUnavailable) << "connected, but nothing was ever sent";
  const std::string address = peer_->address();
  const absl::Status again = transport_->connect(kPeer, address);
  EXPECT_TRUE(again.ok() || again.code() == absl::StatusCode::kUnavailable) << again;
  EXPECT_EQ(fetch("owned 1 8", 8).code(), absl::StatusCode::kUnavailable);
}

TEST_F(UcxTransportTest, APeerThatClosesIsUnavailable) {
  ASSERT_EQ(fetch("owned 1 8", 8), absl::OkStatus());
  EXPECT_EQ(peer_->end(), 0);
  EXPECT_EQ(fetch("owned 1 8", 8).code(), absl::StatusCode::kUnavailable);
}

TEST_F(UcxTransportTest, TheDeadlineEndsOneFetchOnly) {
  for (int round = 0; round < 5; ++round) {
    const absl::Status status = fetch("slow 1 80000000", 80'000'000, in_ms(120));
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(message_of(status), HasSubstr("of 80.0 MB arrived before the deadline"));
    fetch_and_check(*transport_, 7, 1'000'000);
  }
  EXPECT_EQ(fetch("owned 1 8", 8, Deadline()).code(), absl::StatusCode::kDeadlineExceeded) << "before it began";
}

TEST_F(UcxTransportTest, AFrozenPeerIsLeftAtTheDeadlineAndCanBeReconnected) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 3; ++caller) {
    callers.emplace_back([this] {
      absl::Status status;
      while (status.ok()) status = fetch("parts 1 64000000", 64'000'000, in_ms(2000));
      EXPECT_THAT(status.code(), AnyOf(absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kUnavailable)) << status;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  peer_->freeze();
  for (std::thread& caller : callers) caller.join();
  peer_->signal(SIGCONT);
  ASSERT_EQ(transport_->connect(kPeer, peer_->address()), absl::OkStatus());
  fetch_and_check(*transport_, 5, 10'000'000);
}

TEST_F(UcxTransportTest, CloseLetsAllCallersGo) {
  std::vector<std::thread> callers;
  std::atomic<int> running = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([this, caller, &running] {
      ++running;
      absl::Status status;
      while (status.ok())
        status = fetch(caller == 0 ? "slow 1 80000000" : "parts 1 8000000", caller == 0 ? 80'000'000 : 8'000'000);
      EXPECT_EQ(status, absl::CancelledError("the transport is closed"));
    });
  }
  while (running < 4) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  transport_->close();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(fetch("owned 1 8", 8).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(transport_->connect(kPeer, peer_->address()).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(transport_->address().empty(), false);
  transport_->close();
  transport_ = make_transport();
  ASSERT_EQ(transport_->connect(kPeer, peer_->address()), absl::OkStatus());
  EXPECT_EQ(fetch("owned 1 8", 8), absl::OkStatus()) << "the peer went on";
}

TEST_F(UcxTransportTest, ClosesInAnyState) {
  make_transport()->close();
  auto frozen = std::make_unique<TestProcess>();
  auto transport = make_transport();
  ASSERT_EQ(transport->connect(kPeer, frozen->address()), absl::OkStatus());
  frozen->freeze();
  std::vector<std::byte> into(8);
  std::thread caller(
      [&] { EXPECT_EQ(transport->fetch(kPeer, "owned 1 8", into, patient()).code(), absl::StatusCode::kCancelled); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  transport->close();
  caller.join();
}

TEST_F(UcxTransportTest, SleepsWhenThereIsNothingToDo) {
  ASSERT_EQ(fetch("parts 1 8000000", 8'000'000), absl::OkStatus());
  const auto used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  const double before = used();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_LT(used() - before, 0.2) << "polling would take the whole second";
}

// With room for one fetch, chunks of two are never mixed.
TEST(UcxTransportBoundTest, BytesInFlightAreBounded) {
  std::mutex mutex;
  std::vector<std::string> produced;
  const AnswerHandler handler = [&](std::string_view request) -> absl::StatusOr<Payload> {
    return Payload::produced(4 << 20, [&, name = std::string(request)](int64_t, std::span<std::byte>) {
      const std::lock_guard lock(mutex);
      produced.push_back(name);
    });
  };
  const auto server = make_transport({}, handler);
  const auto client = make_transport({.in_flight_bytes = 1 << 20});
  ASSERT_EQ(client->connect(kPeer, server->address()), absl::OkStatus());
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      std::vector<std::byte> into(4 << 20);
      EXPECT_EQ(client->fetch(kPeer, std::to_string(caller), into, patient()), absl::OkStatus());
    });
  }
  for (std::thread& caller : callers) caller.join();
  const std::lock_guard lock(mutex);
  const auto runs = std::unique(produced.begin(), produced.end()) - produced.begin();
  EXPECT_EQ(runs, 6);
}

// Whoever waits for room in vain knows nothing of the peer: it may be well.
TEST(UcxTransportBoundTest, ALineThatIsFullIsNotThePeersFault) {
  std::atomic<bool> begun = false, go_on = false;
  const auto slow = make_transport({}, [&](std::string_view) -> absl::StatusOr<Payload> {
    return Payload::produced(4 << 20, [&](int64_t, std::span<std::byte>) {
      begun = true;
      while (!go_on) std::this_thread::yield();
    });
  });
  std::atomic<int> asked = 0;
  const auto well = make_transport({}, [&](std::string_view) -> absl::StatusOr<Payload> {
    ++asked;
    return Payload::produced(1 << 20, [](int64_t, std::span<std::byte>) {});
  });
  const auto client = make_transport({.in_flight_bytes = 4 << 20});
  constexpr HostId kWell{kPeer.value + 1};
  ASSERT_EQ(client->connect(kPeer, slow->address()), absl::OkStatus());
  ASSERT_EQ(client->connect(kWell, well->address()), absl::OkStatus());
  std::thread busy([&] {
    std::vector<std::byte> into(4 << 20);
    EXPECT_EQ(client->fetch(kPeer, "x", into, patient()), absl::OkStatus());
  });
  while (!begun) std::this_thread::yield();
  std::vector<std::byte> into(1 << 20);
  const absl::Status full = client->fetch(kWell, "x", into, in_ms(20));
  EXPECT_TRUE(absl::IsAborted(full)) << full;
  EXPECT_EQ(asked, 0);
  go_on = true;
  busy.join();
  EXPECT_EQ(client->fetch(kWell, "x", into, patient()), absl::OkStatus());
}

TEST(UcxTransportBoundTest, AnOwnerIsKeptUntilItsBytesHaveLeft) {
  std::weak_ptr<std::vector<std::byte>> watched;
  const auto server = make_transport({}, [&](std::string_view) -> absl::StatusOr<Payload> {
    const auto memory = std::make_shared<std::vector<std::byte>>(8 << 20, std::byte{9});
    watched = memory;
    return Payload::of({*memory}, memory);
  });
  const auto client = make_transport();
  ASSERT_EQ(client->connect(kPeer, server->address()), absl::OkStatus());
  std::vector<std::byte> into(8 << 20);
  ASSERT_EQ(client->fetch(kPeer, "x", into, patient()), absl::OkStatus());
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{9}), 8 << 20);
  server->close();
  EXPECT_TRUE(watched.expired());
}

// --- other runs ------------------------------------------------------------------------------------------------------

TEST(UcxTransportRunTest, AnotherRunsAddressIsNone) {
  const auto server = make_transport({}, [](std::string_view) -> absl::StatusOr<Payload> {
    ADD_FAILURE() << "it was asked";
    return Payload::owned("secret!!");
  });
  const auto stranger = make_transport({.key = "the key of another run"});
  const absl::Status status = stranger->connect(kPeer, server->address());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("of this run"));
}

// As after a worker's death, when another run's worker listens on its port: the asker has a good address, and the wrong
// process gets the request.
TEST(UcxTransportRunTest, AnotherRunsWorkerAnswersNothing) {
  std::atomic<int> asked = 0;
  const std::string key = "the key of another run";
  const auto other = make_transport({.key = key}, [&](std::string_view) -> absl::StatusOr<Payload> {
    ++asked;
    return Payload::owned("wrong!!!");
  });
  const internal::Self reader{.key = key, .number = "", .address = ""};
  const std::string ucx = internal::read_address(reader, kPeer, other->address())->ucx;
  const std::string looks_right = internal::make_self(internal::kTestKey, ucx)->address;
  const auto client = make_transport();
  ASSERT_EQ(client->connect(kPeer, looks_right), absl::OkStatus());
  std::vector<std::byte> into(8, std::byte{7});
  const absl::Status status = client->fetch(kPeer, "x", into, in_ms(1000));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{7}), 8);
  EXPECT_EQ(asked, 0);
}

// In the same run, too: the address names the process, not its port.
TEST(UcxTransportRunTest, AnotherWorkerOfTheRunAnswersNothing) {
  std::atomic<int> asked = 0;
  const auto other = make_transport({}, [&](std::string_view) -> absl::StatusOr<Payload> {
    ++asked;
    return Payload::owned("wrong!!!");
  });
  const internal::Self reader{.key = internal::kTestKey, .number = "", .address = ""};
  const std::string ucx = internal::read_address(reader, kPeer, other->address())->ucx;
  const auto client = make_transport();
  ASSERT_EQ(client->connect(kPeer, internal::make_self(internal::kTestKey, ucx)->address), absl::OkStatus());
  std::vector<std::byte> into(8);
  EXPECT_EQ(client->fetch(kPeer, "x", into, in_ms(1000)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(asked, 0);
}

TEST(UcxTransportRunTest, AKeyIsNeeded) {
  EXPECT_TRUE(absl::IsInvalidArgument(UcxTransport::create(process_handler).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(UcxTransport::create(process_handler, {.key = "short"}).status()));
}

TEST(UcxTransportRunTest, LongRequestsAreRefused) {
  const auto client = make_transport();
  ASSERT_EQ(client->connect(kPeer, client->address()), absl::OkStatus());
  std::vector<std::byte> into(8);
  const absl::Status status = client->fetch(kPeer, std::string((1 << 20) + 1, 'x'), into, patient());
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// Local addresses, in hexadecimal digits of /proc/net/tcp, at which this process listens.
std::vector<std::string> listens_at() {
  std::set<std::string> own;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    own.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  }
  std::vector<std::string> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::vector<std::string> cells;
      for (std::string word; words >> word;) cells.push_back(word);
      if (cells.size() > 9 && cells[3] == "0A" && own.contains("socket:[" + cells[9] + "]"))
        found.push_back(cells[1].substr(0, cells[1].find(':')));
    }
  }
  return found;
}

TEST(UcxTransportRunTest, ListensOnItsDevicesOnly) {
  const std::vector<std::string> before = listens_at();
  const auto transport = make_transport({.devices = "lo"});
  std::vector<std::string> now = listens_at();
  ASSERT_EQ(now.size(), before.size() + 1) << "one socket more";
  EXPECT_EQ(std::count(now.begin(), now.end(), "0100007F"), std::count(before.begin(), before.end(), "0100007F") + 1);
  ASSERT_EQ(transport->connect(kPeer, transport->address()), absl::OkStatus());
  fetch_and_check(*transport, 3, 1'000'000);
}

// Four processes, each fetching from the three others at once.
TEST(UcxTransportMeshTest, FourProcessesFetchFromEachOther) {
  std::vector<std::unique_ptr<TestProcess>> processes;
  for (int i = 0; i < 4; ++i) processes.push_back(std::make_unique<TestProcess>());
  for (size_t i = 0; i < processes.size(); ++i) {
    for (size_t j = 0; j < processes.size(); ++j) {
      if (i != j) processes[i]->connect(static_cast<int>(j), processes[j]->address());
    }
  }
  for (uint64_t i = 0; i < processes.size(); ++i) processes[i]->start_storm(1000 * i, 25);
  for (const auto& process : processes) EXPECT_EQ(process->storm_result(), "ok");
  processes[3]->signal(SIGKILL);
  for (uint64_t i = 0; i < 3; ++i) processes[i]->start_storm(1000 * i, 25);
  for (size_t i = 0; i < 3; ++i) {
    const std::string result = processes[i]->storm_result();
    EXPECT_THAT(result, HasSubstr("peer h3: connection lost")) << "the other two answered";
    EXPECT_EQ(result.find("peer h0"), std::string::npos) << result;
    EXPECT_EQ(result.find("peer h1"), std::string::npos) << result;
    EXPECT_EQ(result.find("peer h2"), std::string::npos) << result;
  }
}

TEST(UcxTransportMeshTest, OutlivesThoseWhoAsk) {
  const auto server = make_transport();
  Random random(1);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(fmt::format("round {} of seed 1", round));
    std::vector<std::unique_ptr<TestProcess>> askers;
    for (uint64_t i = 0; i < 3; ++i) {
      askers.push_back(std::make_unique<TestProcess>());
      askers.back()->connect(3, server->address());
      askers.back()->start_storm(i, 1);
      ASSERT_EQ(askers.back()->storm_result(), "ok");
      askers.back()->start_storm(i, 1000);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(60)));
    for (const auto& asker : askers) asker->signal(SIGKILL);
  }
  TestProcess last;
  last.connect(3, server->address());
  last.start_storm(7, 10);
  EXPECT_EQ(last.storm_result(), "ok");
}

}  // namespace ucx_transport_test
}  // namespace scalai::executor::transport

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == scalai::executor::transport::internal::kServe)
    return scalai::executor::transport::internal::serve();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
