#pragma once
// Where a part of a tensor lies in this process's memory: dense and row-major over a box. Plain values that own nothing;
// `data` need not be aligned. Free threaded.

#include <cstddef>

#include "ptc/tensor/box.h"
#include "ptc/tensor/dtype.h"

namespace scalai::executor {

using tensor::Box;
using tensor::DType;

// To be read.
struct Source {
  Box box;
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
};

// To be written.
struct Target {
  Box box;
  DType dtype = DType::kF32;
  std::byte* data = nullptr;
  Source source() const { return {box, dtype, data}; }
};

}  // namespace scalai::executor
