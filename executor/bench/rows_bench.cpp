#include "executor/bench/rows_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <map>

#include "executor/state/copy.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"

namespace scalai::executor::bench {

using tensor::DType;
using transport::Rows;

namespace {

constexpr HostId kSource(0);
constexpr auto kPatience = std::chrono::seconds(60);

std::byte byte_at(int64_t index) {
  return static_cast<std::byte>((static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15ULL) >> 56);
}

// Every other row of a matrix: its right half where a row of the matrix is two of them.
struct Strided {
  Strided(int64_t row_bytes, int64_t bytes)
      : matrix({0, 0}, {bytes / row_bytes, 2 * row_bytes}), part({0, row_bytes}, {bytes / row_bytes, 2 * row_bytes}) {}
  tensor::Box matrix, part;
};

// The source's end: answers "WAY ROW TOTAL".
class Matrix {
 public:
  explicit Matrix(int64_t bytes) : memory_(static_cast<size_t>(2 * bytes)) {
    for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = byte_at(static_cast<int64_t>(i));
  }
  absl::StatusOr<transport::Payload> answer(std::string_view request) const {
    std::array<int64_t, 3> numbers{};
    const char* at = request.data();
    for (int64_t& number : numbers) {
      const auto [end, error] = std::from_chars(at, request.data() + request.size(), number);
      if (error != std::errc()) return invalid("a request that is none");
      at = end + 1;
    }
    const Strided strided(numbers[1], numbers[2]);
    const state::Source matrix{strided.matrix, DType::kU8, memory_.data()};
    const Rows way = static_cast<Rows>(numbers[0]);
    if (way != Rows::kPacked)
      return transport::Payload::rows(state::rows_of(strided.part, matrix), nullptr, way,
                                      [] { return absl::OkStatus(); });
    std::string packed(static_cast<size_t>(state::packed_bytes(strided.part, DType::kU8)), '\0');
    state::pack_box(strided.part, matrix, DType::kU8, reinterpret_cast<std::byte*>(packed.data()));
    return transport::Payload::owned(std::move(packed));
  }

 private:
  std::vector<std::byte> memory_;
};

absl::Status read(transport::PeerTransport& asker, Rows way, const Strided& strided, const state::Target& matrix) {
  const std::string request = fmt::format("{} {} {}", static_cast<int>(way), strided.part.extent(1),
                                          state::packed_bytes(strided.part, DType::kU8));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  if (way != Rows::kPacked) return asker.fetch(kSource, request, state::rows_of(strided.part, matrix), deadline);
  std::vector<std::byte> packed(static_cast<size_t>(state::packed_bytes(strided.part, DType::kU8)));
  SCALAI_RETURN_IF_ERROR(asker.fetch(kSource, request, std::span<std::byte>(packed), deadline));
  state::unpack_box(strided.part, DType::kU8, packed.data(), matrix);
  return absl::OkStatus();
}

// Wrong where a byte is not the source's, or where one beside the rows was written.
bool is_right(const Strided& strided, const std::vector<std::byte>& memory) {
  const int64_t row = strided.part.extent(1);
  for (int64_t i = 0; i < strided.matrix.volume(); ++i) {
    const bool inside = i % (2 * row) >= row;
    if (memory[static_cast<size_t>(i)] != (inside ? byte_at(i) : std::byte{0})) return false;
  }
  return true;
}

absl::StatusOr<RowsTime> time_rows(transport::PeerTransport& asker, int64_t row_bytes, int64_t bytes, int repetitions) {
  const Strided strided(row_bytes, bytes);
  std::vector<std::byte> memory(static_cast<size_t>(strided.matrix.volume()));
  std::array<std::vector<double>, kWaysOfRows.size()> seconds;
  for (int repetition = -1; repetition < repetitions; ++repetition) {
    for (size_t way = 0; way < kWaysOfRows.size(); ++way) {
      if (repetition < 0) std::fill(memory.begin(), memory.end(), std::byte{0});
      const auto began = std::chrono::steady_clock::now();
      SCALAI_RETURN_IF_ERROR(read(asker, kWaysOfRows[way], strided, {strided.matrix, DType::kU8, memory.data()}));
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
      if (repetition >= 0) {
        seconds[way].push_back(took.count());
      } else if (!is_right(strided, memory)) {
        return absl::InternalError(fmt::format("rows of {} B arrived wrong: {}", row_bytes, name_of(kWaysOfRows[way])));
      }
    }
  }
  RowsTime time{.row_bytes = row_bytes, .bytes = bytes};
  for (size_t way = 0; way < kWaysOfRows.size(); ++way) time.seconds[way] = *median(seconds[way]);
  return time;
}

}  // namespace

std::string name_of(Rows way) {
  switch (way) {
    case Rows::kPacked: return "packed";
    case Rows::kGathered: return "gathered";
    case Rows::kInPlace: return "in place";
  }
  return "";
}

absl::StatusOr<std::vector<RowsTime>> measure_rows(const MakeTransport& make, const RowsOptions& options) {
  SCALAI_CHECK(options.repetitions > 0 && !options.totals.empty(), "nothing to measure");
  const Matrix source(*std::max_element(options.totals.begin(), options.totals.end()));
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<transport::PeerTransport> answering,
                          make([&source](std::string_view request) { return source.answer(request); }));
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<transport::PeerTransport> asking,
                          make([](std::string_view) { return absl::UnimplementedError("only asks"); }));
  SCALAI_RETURN_IF_ERROR(asking->connect(kSource, answering->address()));
  std::vector<RowsTime> times;
  for (const int64_t bytes : options.totals) {
    for (const int64_t row : options.row_bytes) {
      if (bytes % row != 0) continue;
      SCALAI_ASSIGN_OR_RETURN(times.emplace_back(), time_rows(*asking, row, bytes, options.repetitions));
    }
  }
  return times;
}

std::optional<int64_t> crossing(std::span<const RowsTime> times, Rows first, Rows other) {
  std::map<int64_t, double, std::greater<>> logs;  // of the ratios, added up, by row
  for (const RowsTime& time : times) logs[time.row_bytes] += std::log(time.of(other) / time.of(first));
  std::optional<int64_t> from;
  for (const auto& [row, log] : logs) {
    if (log > 0) break;
    from = row;
  }
  return from;
}

}  // namespace scalai::executor::bench
