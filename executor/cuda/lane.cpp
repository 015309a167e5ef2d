#include "executor/cuda/lane.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <utility>

#include "executor/cuda/fitting.h"
#include "executor/cuda/internal/cuda_status.h"
#include "executor/cuda/kernels/kernels.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {
using internal::cuda_status;
using kernels::CheckResult;
using kernels::upload_bytes;
using kernels::work_at;
using kernels::write_upload;

cudaStream_t handle_of(const Stream& stream) { return static_cast<cudaStream_t>(stream.handle()); }
size_t whole(size_t bytes) { return (bytes + 15) / 16 * 16; }
}  // namespace

Lane::Lane(const LaneOptions& options, Stream stream, std::vector<Slot> slots, std::vector<Half> halves)
    : options_(options), stream_(std::move(stream)), slots_(std::move(slots)), halves_(std::move(halves)) {}

absl::StatusOr<std::unique_ptr<Lane>> Lane::create(const LaneOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(Stream stream, Stream::create(options.gpu));
  std::vector<Slot> slots;
  for (int i = 0; i < options.slots; ++i) {
    SCALAI_ASSIGN_OR_RETURN(PinnedBuffer host, PinnedBuffer::create(options.slot_bytes));
    SCALAI_ASSIGN_OR_RETURN(DeviceBuffer device, DeviceBuffer::create(options.gpu, options.slot_bytes));
    SCALAI_ASSIGN_OR_RETURN(Event busy, Event::create(options.gpu));
    slots.push_back({std::move(host), std::move(device), std::move(busy)});
  }
  std::vector<Half> halves;
  for (size_t i = 0; i < 2 && options.pinned_half > 0; ++i) {
    SCALAI_ASSIGN_OR_RETURN(Event busy, Event::create(options.gpu));
    SCALAI_ASSIGN_OR_RETURN(Event filled, Event::create(options.gpu));
    Half half{{}, {}, {}, std::move(busy), std::move(filled)};
    SCALAI_ASSIGN_OR_RETURN(half.host, PinnedBuffer::create(options.pinned_half));
    if (options.device_half > 0) {
      SCALAI_ASSIGN_OR_RETURN(half.out, DeviceBuffer::create(options.gpu, options.device_half));
      SCALAI_ASSIGN_OR_RETURN(half.in, DeviceBuffer::create(options.gpu, options.device_half));
    }
    halves.push_back(std::move(half));
  }
  return std::unique_ptr<Lane>(new Lane(options, std::move(stream), std::move(slots), std::move(halves)));
}

Lane::~Lane() { (void)stream_.synchronize(); }

absl::StatusOr<Lane::Slot*> Lane::take_slot() {
  Slot& slot = slots_[next_slot_++ % slots_.size()];
  SCALAI_RETURN_IF_ERROR(slot.busy.wait());
  return &slot;
}

absl::Status Lane::copy(std::span<const device::BoxCopy> copies) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(options_.gpu));
  const auto make = [](std::span<const device::BoxCopy> some) { return kernels::make_copy_batch(some); };
  const auto size = [](const kernels::CopyBatch& batch) {
    return upload_bytes(batch.moves) + upload_bytes(batch.shifts) + upload_bytes(batch.casts);
  };
  const auto put = [&](std::span<const device::BoxCopy>, const kernels::CopyBatch& batch) -> absl::Status {
    if (batch.moves.empty() && batch.shifts.empty() && batch.casts.empty()) return {};
    SCALAI_ASSIGN_OR_RETURN(Slot * slot, take_slot());
    const size_t shifts_at = upload_bytes(batch.moves), casts_at = shifts_at + upload_bytes(batch.shifts);
    write_upload(batch.moves, slot->host.data());
    write_upload(batch.shifts, slot->host.data() + shifts_at);
    write_upload(batch.casts, slot->host.data() + casts_at);
    SCALAI_RETURN_IF_ERROR(stream_.copy(slot->device.data(), slot->host.data(), static_cast<int64_t>(size(batch))));
    const auto moves = work_at(batch.moves, slot->device.data());
    const auto shifts = work_at(batch.shifts, slot->device.data() + shifts_at);
    const auto casts = work_at(batch.casts, slot->device.data() + casts_at);
    SCALAI_RETURN_IF_ERROR(
        cuda_status(kernels::launch_copy(moves, moves.tiles, handle_of(stream_)), "starting a copy"));
    SCALAI_RETURN_IF_ERROR(
        cuda_status(kernels::launch_shift(shifts, shifts.tiles, handle_of(stream_)), "starting a copy"));
    SCALAI_RETURN_IF_ERROR(
        cuda_status(kernels::launch_cast(casts, blocks(casts.tiles), handle_of(stream_)), "starting a cast"));
    return slot->busy.record(stream_);
  };
  return for_each_fitting(copies, room(), sizeof(kernels::CopyPiece) + sizeof(uint32_t), make, size, put);
}

absl::Status Lane::fill(std::span<const device::BoxFill> fills) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(options_.gpu));
  using Batch = kernels::Pieces<kernels::ContentPiece>;
  const auto make = [](std::span<const device::BoxFill> some) { return kernels::make_fill_batch(some); };
  const auto size = [](const Batch& batch) { return upload_bytes(batch); };
  const auto put = [&](std::span<const device::BoxFill>, const Batch& batch) -> absl::Status {
    if (batch.empty()) return {};
    SCALAI_ASSIGN_OR_RETURN(Slot * slot, take_slot());
    write_upload(batch, slot->host.data());
    SCALAI_RETURN_IF_ERROR(stream_.copy(slot->device.data(), slot->host.data(), static_cast<int64_t>(size(batch))));
    const auto work = work_at(batch, slot->device.data());
    SCALAI_RETURN_IF_ERROR(
        cuda_status(kernels::launch_fill(work, blocks(work.tiles), handle_of(stream_)), "starting a fill"));
    return slot->busy.record(stream_);
  };
  return for_each_fitting(fills, room(), sizeof(kernels::ContentPiece) + sizeof(uint32_t), make, size, put);
}

// Results travel in the slot, before the pieces: to the GPU as they begin, and back as the kernel leaves them.
template <class Piece, class Result, class Launch>
absl::Status Lane::collect(const kernels::Pieces<Piece>& pieces, std::span<Result> results, Launch launch) {
  if (pieces.empty()) return {};
  SCALAI_ASSIGN_OR_RETURN(Slot * slot, take_slot());
  const size_t pieces_at = whole(results.size_bytes());
  std::memcpy(slot->host.data(), results.data(), results.size_bytes());
  write_upload(pieces, slot->host.data() + pieces_at);
  SCALAI_RETURN_IF_ERROR(
      stream_.copy(slot->device.data(), slot->host.data(), static_cast<int64_t>(pieces_at + upload_bytes(pieces))));
  const auto work = work_at(pieces, slot->device.data() + pieces_at);
  SCALAI_RETURN_IF_ERROR(
      cuda_status(launch(work, reinterpret_cast<Result*>(slot->device.data()), blocks(work.tiles), handle_of(stream_)),
                  "starting a check"));
  SCALAI_RETURN_IF_ERROR(
      stream_.copy(slot->host.data(), slot->device.data(), static_cast<int64_t>(results.size_bytes())));
  SCALAI_RETURN_IF_ERROR(stream_.synchronize());
  std::memcpy(results.data(), slot->host.data(), results.size_bytes());
  return {};
}

absl::StatusOr<std::vector<CheckResult>> Lane::check(std::span<const device::BoxCheck> checks) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(options_.gpu));
  std::vector<CheckResult> all;
  all.reserve(checks.size());
  const auto make = [](std::span<const device::BoxCheck> some) { return kernels::make_check_batch(some); };
  const auto size = [](const kernels::CheckBatch& batch) {
    return whole(batch.results * sizeof(CheckResult)) + upload_bytes(batch.pieces);
  };
  const auto put = [&](std::span<const device::BoxCheck>, const kernels::CheckBatch& batch) {
    const size_t before = all.size();
    all.resize(before + batch.results);
    return collect(batch.pieces, std::span(all).subspan(before), kernels::launch_check);
  };
  SCALAI_RETURN_IF_ERROR(for_each_fitting(
      checks, room(), sizeof(kernels::ContentPiece) + sizeof(CheckResult) + sizeof(uint32_t), make, size, put));
  return all;
}

absl::StatusOr<std::vector<uint64_t>> Lane::hash(std::span<const device::BoxHash> boxes) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(options_.gpu));
  std::vector<uint64_t> all;
  all.reserve(boxes.size());
  const auto make = [](std::span<const device::BoxHash> some) { return kernels::make_hash_batch(some); };
  const auto size = [](const kernels::DigestBatch& batch) {
    return whole(batch.bytes.size() * sizeof(uint64_t)) + upload_bytes(batch.pieces);
  };
  const auto put = [&](std::span<const device::BoxHash>, const kernels::DigestBatch& batch) -> absl::Status {
    std::vector<uint64_t> sums(batch.bytes.size());
    SCALAI_RETURN_IF_ERROR(collect(batch.pieces, std::span(sums), kernels::launch_digest));
    for (size_t i = 0; i < sums.size(); ++i) all.push_back(kernels::digest_of_sum(sums[i], batch.bytes[i]));
    return {};
  };
  SCALAI_RETURN_IF_ERROR(for_each_fitting(
      boxes, room(), sizeof(kernels::DigestPiece) + sizeof(uint64_t) + sizeof(uint32_t), make, size, put));
  return all;
}

absl::Status Lane::read(void* to, const std::byte* from, int64_t bytes) {
  SCALAI_CHECK(bytes <= kMaxRead);
  SCALAI_ASSIGN_OR_RETURN(Slot * slot, take_slot());
  SCALAI_RETURN_IF_ERROR(stream_.copy(slot->host.data(), from, bytes));
  SCALAI_RETURN_IF_ERROR(stream_.synchronize());
  std::memcpy(to, slot->host.data(), static_cast<size_t>(bytes));
  return {};
}

}  // namespace scalai::executor::cuda
