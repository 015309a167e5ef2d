#include "executor/worker/box_stats.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/state/copy.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/tensor/box_chunks.h"

namespace scalai::executor::worker {
namespace {

using tensor::ElementStats;

constexpr int64_t kStatsChunk = int64_t{1} << 20;

absl::StatusOr<ElementStats> chunk_stats(device::Backend& backend, const tensor::Box& chunk,
                                         const state::Source& source) {
  const int64_t bytes = state::packed_bytes(chunk, source.dtype);
  if (backend.in_host_memory() && state::row_bytes(chunk, source.box, source.dtype) == bytes)
    return tensor::stats_of(source.dtype, chunk.volume(), state::rows_of(chunk, source).front().data());
  std::vector<std::byte> dense(static_cast<size_t>(bytes));
  const device::BoxCopy copy{chunk, source, {chunk, source.dtype, dense.data()}};
  SCALAI_RETURN_IF_ERROR(backend.copy(std::span(&copy, 1)));
  return tensor::stats_of(source.dtype, chunk.volume(), dense.data());
}

}  // namespace

absl::StatusOr<std::vector<ElementStats>> box_stats(device::Backend& backend, std::span<const device::BoxHash> boxes,
                                                    int threads) {
  struct Chunk {
    size_t of = 0;
    tensor::Box part;
  };
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < boxes.size(); ++i) {
    SCALAI_RETURN_IF_ERROR(tensor::for_each_chunk(boxes[i].part, kStatsChunk, [&](const tensor::Box& part) {
      chunks.push_back({i, part});
      return absl::OkStatus();
    }));
  }
  std::vector<ElementStats> of_chunks(chunks.size()), all(boxes.size());
  SCALAI_RETURN_IF_ERROR(try_parallel_for(threads, chunks.size(), [&](size_t i) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(of_chunks[i], chunk_stats(backend, chunks[i].part, boxes[chunks[i].of].src));
    return absl::OkStatus();
  }));
  for (size_t i = 0; i < chunks.size(); ++i) all[chunks[i].of].add(of_chunks[i]);
  return all;
}

void set_stats(const ElementStats& stats, proto::BoxStats& out) {
  out.set_elements(stats.elements);
  out.set_nans(stats.nans);
  out.set_infinities(stats.infinities);
  out.set_zeros(stats.zeros);
  out.set_min(stats.min);
  out.set_max(stats.max);
  out.set_sum(stats.sum);
  out.set_squares(stats.squares);
  for (size_t i = 0; i < stats.magnitudes.size(); ++i) {
    if (stats.magnitudes[i] == 0) continue;
    out.add_powers(static_cast<int32_t>(i) - ElementStats::kBias);
    out.add_counts(stats.magnitudes[i]);
  }
}

absl::StatusOr<ElementStats> stats_of(const proto::BoxStats& message) {
  ElementStats stats{.elements = message.elements(),
                     .nans = message.nans(),
                     .infinities = message.infinities(),
                     .zeros = message.zeros(),
                     .min = message.min(),
                     .max = message.max(),
                     .sum = message.sum(),
                     .squares = message.squares()};
  if (message.powers_size() != message.counts_size()) return invalid("statistics with other magnitudes than numbers");
  const auto counts = [&](int64_t count) { return count >= 0 && count <= stats.elements; };
  if (!counts(stats.nans) || !counts(stats.infinities) || !counts(stats.zeros) ||
      !std::all_of(message.counts().begin(), message.counts().end(), counts))
    return invalid(fmt::format("statistics of {} elements that count more", stats.elements));
  for (int i = 0; i < message.powers_size(); ++i) {
    const int64_t at = int64_t{message.powers(i)} + ElementStats::kBias;
    if (at < 0 || at >= ElementStats::kMagnitudes) return invalid("statistics with a magnitude that is none");
    stats.magnitudes[static_cast<size_t>(at)] = message.counts(i);
  }
  return stats;
}

}  // namespace scalai::executor::worker
