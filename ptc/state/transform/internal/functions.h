#pragma once
// The functions that are built in (transform.h), and elements as F64. Pure functions; any thread.

#include <span>
#include <vector>

#include "ptc/state/transform/transform.h"

namespace scalai::transform::internal {

// Elements at once in a step.
inline constexpr int64_t kElements = int64_t{1} << 16;

Function cast(DType dtype);
Function scale(double factor);
Function quantise_rows();

// "alone" is for floating types only.
absl::Status check_floating(DType dtype);
std::vector<double> as_f64(DType dtype, std::span<const std::byte> bytes);
// Rounds once.
void from_f64(std::span<const double> values, DType dtype, std::span<std::byte> bytes);

}  // namespace scalai::transform::internal
