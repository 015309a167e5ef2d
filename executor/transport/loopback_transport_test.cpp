#include "executor/transport/loopback_transport.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "executor/transport/internal/errors.h"
#include "executor/transport/internal/span_list.h"
#include "executor/transport/payload.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport {
namespace {

constexpr HostId kPeer(3);

Deadline soon() { return std::chrono::steady_clock::now() + std::chrono::seconds(20); }

std::span<std::byte> bytes_of(std::string& text) { return std::as_writable_bytes(std::span(text.data(), text.size())); }

// What a request names: "abc" is answered by itself, "fail" by an error.
absl::StatusOr<Payload> echo(std::string_view request) {
  if (request == "fail") return absl::NotFoundError("no such box");
  return Payload::owned(std::string(request));
}

class LoopbackTest : public ::testing::Test {
 protected:
  absl::Status get(std::string_view request, std::string& into) {
    return client_.fetch(kPeer, request, bytes_of(into), soon());
  }

  LoopbackNetwork network_;
  LoopbackTransport server_{network_, echo};
  LoopbackTransport client_{network_, echo};
};

TEST_F(LoopbackTest, FetchesWhatTheHandlerGives) {
  ASSERT_TRUE(client_.connect(kPeer, server_.address()).ok());
  std::string into(5, ' ');
  EXPECT_EQ(get("hello", into), absl::OkStatus());
  EXPECT_EQ(into, "hello");
  std::string nothing;
  EXPECT_EQ(get("", nothing), absl::OkStatus());
}

TEST_F(LoopbackTest, SaysWhatWentWrong) {
  std::string into(5, ' ');
  EXPECT_EQ(get("hello", into), absl::UnavailableError("peer h3: not connected"));
  EXPECT_EQ(client_.connect(kPeer, "elsewhere").code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(client_.connect(kPeer, server_.address()).ok());
  EXPECT_EQ(get("fail", into), absl::NotFoundError("no such box"));
  EXPECT_EQ(get("longer", into), absl::FailedPreconditionError("peer h3: answered with 6 bytes, 5 are expected"));
  EXPECT_EQ(client_.fetch(kPeer, "hello", bytes_of(into), Deadline()).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(LoopbackTest, AKilledPeerIsUnavailableUntilItIsReplaced) {
  ASSERT_TRUE(client_.connect(kPeer, server_.address()).ok());
  network_.kill(server_.address());
  std::string into(5, ' ');
  EXPECT_EQ(get("hello", into).code(), absl::StatusCode::kUnavailable);
  LoopbackTransport restarted(network_, echo);
  ASSERT_TRUE(client_.connect(kPeer, restarted.address()).ok());
  EXPECT_EQ(get("hello", into), absl::OkStatus());
}

TEST_F(LoopbackTest, DiesInTheMiddleOfAnAnswer) {
  std::string address;
  LoopbackTransport dying(network_, [&](std::string_view) -> absl::StatusOr<Payload> {
    return Payload::produced(1 << 20, [&](int64_t offset, std::span<std::byte>) {
      if (offset > 0) network_.kill(address);
    });
  });
  address = dying.address();
  ASSERT_TRUE(client_.connect(kPeer, address).ok());
  std::string into(1 << 20, ' ');
  EXPECT_EQ(get("all", into), absl::UnavailableError("peer h3: connection lost (killed)"));
}

TEST_F(LoopbackTest, ChunksAreCheckedBeforeTheyAreRead) {
  const auto text = std::make_shared<std::string>(1 << 20, 'x');
  int calls = 0;
  LoopbackTransport changing(network_, [&](std::string_view) -> absl::StatusOr<Payload> {
    return Payload::rows({std::as_bytes(std::span(*text))}, text, Rows::kGathered,
                         [&] { return ++calls == 2 ? absl::UnavailableError("changed") : absl::OkStatus(); });
  });
  ASSERT_TRUE(client_.connect(kPeer, changing.address()).ok());
  std::string into(1 << 20, ' ');
  EXPECT_EQ(get("all", into), absl::UnavailableError("changed"));
  EXPECT_EQ(calls, 2);
}

TEST_F(LoopbackTest, CloseLetsCallersGo) {
  ASSERT_TRUE(client_.connect(kPeer, server_.address()).ok());
  std::atomic<int64_t> done = 0;
  std::thread caller([&] {
    std::string into(5, ' ');
    absl::Status status;
    while (status.ok()) {
      status = get("hello", into);
      ++done;
    }
    EXPECT_EQ(status, absl::CancelledError("the transport is closed"));
  });
  while (done < 10) std::this_thread::yield();
  client_.close();
  caller.join();
  EXPECT_EQ(client_.connect(kPeer, server_.address()).code(), absl::StatusCode::kCancelled);
  client_.close();
}

TEST(ErrorsTest, NameThePeerAndTheBytes) {
  EXPECT_EQ(internal::too_late(kPeer, 12'000'000, 64'000'000),
            absl::DeadlineExceededError("peer h3: 12.0 MB of 64.0 MB arrived before the deadline"));
  EXPECT_EQ(internal::unavailable(kPeer, "reset"), absl::UnavailableError("peer h3: connection lost (reset)"));
}

TEST(PayloadTest, AllKindsGiveTheSameBytes) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const auto text = std::make_shared<std::string>(static_cast<size_t>(random.between(0, 500)), ' ');
    for (char& c : *text) c = static_cast<char>(random.below(256));
    std::vector<std::span<const std::byte>> parts;
    for (size_t at = 0; at < text->size();) {
      const size_t size = std::min(text->size() - at, static_cast<size_t>(random.between(0, 60)));
      parts.push_back(std::as_bytes(std::span(text->data() + at, size)));
      at += size;
    }
    const Payload of_parts = Payload::of(parts, text);
    const Payload produced =
        Payload::produced(static_cast<int64_t>(text->size()), [text](int64_t offset, std::span<std::byte> out) {
          std::memcpy(out.data(), text->data() + offset, out.size());
        });
    const Payload owned = Payload::owned(*text);
    for (int cut = 0; cut < 10; ++cut) {
      const int64_t from = random.between(0, owned.bytes());
      std::string out(static_cast<size_t>(random.between(0, owned.bytes() - from)), '?');
      const std::string expected = text->substr(static_cast<size_t>(from), out.size());
      for (const Payload& payload : {of_parts, produced, owned}) {
        EXPECT_EQ(payload.bytes(), static_cast<int64_t>(text->size()));
        std::fill(out.begin(), out.end(), '?');
        payload.gather(from, bytes_of(out));
        EXPECT_EQ(out, expected);
        const auto in_place = payload.in_place(from, static_cast<int64_t>(out.size()));
        EXPECT_TRUE(in_place.empty() || std::memcmp(in_place.data(), expected.data(), expected.size()) == 0);
      }
      EXPECT_EQ(owned.in_place(from, static_cast<int64_t>(out.size())).size(), out.size());
    }
  }
}

TEST(PayloadTest, RowsInPlaceAreAList) {
  const auto text = std::make_shared<std::string>("abcdefgh");
  const auto part = [&](size_t at, size_t size) { return std::as_bytes(std::span(text->data() + at, size)); };
  const std::vector<std::span<const std::byte>> rows = {part(0, 3), part(4, 3)};
  const Payload in_place = Payload::rows(rows, text, Rows::kInPlace, {});
  const Payload gathered = Payload::rows(rows, text, Rows::kGathered, [] { return absl::UnknownError("changed"); });
  const auto parts = in_place.parts_in_place(2, 3);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].data(), part(2, 1).data());
  EXPECT_EQ(parts[0].size(), 1u);
  EXPECT_EQ(parts[1].data(), part(4, 2).data());
  EXPECT_EQ(parts[1].size(), 2u);
  EXPECT_TRUE(gathered.parts_in_place(2, 3).empty());
  EXPECT_FALSE(in_place.has_check());
  EXPECT_EQ(in_place.check(), absl::OkStatus());
  EXPECT_TRUE(gathered.has_check());
  EXPECT_EQ(gathered.check(), absl::UnknownError("changed"));
}

}  // namespace
}  // namespace scalai::executor::transport
