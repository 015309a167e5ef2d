#include "executor/state/available_memory.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "ptc/base/file.h"

namespace scalai::executor::state {
namespace {
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string text_of(const std::string& path) {
  absl::StatusOr<std::string> text = read_file(path);
  return text.ok() ? *std::move(text) : std::string();
}

// The number after `key` at the beginning of a line (the text itself for an empty key), else `otherwise`.
int64_t number_after(const std::string& text, std::string_view key, int64_t otherwise) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!std::string_view(line).starts_with(key)) continue;
    const char* begin = line.data() + key.size();
    const char* end = line.data() + line.size();
    while (begin < end && *begin == ' ') ++begin;
    int64_t value = 0;
    if (std::from_chars(begin, end, value).ec == std::errc()) return value;
  }
  return otherwise;
}

struct Names {
  const char* limit;
  const char* used;
  const char* inactive;
};
constexpr Names kVersion2 = {"/memory.max", "/memory.current", "inactive_file"};
constexpr Names kVersion1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file"};

int64_t left_in(const std::string& folder, const Names& names) {
  const int64_t limit = number_after(text_of(folder + names.limit), "", kUnlimited);
  const int64_t used = number_after(text_of(folder + names.used), "", 0);
  if (limit > kUnlimited / 2) return kUnlimited;  // version 1 says "unlimited" by a large number
  return std::max<int64_t>(0, limit - used + number_after(text_of(folder + "/memory.stat"), names.inactive, 0));
}

// The group and all above it: each may have a limit of its own.
int64_t left_in_all(const std::string& mount, std::string group, const Names& names) {
  int64_t left = left_in(mount, names);
  while (group.size() > 1) {
    left = std::min(left, left_in(mount + group, names));
    group.resize(group.rfind('/'));
  }
  return left;
}
}  // namespace

int64_t available_memory(const std::string& root) {
  const int64_t kibibytes = number_after(text_of(root + "/proc/meminfo"), "MemAvailable:", kUnlimited / 1024);
  int64_t available = kibibytes * 1024;
  std::istringstream groups(text_of(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {  // "ID:CONTROLLERS:PATH"
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (!path.starts_with("/")) continue;
    if (controllers.empty()) {
      available = std::min(available, left_in_all(root + "/sys/fs/cgroup", path, kVersion2));
    } else if (controllers == "memory") {
      available = std::min(available, left_in_all(root + "/sys/fs/cgroup/memory", path, kVersion1));
    }
  }
  return available;
}

}  // namespace scalai::executor::state
