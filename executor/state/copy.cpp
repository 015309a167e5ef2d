#include "executor/state/copy.h"

#include <cstring>
#include <string>

#include "executor/state/runs.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::executor::state {
namespace {
using internal::Loop;
using internal::Runs;

// Moves the runs of the innermost loop; all numbers in bytes.
using CopyRuns = void (*)(const std::byte* src, std::byte* dst, const Loop& steps, size_t run);

// A length known to the compiler is a few moves instead of a call.
template <size_t kRun>
void copy_short(const std::byte* __restrict src, std::byte* __restrict dst, const Loop& steps, size_t) {
  for (int64_t i = 0; i < steps.count; ++i) std::memcpy(dst + i * steps.step_b, src + i * steps.step_a, kRun);
}
void copy_long(const std::byte* __restrict src, std::byte* __restrict dst, const Loop& steps, size_t run) {
  for (int64_t i = 0; i < steps.count; ++i) std::memcpy(dst + i * steps.step_b, src + i * steps.step_a, run);
}

CopyRuns copier_of(size_t run) {
  switch (run) {
    case 1: return copy_short<1>;
    case 2: return copy_short<2>;
    case 4: return copy_short<4>;
    case 8: return copy_short<8>;
    case 16: return copy_short<16>;
    case 32: return copy_short<32>;
    case 64: return copy_short<64>;
    case 128: return copy_short<128>;
    default: return copy_long;
  }
}

void copy_same_type(Runs runs, int64_t element_bytes, const std::byte* src, std::byte* dst) {
  Loop steps{1, 0, 0};
  if (runs.loops > 0) steps = runs.loop[static_cast<size_t>(--runs.loops)];
  steps.step_a *= element_bytes;
  steps.step_b *= element_bytes;
  const auto run = static_cast<size_t>(runs.length * element_bytes);
  const CopyRuns copy = copier_of(run);
  for_each_run(runs, [&](int64_t from, int64_t to) {
    copy(src + from * element_bytes, dst + to * element_bytes, steps, run);
    return true;
  });
}

template <class Byte>
std::vector<std::span<Byte>> rows_at(const Box& part, const Box& box, DType dtype, Byte* data) {
  const Runs runs = internal::runs_of(part, box, part);
  const int64_t element_bytes = tensor::size_of(dtype);
  const auto bytes = static_cast<size_t>(runs.length * element_bytes);
  std::vector<std::span<Byte>> rows;
  rows.reserve(static_cast<size_t>(part.volume() / runs.length));
  for_each_run(runs, [&](int64_t at, int64_t) {
    rows.emplace_back(data + at * element_bytes, bytes);
    return true;
  });
  return rows;
}
}  // namespace

void copy_box(const Box& part, const Source& src, const Target& dst) {
  SCALAI_CHECK(convertible(src.dtype, dst.dtype),
               std::string(name_of(src.dtype)) + " to " + std::string(name_of(dst.dtype)));
  if (part.empty()) return;
  const Runs runs = internal::runs_of(part, src.box, dst.box);
  const int64_t src_bytes = tensor::size_of(src.dtype);
  if (src.dtype == dst.dtype) return copy_same_type(runs, src_bytes, src.data, dst.data);
  const int64_t dst_bytes = tensor::size_of(dst.dtype);
  for_each_run(runs, [&](int64_t from, int64_t to) {
    convert(src.dtype, dst.dtype, runs.length, src.data + from * src_bytes, dst.data + to * dst_bytes);
    return true;
  });
}

int64_t packed_bytes(const Box& part, DType wire) { return part.volume() * tensor::size_of(wire); }

void pack_box(const Box& part, const Source& src, DType wire, std::byte* out) {
  copy_box(part, src, {part, wire, out});
}

void unpack_box(const Box& part, DType wire, const std::byte* in, const Target& dst) {
  copy_box(part, {part, wire, in}, dst);
}

int64_t row_bytes(const Box& part, const Box& array, DType dtype) {
  return internal::runs_of(part, array, part).length * tensor::size_of(dtype);
}

std::vector<std::span<std::byte>> rows_of(const Box& part, const Target& array) {
  return rows_at(part, array.box, array.dtype, array.data);
}

std::vector<std::span<const std::byte>> rows_of(const Box& part, const Source& array) {
  return rows_at(part, array.box, array.dtype, array.data);
}

}  // namespace scalai::executor::state
