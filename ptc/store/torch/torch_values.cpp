#include "ptc/store/torch/internal/torch_values.h"

#include <algorithm>
#include <iterator>

#include "ptc/base/status.h"

namespace scalai::store::internal {

using tensor::DType;
using Kind = PickleValue::Kind;

namespace {

struct TorchDType {
  DType dtype;
  std::string_view name;
  std::string_view storage;  // ""; newer ones have none
};
constexpr TorchDType kDTypes[] = {{DType::kF32, "float32", "FloatStorage"},
                                  {DType::kF64, "float64", "DoubleStorage"},
                                  {DType::kF16, "float16", "HalfStorage"},
                                  {DType::kBF16, "bfloat16", "BFloat16Storage"},
                                  {DType::kI64, "int64", "LongStorage"},
                                  {DType::kI32, "int32", "IntStorage"},
                                  {DType::kI16, "int16", "ShortStorage"},
                                  {DType::kI8, "int8", "CharStorage"},
                                  {DType::kU8, "uint8", "ByteStorage"},
                                  {DType::kBool, "bool", "BoolStorage"},
                                  {DType::kU64, "uint64", ""},
                                  {DType::kU32, "uint32", ""},
                                  {DType::kU16, "uint16", ""},
                                  {DType::kF8E4M3, "float8_e4m3fn", ""},
                                  {DType::kF8E5M2, "float8_e5m2", ""}};

const TorchDType& entry_of(DType dtype) {
  const auto* const found = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                         [&](const TorchDType& entry) { return entry.dtype == dtype; });
  SCALAI_CHECK(found != std::end(kDTypes));
  return *found;
}

}  // namespace

std::optional<DType> dtype_of(std::string_view name) {
  constexpr std::string_view kModule = "torch.";
  if (!name.starts_with(kModule)) return std::nullopt;
  name.remove_prefix(kModule.size());
  for (const TorchDType& entry : kDTypes) {
    if (name == entry.name || (!entry.storage.empty() && name == entry.storage)) return entry.dtype;
  }
  return std::nullopt;
}

std::string_view storage_of(DType dtype) { return entry_of(dtype).storage; }
std::string_view torch_name(DType dtype) { return entry_of(dtype).name; }

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

}  // namespace scalai::store::internal
