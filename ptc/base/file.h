#pragma once
// Whole-file reads and all-or-nothing writes. Any thread may call; a path has one writer at a time.

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

// All bytes of the file. NotFound: no such file, a directory, no permission, or larger than `max_bytes`.
absl::StatusOr<std::string> read_file(const std::string& path, int64_t max_bytes = int64_t{1} << 30);
// Writes `path`.tmp, flushes it to disk and renames it: after a kill the old or the new file exists, never a part of
// one. NotFound: a step failed, and the old file is unchanged.
absl::Status write_file(const std::string& path, std::string_view bytes);
// Creates the folder and its parents; OK if it exists. NotFound: it cannot be created.
absl::Status make_folders(const std::string& path);

}  // namespace scalai
