#pragma once
// Views of a box of a tensor in this process's memory: dense and row-major. Plain values that own nothing: the memory
// must outlive them. `data` needs no alignment. Any thread.

#include <cstddef>

#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::executor::state {

using tensor::Box;
using tensor::DType;

// For reading.
struct Source {
  Box box;
  DType dtype = DType::kF32;
  const std::byte* data = nullptr;
};

// For writing.
struct Target {
  Box box;
  DType dtype = DType::kF32;
  std::byte* data = nullptr;
  Source source() const { return {box, dtype, data}; }
};

}  // namespace scalai::executor::state
