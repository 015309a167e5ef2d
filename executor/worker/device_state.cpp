#include "executor/worker/device_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/base/work_done.h"

namespace scalai::executor::worker {

using state::Piece;
using tensor::Box;

namespace {

constexpr int64_t kSumBytes = int64_t{8} << 20;  // copied at a time, out of whatever memory it is

// One row of a piece, anywhere: what a sample looks at.
Box row_of(const Box& box, Random& random) {
  Box row = box;
  for (size_t dim = 0; dim + 1 < static_cast<size_t>(box.rank); ++dim) {
    row.lo[dim] = random.between(box.lo[dim], box.hi[dim] - 1);
    row.hi[dim] = row.lo[dim] + 1;
  }
  return row;
}

}  // namespace

std::optional<LogicalRank> rank_of(const collection::Collection& side, DeviceId device) {
  const auto found = std::find(side.device_of_rank.begin(), side.device_of_rank.end(), device);
  if (found == side.device_of_rank.end()) return std::nullopt;
  return LogicalRank(found - side.device_of_rank.begin());
}

absl::Status fill_version(device::Backend& backend, state::Store& store, const state::VersionKey& key,
                          const StateSource& content, const collection::Collection& side, int64_t step, bool real) {
  std::vector<StatePart> parts;
  std::vector<state::Target> targets;
  for (const auto& [tensor, pieces] : store.pieces(key)) {
    const collection::LogicalTensor& what = side.tensors[static_cast<size_t>(tensor.value)];
    if (!real && content.is_real(what.name)) continue;
    for (const Piece& piece : pieces) {
      parts.push_back({what.name, what.shape, piece.part});
      targets.push_back(store.target(piece));
    }
  }
  return content.fill(backend, step, parts, targets);
}

absl::StatusOr<Checked> check_version(const Places& places, DeviceId device, const state::VersionKey& key,
                                      const StateSource& content, const collection::Collection& side, int64_t step,
                                      CheckDepth depth) {
  Checked checked;
  const std::optional<LogicalRank> rank = rank_of(side, device);
  if (!rank) return checked;
  const state::Store& store = *places.own(Location::device(device));
  Random random(static_cast<uint64_t>(step) * 1000003 + static_cast<uint64_t>(device.value));
  std::vector<StatePart> parts;
  std::vector<state::Source> sources;
  for (size_t i = 0; i < side.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    const collection::LogicalTensor& what = side.tensors[i];
    for (const tensor::Piece& wanted : side.pieces(tensor, *rank).pieces) {
      const std::vector<Piece> found = store.find(key, tensor, wanted.box);
      if (!state::cover(found, wanted.box))
        checked.wrong.push_back(
            fmt::format("g{}: tensor \"{}\" {} is not all there", device.value, what.name, wanted.box.str()));
      for (const Piece& piece : found) {
        if (depth == CheckDepth::kThere) continue;
        const Box part = depth == CheckDepth::kSample ? row_of(piece.part, random) : piece.part;
        checked.bytes += state::packed_bytes(part, piece.dtype);
        parts.push_back({what.name, what.shape, part});
        sources.push_back(piece.source(store.base()));
      }
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::optional<std::string>> wrong,
                          content.check(places.backend(), step, parts, sources));
  for (size_t i = 0; i < wrong.size(); ++i) {
    if (wrong[i])
      checked.wrong.push_back(fmt::format("g{}: tensor \"{}\" {}", device.value, parts[i].tensor, *wrong[i]));
  }
  return checked;
}

absl::StatusOr<std::vector<PieceSum>> sums_of(Places& places, DeviceId device, const state::VersionKey& key,
                                              const collection::Collection& side) {
  std::vector<PieceSum> sums;
  const std::optional<LogicalRank> rank = rank_of(side, device);
  const state::Store& store = *places.own(Location::device(device));
  if (!rank || store.pieces(key).empty()) return sums;
  const bool here = store.address().fd >= 0;  // in the host's memory
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < side.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    const collection::LogicalTensor& what = side.tensors[i];
    const int64_t most = std::max<int64_t>(1, kSumBytes / tensor::size_of(what.dtype));
    for (const tensor::Piece& piece : side.pieces(tensor, *rank).pieces) {
      PieceSum sum{tensor, piece.box, 0};
      const std::vector<Piece> found = here ? store.find(key, tensor, piece.box) : std::vector<Piece>();
      if (here && state::cover(found, piece.box)) {
        for (const Piece& part : found) {
          sum.sum += state::element_sum(what.shape, part.source(store.base()), part.part);
          note_work_done();
        }
        sums.push_back(sum);
        continue;
      }
      const int64_t elements = piece.box.volume();
      for (int64_t begin = 0; begin < elements; begin += most) {
        for (const Box& part : tensor::decompose_flat(piece.box, begin, std::min(elements, begin + most))) {
          bytes.resize(static_cast<size_t>(state::packed_bytes(part, what.dtype)));
          const state::Target copy{part, what.dtype, bytes.data()};
          SCALAI_RETURN_IF_ERROR(places.read(Location::device(device), key, tensor, part, copy));
          sum.sum += state::element_sum(what.shape, copy.source(), part);
        }
      }
      sums.push_back(sum);
    }
  }
  return sums;
}

}  // namespace scalai::executor::worker
