#pragma once
// Copies of boxes between dense row-major arrays. Dimensions contiguous in both arrays are merged, so that long runs
// are one memcpy; elements are cast if the types differ (convert.h). Any thread, if no other thread uses the written
// bytes.

#include <cstddef>
#include <cstdint>

#include "executor/state/view.h"

namespace scalai::executor {

// Copies the elements of `part`. CHECK: it lies in both boxes, and the types are convertible. The arrays must not
// overlap. An empty part has no effect.
void copy_box(const Box& part, const Source& src, const Target& dst);

// The wire format: `part` alone, dense, in the type `wire`. `out` and `in` have packed_bytes(part, wire) bytes.
int64_t packed_bytes(const Box& part, DType wire);
void pack_box(const Box& part, const Source& src, DType wire, std::byte* out);
void unpack_box(const Box& part, DType wire, const std::byte* in, const Target& dst);

}  // namespace scalai::executor
