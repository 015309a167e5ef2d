#pragma once
// A file around tensors whose bytes come from elsewhere: where these lie, and all else that is in it. Values.

#include <cstdint>
#include <string>
#include <vector>

#include "ptc/store/safetensors/safetensors.h"

namespace scalai::store {

struct FileFrame {
  struct Text {
    int64_t offset = 0;
    std::string bytes;
  };
  std::vector<StoredTensor> tensors;  // by offset
  std::vector<Text> texts;            // by offset; with the tensors the whole file, and nothing twice
  int64_t bytes = 0;
};

}  // namespace scalai::store
