#pragma once
// Copies that need an intermediate buffer, in chunks through the halves of lanes (lane.h). Templates, so that tests run
// them on lanes with simulated streams, in every order that the waits allow. The spans and their memory must live
// during the call; thread rules of Lane.

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "executor/cuda/stage_plan.h"
#include "executor/device/backend.h"
#include "executor/state/copy.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {

// Pageable memory → GPU: the CPU packs a chunk while the kernel unpacks the previous one. Returns when done.
template <class Lane>
absl::Status copy_up(Lane& lane, std::span<const device::BoxCopy> copies) {
  if (copies.empty()) return {};
  const auto chunks = plan_chunks(copies, chunk_bytes_for(copies, lane.half(0).host.bytes()));
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto& half = lane.half(i);
    SCALAI_RETURN_IF_ERROR(half.busy.wait());
    for (const device::BoxCopy& one : into_stage(copies, chunks[i], half.host.data()))
      state::copy_box(one.part, one.src, one.dst);
    SCALAI_RETURN_IF_ERROR(lane.copy(out_of_stage(copies, chunks[i], half.host.data())));
    SCALAI_RETURN_IF_ERROR(half.busy.record(lane.stream()));
  }
  return lane.synchronize();
}

// GPU → pageable memory: the CPU unpacks a chunk while the kernel packs the next one. Returns when done.
template <class Lane>
absl::Status copy_down(Lane& lane, std::span<const device::BoxCopy> copies) {
  if (copies.empty()) return {};
  const auto chunks = plan_chunks(copies, chunk_bytes_for(copies, lane.half(0).host.bytes()));
  for (size_t i = 0; i <= chunks.size(); ++i) {
    if (i < chunks.size()) {
      auto& half = lane.half(i);
      SCALAI_RETURN_IF_ERROR(half.busy.wait());
      SCALAI_RETURN_IF_ERROR(lane.copy(into_stage(copies, chunks[i], half.host.data())));
      SCALAI_RETURN_IF_ERROR(half.busy.record(lane.stream()));
    }
    if (i == 0) continue;
    auto& before = lane.half(i - 1);
    SCALAI_RETURN_IF_ERROR(before.busy.wait());
    for (const device::BoxCopy& one : out_of_stage(copies, chunks[i - 1], before.host.data())) {
      state::copy_box(one.part, one.src, one.dst);
    }
  }
  return {};
}

// GPU → GPU without peer access: packed on one, copied by the driver, unpacked on the other. Returns at once.
template <class Lane>
absl::Status copy_far(Lane& from, Lane& to, std::span<const device::BoxCopy> copies) {
  const auto chunks = plan_chunks(copies, chunk_bytes_for(copies, from.half(0).out.bytes()));
  for (size_t i = 0; i < chunks.size(); ++i) {
    auto& leaving = from.half(i);
    auto& arriving = to.half(i);
    // The driver may still read `out` of the chunk before the last one until that chunk is unpacked.
    SCALAI_RETURN_IF_ERROR(from.stream().wait(arriving.busy));
    SCALAI_RETURN_IF_ERROR(from.copy(into_stage(copies, chunks[i], leaving.out.data())));
    SCALAI_RETURN_IF_ERROR(leaving.filled.record(from.stream()));
    SCALAI_RETURN_IF_ERROR(to.stream().wait(leaving.filled));
    SCALAI_RETURN_IF_ERROR(to.stream().copy_between_gpus(arriving.in.data(), to.gpu(), leaving.out.data(), from.gpu(),
                                                         bytes_of(chunks[i])));
    SCALAI_RETURN_IF_ERROR(to.copy(out_of_stage(copies, chunks[i], arriving.in.data())));
    SCALAI_RETURN_IF_ERROR(arriving.busy.record(to.stream()));
  }
  // The next copy may use the same buffers of `from` for another GPU.
  for (const size_t i : {0, 1}) SCALAI_RETURN_IF_ERROR(from.stream().wait(to.half(i).busy));
  return {};
}

}  // namespace scalai::executor::cuda
