#include "executor/cuda/yardsticks.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "executor/cuda/internal/cuda_status.h"
#include "executor/cuda/runtime.h"
#include "executor/state/runs.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"

namespace scalai::executor::cuda {
namespace {

using internal::cuda_status;
using state::internal::Loop;
using state::internal::Runs;

// Of a yardstick. Where there are more, the first so many are timed, and their time counts for all by bytes: each copy
// costs CUDA a microsecond or more, and the layouts are the same from layer to layer.
constexpr size_t kMostCopies = size_t{1} << 14;

absl::StatusOr<double> median_seconds(const Stream& stream, int repetitions,
                                      const std::function<absl::Status()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i <= repetitions; ++i) {  // the first one does not count
    const auto began = std::chrono::steady_clock::now();
    SCALAI_RETURN_IF_ERROR(work());
    SCALAI_RETURN_IF_ERROR(stream.synchronize());
    if (i > 0) seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return order_statistic(std::move(seconds), 0.5).value_or(0);
}

struct Rows {
  const std::byte* src = nullptr;
  std::byte* dst = nullptr;
  size_t src_step = 0, dst_step = 0;
  size_t run = 0, count = 1;
};

std::vector<Rows> rows_of(std::span<const device::BoxCopy> copies) {
  std::vector<Rows> list;
  for (const device::BoxCopy& copy : copies) {
    SCALAI_CHECK(copy.src.dtype == copy.dst.dtype, copy.part.str());
    if (copy.part.empty()) continue;
    const int64_t element = tensor::size_of(copy.src.dtype);
    Runs runs = state::internal::runs_of(copy.part, copy.src.box, copy.dst.box);
    const auto run = static_cast<size_t>(runs.length * element);
    Rows rows{.src_step = run, .dst_step = run, .run = run};
    if (runs.loops > 0) {
      const Loop& inner = runs.loop[static_cast<size_t>(--runs.loops)];
      rows.src_step = static_cast<size_t>(inner.step_a * element);
      rows.dst_step = static_cast<size_t>(inner.step_b * element);
      rows.count = static_cast<size_t>(inner.count);
    }
    state::internal::for_each_run(runs, [&](int64_t from, int64_t to) {
      rows.src = copy.src.data + from * element;
      rows.dst = copy.dst.data + to * element;
      list.push_back(rows);
      return true;
    });
  }
  return list;
}

size_t bytes_of(std::span<const Rows> list) {
  size_t bytes = 0;
  for (const Rows& rows : list) bytes += rows.run * rows.count;
  return bytes;
}

// What all rows take if `part` bytes of them take so long.
absl::StatusOr<double> of_all(absl::StatusOr<double> seconds, size_t part, std::span<const Rows> list) {
  if (seconds.ok() && part > 0) *seconds *= static_cast<double>(bytes_of(list)) / static_cast<double>(part);
  return seconds;
}

}  // namespace

absl::StatusOr<double> device_copy_seconds(int gpu, int64_t bytes, int repetitions) {
  SCALAI_ASSIGN_OR_RETURN(const Stream stream, Stream::create(gpu));
  SCALAI_ASSIGN_OR_RETURN(const DeviceBuffer from, DeviceBuffer::create(gpu, bytes));
  SCALAI_ASSIGN_OR_RETURN(const DeviceBuffer to, DeviceBuffer::create(gpu, bytes));
  SCALAI_RETURN_IF_ERROR(stream.clear(from.data(), bytes));
  return median_seconds(stream, repetitions, [&] { return stream.copy(to.data(), from.data(), bytes); });
}

absl::StatusOr<double> memcpy_2d_seconds(int gpu, std::span<const device::BoxCopy> copies, int repetitions) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  SCALAI_ASSIGN_OR_RETURN(const Stream stream, Stream::create(gpu));
  const std::vector<Rows> list = rows_of(copies);
  const std::span part = std::span(list).first(std::min(list.size(), kMostCopies));
  const auto copy_part = [&]() -> absl::Status {
    for (const Rows& rows : part) {
      SCALAI_RETURN_IF_ERROR(
          cuda_status(cudaMemcpy2DAsync(rows.dst, rows.dst_step, rows.src, rows.src_step, rows.run, rows.count,
                                        cudaMemcpyDeviceToDevice, static_cast<cudaStream_t>(stream.handle())),
                      "cudaMemcpy2DAsync"));
    }
    return absl::OkStatus();
  };
  return of_all(median_seconds(stream, repetitions, copy_part), bytes_of(part), list);
}

absl::StatusOr<double> memcpy_batch_seconds(int gpu, std::span<const device::BoxCopy> copies, int repetitions) {
  SCALAI_ASSIGN_OR_RETURN(const DeviceGuard guard, DeviceGuard::enter(gpu));
  SCALAI_ASSIGN_OR_RETURN(const Stream stream, Stream::create(gpu));
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<size_t> bytes;
  const std::vector<Rows> list = rows_of(copies);
  for (const Rows& rows : list) {
    for (size_t i = 0; i < rows.count && bytes.size() < kMostCopies; ++i) {
      to.push_back(rows.dst + i * rows.dst_step);
      from.push_back(rows.src + i * rows.src_step);
      bytes.push_back(rows.run);
    }
  }
#if CUDART_VERSION >= 13000
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;  // of the copies that these are for: all
  const auto copy_part = [&] {
    return cuda_status(cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), bytes.size(), &attributes, &first, 1,
                                            static_cast<cudaStream_t>(stream.handle())),
                       "cudaMemcpyBatchAsync");
  };
  return of_all(median_seconds(stream, repetitions, copy_part), std::accumulate(bytes.begin(), bytes.end(), size_t{0}),
                list);
#else
  return missing("built with a CUDA older than 13, whose cudaMemcpyBatchAsync is another one");
#endif
}

}  // namespace scalai::executor::cuda
