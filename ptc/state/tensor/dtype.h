#pragma once
// Element types. Their only spelling is that of safetensors ("BF16", "F32", …). Any thread may call.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::tensor {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64
};

int64_t size_of(DType dtype);  // bytes of one element
// The view is valid for the life of the program.
std::string_view name_of(DType dtype);
// In the order of the enumeration.
std::vector<std::string> dtype_names();
// InvalidArgument: unknown name.
absl::StatusOr<DType> parse_dtype(std::string_view name);

}  // namespace scalai::tensor
