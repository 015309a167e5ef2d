#include "executor/bench/rows_bench.h"

#include <gmock/gmock.h>

#include "executor/transport/loopback_transport.h"
#include "ptc/base/status.h"

namespace scalai::executor::bench {

using transport::Rows;

namespace {

TEST(RowsBench, MeasuresEveryWayOfEachRowThatFits) {
  transport::LoopbackNetwork network;
  const auto make = [&](transport::AnswerHandler handler) -> absl::StatusOr<std::unique_ptr<transport::PeerTransport>> {
    return std::make_unique<transport::LoopbackTransport>(network, std::move(handler));
  };
  const auto times = measure_rows(make, {.row_bytes = {3, 64, 100'000}, .totals = {192, 128 * 1024}, .repetitions = 2});
  ASSERT_TRUE(times.ok()) << times.status();
  ASSERT_EQ(times->size(), 3u) << "3 and 64 of 192, 64 of 128 KiB";
  for (const RowsTime& time : *times) {
    for (const Rows way : kWaysOfRows) EXPECT_GT(time.of(way), 0) << time.row_bytes << " " << name_of(way);
  }
}

// Flips a byte of each answer.
class Lossy : public transport::LoopbackTransport {
 public:
  using transport::LoopbackTransport::LoopbackTransport;
  absl::Status fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                     transport::Deadline deadline) override {
    const absl::Status status = transport::LoopbackTransport::fetch(peer, request, dst, deadline);
    dst.back().back() ^= std::byte{1};
    return status;
  }
};

TEST(RowsBench, WrongBytesAreAnError) {
  transport::LoopbackNetwork network;
  const auto make = [&](transport::AnswerHandler handler) -> absl::StatusOr<std::unique_ptr<transport::PeerTransport>> {
    return std::make_unique<Lossy>(network, std::move(handler));
  };
  const auto times = measure_rows(make, {.row_bytes = {64}, .totals = {192}, .repetitions = 1});
  EXPECT_EQ(times.status().code(), absl::StatusCode::kInternal) << times.status();
  const auto none = measure_rows(
      [](const transport::AnswerHandler&) -> absl::StatusOr<std::unique_ptr<transport::PeerTransport>> {
        return missing("no network");
      },
      {});
  EXPECT_EQ(message_of(none.status()), "no network");
}

TEST(RowsBench, WaysCrossWhereAllLongerRowsAreNotSlower) {
  const auto time = [](int64_t row, double packed, double gathered, double in_place) {
    return RowsTime{.row_bytes = row, .bytes = 1 << 20, .seconds = {packed, gathered, in_place}};
  };
  const std::vector<RowsTime> times = {time(64, 1, 0.9, 9), time(256, 1, 1.1, 3), time(1024, 1, 0.9, 2),
                                       time(4096, 1, 0.9, 0.8)};
  EXPECT_EQ(crossing(times, Rows::kPacked, Rows::kGathered), 1024) << "64 B is noise: 256 B is slower";
  EXPECT_EQ(crossing(times, Rows::kPacked, Rows::kInPlace), 4096);
  EXPECT_EQ(crossing(times, Rows::kInPlace, Rows::kPacked), std::nullopt);
  EXPECT_EQ(crossing({}, Rows::kPacked, Rows::kGathered), std::nullopt);
  // Totals count alike: half the time at one, twice the time at the other.
  const std::vector<RowsTime> two = {time(64, 1, 0.5, 1), time(64, 1, 2, 1)};
  EXPECT_EQ(crossing(two, Rows::kPacked, Rows::kGathered), 64);
}

}  // namespace
}  // namespace scalai::executor::bench
