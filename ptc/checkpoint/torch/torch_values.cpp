#include "ptc/checkpoint/torch/internal/torch_values.h"

#include <map>

namespace scalai::checkpoint::internal {

using tensor::DType;
using Kind = PickleValue::Kind;

std::optional<DType> dtype_of(std::string_view name) {
  static const std::map<std::string_view, DType> kNames = {
      {"torch.FloatStorage", DType::kF32},  {"torch.DoubleStorage", DType::kF64},
      {"torch.HalfStorage", DType::kF16},   {"torch.BFloat16Storage", DType::kBF16},
      {"torch.LongStorage", DType::kI64},   {"torch.IntStorage", DType::kI32},
      {"torch.ShortStorage", DType::kI16},  {"torch.CharStorage", DType::kI8},
      {"torch.ByteStorage", DType::kU8},    {"torch.BoolStorage", DType::kBool},
      {"torch.float32", DType::kF32},       {"torch.float64", DType::kF64},
      {"torch.float16", DType::kF16},       {"torch.bfloat16", DType::kBF16},
      {"torch.int64", DType::kI64},         {"torch.int32", DType::kI32},
      {"torch.int16", DType::kI16},         {"torch.int8", DType::kI8},
      {"torch.uint64", DType::kU64},        {"torch.uint32", DType::kU32},
      {"torch.uint16", DType::kU16},        {"torch.uint8", DType::kU8},
      {"torch.bool", DType::kBool},         {"torch.float8_e4m3fn", DType::kF8E4M3},
      {"torch.float8_e5m2", DType::kF8E5M2}};
  const auto found = kNames.find(name);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::vector<int64_t>> numbers_of(const PickleValue& value) {
  if (value.kind != Kind::kTuple && value.kind != Kind::kList && !value.is_call_of("torch.Size")) return std::nullopt;
  std::vector<int64_t> numbers;
  const bool wrapped = value.kind == Kind::kCall;
  if (wrapped && value.items.size() != 1) return std::nullopt;
  for (const PickleValue* const item : wrapped ? value.items.front()->items : value.items) {
    if (item->kind != Kind::kInt) return std::nullopt;
    numbers.push_back(item->number);
  }
  return numbers;
}

}  // namespace scalai::checkpoint::internal
