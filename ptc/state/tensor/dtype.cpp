#include "ptc/state/tensor/dtype.h"

#include <fmt/format.h>

#include <array>

#include "ptc/base/status.h"

namespace scalai::tensor {
namespace {
struct Row {
  DType dtype;
  std::string_view name;
  int64_t bytes;
};
// In the order of the enumeration.
constexpr std::array kRows = {
    Row{DType::kBool, "BOOL", 1},      Row{DType::kU8, "U8", 1},          Row{DType::kI8, "I8", 1},
    Row{DType::kF8E4M3, "F8_E4M3", 1}, Row{DType::kF8E5M2, "F8_E5M2", 1}, Row{DType::kI16, "I16", 2},
    Row{DType::kU16, "U16", 2},        Row{DType::kF16, "F16", 2},        Row{DType::kBF16, "BF16", 2},
    Row{DType::kI32, "I32", 4},        Row{DType::kU32, "U32", 4},        Row{DType::kF32, "F32", 4},
    Row{DType::kF64, "F64", 8},        Row{DType::kI64, "I64", 8},        Row{DType::kU64, "U64", 8}};
}  // namespace

int64_t size_of(DType dtype) { return kRows.at(static_cast<size_t>(dtype)).bytes; }
std::string_view name_of(DType dtype) { return kRows.at(static_cast<size_t>(dtype)).name; }

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

absl::StatusOr<DType> parse_dtype(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.dtype;
  }
  return invalid(fmt::format("unknown dtype \"{}\" (use a safetensors name such as BF16, F16, F32)", name));
}

}  // namespace scalai::tensor
