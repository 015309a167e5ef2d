#pragma once
// Casts of elements between floating types: exact if the new type is wider, otherwise rounded once to nearest even,
// also from F64. Overflow gives infinity (NaN in F8_E4M3, which has no infinity); a NaN stays a NaN. Pure functions;
// any thread.

#include <cstddef>
#include <cstdint>

#include "ptc/state/tensor/dtype.h"

namespace scalai::tensor {

// True for equal types, and for two floating types.
bool convertible(DType from, DType to);

// Converts `count` dense elements. Pointers need no alignment; the arrays must not overlap. CHECK: convertible.
void convert(DType from, DType to, int64_t count, const std::byte* src, std::byte* dst);

}  // namespace scalai::tensor
