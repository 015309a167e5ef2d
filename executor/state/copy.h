#pragma once
// Copies of boxes between dense row-major arrays. Dimensions contiguous in both arrays are merged, so that long runs
// are one memcpy; elements are cast if the types differ (convert.h). Any thread, if no other thread uses the written
// bytes.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "executor/state/view.h"

namespace scalai::executor::state {

// Copies the elements of `part`. CHECK: it lies in both boxes, and the types are convertible. The arrays must not
// overlap. An empty part has no effect.
void copy_box(const Box& part, const Source& src, const Target& dst);

// The wire format: `part` alone, dense, in the type `wire`. `out` and `in` have packed_bytes(part, wire) bytes.
int64_t packed_bytes(const Box& part, DType wire);
void pack_box(const Box& part, const Source& src, DType wire, std::byte* out);
void unpack_box(const Box& part, DType wire, const std::byte* in, const Target& dst);

// `part` in an array over a larger box: its rows, the longest runs contiguous there, all equally long, in the order of
// pack_box. A part that is dense in the array is one row. CHECK: `part` is not empty and lies in the array's box. The
// spans are valid as long as the array.
int64_t row_bytes(const Box& part, const Box& array, DType dtype);
std::vector<std::span<std::byte>> rows_of(const Box& part, const Target& array);
std::vector<std::span<const std::byte>> rows_of(const Box& part, const Source& array);

}  // namespace scalai::executor::state
