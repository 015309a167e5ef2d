#pragma once
// Casts of elements between floating types: exact where the new type is wider, else rounded to nearest even, once, also
// from F64. Too large becomes infinity (NaN in F8_E4M3, which has none); a NaN stays a NaN. Free threaded.

#include <cstddef>
#include <cstdint>

#include "ptc/tensor/dtype.h"

namespace scalai::executor {

// The same type, or both floating.
bool convertible(tensor::DType from, tensor::DType to);

// `count` elements, dense; neither pointer need be aligned and the two must not overlap. CHECK: convertible.
void convert(tensor::DType from, tensor::DType to, int64_t count, const std::byte* src, std::byte* dst);

}  // namespace scalai::executor
