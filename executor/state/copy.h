#pragma once
// Copies of boxes between dense row-major arrays. Dimensions that are contiguous in both arrays are merged, so that long
// runs are one memcpy; elements are cast where the types differ (convert.h). Free threaded as long as no one else uses
// the bytes written.

#include <cstddef>
#include <cstdint>

#include "executor/state/view.h"

namespace scalai::executor {

// Copies the elements of `part`. It lies in both boxes, the types are convertible and the arrays do not overlap (CHECK
// for the first two). An empty part is nothing to do.
void copy_box(const Box& part, const Source& src, const Target& dst);

// The wire: `part` alone, dense, in the type `wire`. `out` and `in` have packed_bytes(part, wire) bytes.
int64_t packed_bytes(const Box& part, DType wire);
void pack_box(const Box& part, const Source& src, DType wire, std::byte* out);
void unpack_box(const Box& part, DType wire, const std::byte* in, const Target& dst);

}  // namespace scalai::executor
