#pragma once
// Whole-file reads and all-or-nothing writes.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

// The file's bytes. Errors (NotFound): no such file, a directory, no permission, larger than `max_bytes`.
absl::StatusOr<std::string> read_file(const std::string& path, int64_t max_bytes = int64_t{1} << 30);
// Writes to `path`.tmp, flushes, renames: after a kill there is the old file or the new one, never half of it.
absl::Status write_file(const std::string& path, std::string_view bytes);
// Creates the folder and its parents.
absl::Status make_folders(const std::string& path);

}  // namespace scalai
