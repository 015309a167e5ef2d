// State in rows between two transports over TCP, in every way of rows.h.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>

#include "executor/state/copy.h"
#include "executor/state/testing/support.h"
#include "executor/transport/rows.h"
#include "executor/transport/testing/test_process.h"
#include "executor/transport/ucx_transport.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport {

using state::rows_of;
using state::Source;
using tensor::Box;
using tensor::DType;

namespace ucx_rows_test {

constexpr HostId kPeer(3);

static_assert(rows_by(0) == Rows::kPacked && rows_by(kGatheredFrom_bytes - 1) == Rows::kPacked);
static_assert(rows_by(kGatheredFrom_bytes) == Rows::kGathered && rows_by(kInPlaceFrom_bytes - 1) == Rows::kGathered);
static_assert(rows_by(kInPlaceFrom_bytes) == Rows::kInPlace && rows_by(int64_t{1} << 40) == Rows::kInPlace);

// One end that answers with `payload`, and one that asks.
class Pair {
 public:
  explicit Pair(int64_t chunk_bytes = UcxOptions{}.chunk_bytes) : chunk_bytes_(chunk_bytes) {
    SCALAI_CHECK(asker_->connect(kPeer, server_->address()).ok());
  }
  absl::Status fetch(std::span<const std::span<std::byte>> dst) {
    return asker_->fetch(kPeer, "rows", dst, std::chrono::steady_clock::now() + std::chrono::seconds(60));
  }

  Payload payload;

 private:
  std::unique_ptr<UcxTransport> make() {
    auto made = UcxTransport::create([this](std::string_view) -> absl::StatusOr<Payload> { return payload; },
                                     {.chunk_bytes = chunk_bytes_, .devices = "lo", .key = internal::kTestKey});
    SCALAI_CHECK(made.ok(), message_of(made.status()));
    return *std::move(made);
  }
  const int64_t chunk_bytes_;
  const std::unique_ptr<UcxTransport> server_ = make(), asker_ = make();
};

Box random_array(Random& random, int rank, int64_t most) {
  Box box;
  box.rank = static_cast<int8_t>(rank);
  for (int dim = 0; dim < rank; ++dim) box.hi[static_cast<size_t>(dim)] = random.between(1, most);
  return box;
}

// A box at random places of two arrays.
TEST(UcxRows, ArriveWhereTheyBelongInEveryWay) {
  for (const int64_t chunk : {int64_t{1000}, int64_t{100'000}, UcxOptions{}.chunk_bytes}) {
    Pair pair(chunk);
    for (uint64_t seed = 1; seed <= 30; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}, chunks of {} B", seed, chunk));
      Random random(seed);
      const int rank = static_cast<int>(random.between(1, 4));
      const Box from = random_array(random, rank, rank == 1 ? 300'000 : rank == 2 ? 700 : 30);
      const Box part = state::random_box(random, from);
      Box to = part;
      for (size_t dim = 0; dim < static_cast<size_t>(rank); ++dim) {
        to.lo[dim] = std::max<int64_t>(0, to.lo[dim] - random.between(0, 3));
        to.hi[dim] += random.between(0, 3);
      }
      const std::vector<std::byte> source = state::random_bytes(random, state::packed_bytes(from, DType::kF32));
      std::vector<std::byte> expected = state::random_bytes(random, state::packed_bytes(to, DType::kF32));
      const std::vector<std::byte> before = expected;
      state::copy_box(part, {from, DType::kF32, source.data()}, {to, DType::kF32, expected.data()});
      for (const Rows way : {Rows::kGathered, Rows::kInPlace}) {
        for (const bool checked : {false, true}) {
          std::atomic<int> checks = 0;
          pair.payload = Payload::rows(rows_of(part, Source{from, DType::kF32, source.data()}), nullptr, way,
                                       checked ? Payload::Check([&checks] {
                                         ++checks;
                                         return absl::OkStatus();
                                       })
                                               : Payload::Check());
          std::vector<std::byte> got = before;
          ASSERT_EQ(pair.fetch(rows_of(part, state::Target{to, DType::kF32, got.data()})), absl::OkStatus());
          ASSERT_TRUE(got == expected) << part.str() << " of " << from.str() << " into " << to.str();
          ASSERT_EQ(checks > 0, checked) << "at least at the end";
          ASSERT_LE(checks, state::packed_bytes(part, DType::kF32) / chunk + 2) << "once a chunk at most";
        }
      }
    }
  }
}

// Whatever changes before the check is not believed; what changes behind it was read.
TEST(UcxRows, ACheckThatFailsIsTheAnswer) {
  Pair pair(10'000);
  const Box whole({0, 0}, {100, 2000}), part({0, 1000}, {100, 2000});
  const std::vector<std::byte> source(static_cast<size_t>(whole.volume()), std::byte{9});
  for (const Rows way : {Rows::kGathered, Rows::kInPlace}) {
    for (const int64_t rows : {1, 4, 5, 100}) {  // one chunk and its check, and many chunks
      const Box some({0, 1000}, {rows, 2000});
      std::vector<std::byte> into(static_cast<size_t>(some.volume()));
      const std::span<std::byte> all(into);
      std::atomic<bool> good = false;
      pair.payload = Payload::rows(rows_of(some, Source{whole, DType::kU8, source.data()}), nullptr, way, [&] {
        return good ? absl::OkStatus() : absl::UnavailableError("g0 changed while it was read");
      });
      EXPECT_EQ(pair.fetch({&all, 1}), absl::UnavailableError("g0 changed while it was read")) << rows;
      good = true;
      EXPECT_EQ(pair.fetch({&all, 1}), absl::OkStatus()) << "the connection is as it was";
      EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{9}), some.volume());
    }
  }
}

// Memory that goes while an answer is under way is not read on, even if the same bytes are there again at its end.
TEST(UcxRows, ChunksAreCheckedBeforeTheyAreRead) {
  Pair pair(10'000);
  const Box whole({0, 0}, {100, 2000});
  const std::vector<std::byte> source(static_cast<size_t>(whole.volume()), std::byte{9});
  for (const Rows way : {Rows::kGathered, Rows::kInPlace}) {
    std::vector<std::byte> into(source.size());
    const std::span<std::byte> all(into);
    std::atomic<int> calls = 0;
    pair.payload = Payload::rows(rows_of(whole, Source{whole, DType::kU8, source.data()}), nullptr, way, [&] {
      return ++calls == 3 ? absl::UnavailableError("g0 changed while it was read") : absl::OkStatus();
    });
    EXPECT_EQ(pair.fetch({&all, 1}), absl::UnavailableError("g0 changed while it was read"));
    EXPECT_EQ(calls, 3);
    EXPECT_EQ(pair.fetch({&all, 1}), absl::OkStatus()) << "the connection is as it was";
    EXPECT_TRUE(into == source);
  }
}

// Thousands of parts in one message.
TEST(UcxRows, ManyShortPartsInPlace) {
  Pair pair;
  const Box whole({0, 0}, {40'000, 6}), part({0, 3}, {40'000, 6});
  Random random(5);
  const std::vector<std::byte> source = state::random_bytes(random, whole.volume());
  pair.payload = Payload::rows(rows_of(part, Source{whole, DType::kU8, source.data()}), nullptr, Rows::kInPlace, {});
  std::vector<std::byte> got(static_cast<size_t>(part.volume())), expected(got.size());
  const std::span<std::byte> all(got);
  state::pack_box(part, {whole, DType::kU8, source.data()}, DType::kU8, expected.data());
  ASSERT_EQ(pair.fetch({&all, 1}), absl::OkStatus());
  EXPECT_TRUE(got == expected);
}

// The owner of rows in place is kept until UCX has read them, and not longer.
TEST(UcxRows, AnOwnerIsKeptUntilItsRowsHaveLeft) {
  Pair pair;
  std::weak_ptr<std::vector<std::byte>> watched;
  std::vector<std::byte> into(4 << 20);
  const std::span<std::byte> all(into);
  {
    const auto memory = std::make_shared<std::vector<std::byte>>(8 << 20, std::byte{9});
    watched = memory;
    const Box whole({0, 0}, {4, 2 << 20}), part({0, 0}, {4, 1 << 20});
    pair.payload = Payload::rows(rows_of(part, Source{whole, DType::kU8, memory->data()}), memory, Rows::kInPlace,
                                 [] { return absl::OkStatus(); });
  }
  ASSERT_EQ(pair.fetch({&all, 1}), absl::OkStatus());
  EXPECT_EQ(std::count(into.begin(), into.end(), std::byte{9}), 4 << 20);
  pair.payload = Payload::owned("12345678");
  std::array<std::byte, 8> small{};
  const std::span<std::byte> eight(small);
  ASSERT_EQ(pair.fetch({&eight, 1}), absl::OkStatus()) << "the answer before is done with";
  EXPECT_TRUE(watched.expired());
}

}  // namespace ucx_rows_test
}  // namespace scalai::executor::transport
