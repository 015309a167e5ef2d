#pragma once
// Operations on files, in the order in which they took effect. Read from a recorder's log, or made by hand in tests.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/crash/record_format.h"

namespace scalai::crash {

struct Operation {
  Kind kind = Kind::kMark;
  std::string path, other;  // relative to the root, "." for itself
  uint64_t inode = 0;
  int64_t offset = 0;
  int64_t length = 0;
  std::string data;
  uint32_t process = 0;
  std::string str() const;  // one line, without data
};

// InvalidArgument: not a recording, cut short, or with a call that the recorder cannot describe.
absl::StatusOr<std::vector<Operation>> read_recording(const std::string& file);

}  // namespace scalai::crash
