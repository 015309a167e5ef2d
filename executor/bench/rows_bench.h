#pragma once
// Times state in rows over a transport, in each way of executor/transport/rows.h: a box of every other row of a matrix,
// read into every other row of another one. Both ends copy as Places does. One thread asks; the ends are two transports
// of this process, with the threads that two processes would have.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/transport/peer_transport.h"
#include "executor/transport/rows.h"

namespace scalai::executor::bench {

inline constexpr std::array<transport::Rows, 3> kWaysOfRows = {transport::Rows::kPacked, transport::Rows::kGathered,
                                                               transport::Rows::kInPlace};
std::string name_of(transport::Rows way);  // "packed", "gathered", "in place"

struct RowsOptions {
  std::vector<int64_t> row_bytes = {64, 256, 1 << 10, 4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20};
  std::vector<int64_t> totals = {1 << 20, 2 << 20, 8 << 20};  // bytes of the box; a worker cuts boxes at 8 MiB
  int repetitions = 9;                                        // after one that does not count
};

struct RowsTime {
  int64_t row_bytes = 0;
  int64_t bytes = 0;
  std::array<double, 3> seconds{};  // by way, medians
  double of(transport::Rows way) const { return seconds[static_cast<size_t>(way)]; }
};

// The ways take turns within each repetition. Rows longer than a total are left out, and so is a total that is no
// multiple of the row. Errors: those of the transport; Internal if a byte arrived wrong.
using MakeTransport =
    std::function<absl::StatusOr<std::unique_ptr<transport::PeerTransport>>(transport::AnswerHandler)>;
absl::StatusOr<std::vector<RowsTime>> measure_rows(const MakeTransport& make, const RowsOptions& options);

// The shortest row from which on `other` is not slower than `first`: for it and for all longer rows, in the geometric
// mean over totals. Nothing where there is no such row.
std::optional<int64_t> crossing(std::span<const RowsTime> times, transport::Rows first, transport::Rows other);

}  // namespace scalai::executor::bench
