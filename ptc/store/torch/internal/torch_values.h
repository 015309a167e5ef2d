#pragma once
// What pickles of torch have in common: dtypes by name, sizes.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ptc/state/tensor/dtype.h"
#include "ptc/store/torch/pickle.h"

namespace scalai::store::internal {

inline constexpr size_t kMostProblems = 50;  // of a file that are told

// By what torch calls the class of a storage ("torch.FloatStorage"), or the dtype itself ("torch.float32").
std::optional<tensor::DType> dtype_of(std::string_view name);
// The other way, without "torch.": "FloatStorage", or "" for dtypes that have no storage of their own; "float32".
std::string_view storage_of(tensor::DType dtype);
std::string_view torch_name(tensor::DType dtype);

// The whole numbers of a tuple, list or torch.Size; nothing when it has others.
std::optional<std::vector<int64_t>> numbers_of(const PickleValue& value);

}  // namespace scalai::store::internal
