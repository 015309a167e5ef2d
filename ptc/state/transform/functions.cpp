#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/internal/functions.h"
#include "ptc/state/transform/step_core.h"

namespace scalai::transform::internal {
namespace {

using Output = Function::Output;
using Part = Function::Part;

// The largest magnitude gives the factor.
float factor_of(std::span<const double> row) {
  double largest = 0;
  for (const double value : row) largest = std::max(largest, std::abs(value));
  return step_core::factor_of(largest);
}

absl::Status quantise(const Part& part) {
  const int last = part.box.rank - 1;
  const auto columns = static_cast<size_t>(part.box.extent(last));
  const std::vector<double> values = as_f64(part.tensor->dtype, part.in);
  for (size_t at = 0; at < values.size(); ++at) {
    if (std::isfinite(values[at])) continue;
    return invalid(fmt::format("tensor \"{}\" box {}: has an element that is not finite, which no code stands for",
                               part.tensor->name, part.box.str()));
  }
  for (size_t row = 0; columns > 0 && row < values.size() / columns; ++row) {
    const std::span<const double> these = std::span(values).subspan(row * columns, columns);
    const float factor = factor_of(these);
    if (!std::isfinite(factor))
      return invalid(fmt::format("tensor \"{}\" box {}: has elements beyond those that a scale in F32 reaches",
                                 part.tensor->name, part.box.str()));
    if (part.output == 1) {
      tensor::convert(DType::kF32, DType::kF32, 1, reinterpret_cast<const std::byte*>(&factor),
                      part.out.data() + row * sizeof factor);
      continue;
    }
    for (size_t i = 0; i < columns; ++i) {
      part.out[row * columns + i] = static_cast<std::byte>(step_core::code_of(these[i], factor));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_floating(DType dtype) {
  if (tensor::convertible(dtype, DType::kF64)) return absl::OkStatus();
  return invalid(fmt::format("has elements of {}, which are not floating", name_of(dtype)));
}

std::vector<double> as_f64(DType dtype, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / static_cast<size_t>(tensor::size_of(dtype)));
  tensor::convert(dtype, DType::kF64, std::ssize(values), bytes.data(), reinterpret_cast<std::byte*>(values.data()));
  return values;
}

void from_f64(std::span<const double> values, DType dtype, std::span<std::byte> bytes) {
  SCALAI_CHECK(std::ssize(bytes) == std::ssize(values) * tensor::size_of(dtype), "a type of another size");
  tensor::convert(DType::kF64, dtype, std::ssize(values), reinterpret_cast<const std::byte*>(values.data()),
                  bytes.data());
}

Function cast(DType dtype) {
  return {.split = Split::kElements,
          .name = fmt::format("cast({})", name_of(dtype)),
          .outputs = [dtype](DType from, const Shape&) -> absl::StatusOr<std::vector<Output>> {
            SCALAI_RETURN_IF_ERROR(check_floating(from));
            return std::vector<Output>{{"", dtype}};
          },
          .run =
              [dtype](const Part& part) {
                tensor::convert(part.tensor->dtype, dtype, part.box.volume(), part.in.data(), part.out.data());
                return absl::OkStatus();
              },
          .built_in = BuiltIn{.what = BuiltIn::What::kCast}};
}

Function scale(double factor) {
  return {.split = Split::kElements,
          .name = fmt::format("scale({})", factor),
          .needs_values = true,
          .outputs = [](DType dtype, const Shape&) -> absl::StatusOr<std::vector<Output>> {
            SCALAI_RETURN_IF_ERROR(check_floating(dtype));
            return std::vector<Output>{{"", dtype}};
          },
          .run =
              [factor](const Part& part) {
                std::vector<double> values = as_f64(part.tensor->dtype, part.in);
                for (double& value : values) value = step_core::times(value, factor);
                from_f64(values, part.tensor->dtype, part.out);
                return absl::OkStatus();
              },
          .built_in = BuiltIn{.what = BuiltIn::What::kScale, .factor = factor}};
}

Function quantise_rows() {
  return {.split = Split::kRows,
          .name = "quantise(I8)",
          .needs_values = true,
          .outputs = [](DType dtype, const Shape& shape) -> absl::StatusOr<std::vector<Output>> {
            SCALAI_RETURN_IF_ERROR(check_floating(dtype));
            if (shape.rank() < 2) return invalid(fmt::format("has the shape {}, which has no rows", shape.str()));
            return std::vector<Output>{{"", DType::kI8}, {"_scale", DType::kF32, true}};
          },
          .run = quantise,
          .built_in = BuiltIn{.what = BuiltIn::What::kQuantise}};
}

}  // namespace scalai::transform::internal
