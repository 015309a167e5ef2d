#pragma once
// Finds keys that several samples have, in memory that does not grow: hashes lie in a temporary file, are sorted where
// they are mapped, and only samples of one hash are looked at again. Not for several threads.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/store/datasets/internal/index_writer.h"

namespace scalai::datasets {

class KeyCheck {
 public:
  // Its file lies beside `out`, 16 bytes a sample.
  static absl::StatusOr<KeyCheck> create(const std::string& out);

  absl::Status add(std::string_view key, int64_t sample);
  // Calls `same` with each two samples whose keys have one hash, the one of the lower number first, until it returns an
  // error. Called once, after all keys.
  absl::Status for_each_pair(const std::function<absl::Status(int64_t, int64_t)>& same);

 private:
  explicit KeyCheck(TemporaryFile file) : file_(std::make_unique<TemporaryFile>(std::move(file))), rows_(*file_, 0) {}
  std::unique_ptr<TemporaryFile> file_;
  ColumnWriter rows_;
};

}  // namespace scalai::datasets
