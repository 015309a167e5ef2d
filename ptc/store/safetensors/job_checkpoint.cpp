#include "ptc/store/safetensors/job_checkpoint.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/safetensors/manifest.h"

namespace scalai::store {
namespace {

constexpr std::string_view kPrefix = "step_";
constexpr size_t kDigits = 8;
constexpr std::string_view kPartial = ".partial.";

// "step_00000012" → 12; nullopt for what step_folder() does not write.
std::optional<int64_t> step_of(const std::string& name) {
  if (name.rfind(kPrefix, 0) != 0 || name.size() < kPrefix.size() + kDigits) return std::nullopt;
  int64_t step = -1;
  const char* end = name.data() + name.size();
  const std::from_chars_result read = std::from_chars(name.data() + kPrefix.size(), end, step);
  const bool all = read.ec == std::errc() && read.ptr == end && step >= 0;
  return all && step_folder(".", step) == "./" + name ? std::optional(step) : std::nullopt;
}

// Of step_folder()'s name and a writer's suffix.
bool is_temporary(const std::string& name) {
  const size_t dot = name.find(kPartial);
  return dot != std::string::npos && step_of(name.substr(0, dot)).has_value();
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_complete(const std::string& folder, int64_t step) {
  const absl::StatusOr<std::string> text = read_file(folder + "/" + kManifestName);
  if (!text.ok()) return false;
  const absl::StatusOr<Manifest> manifest = parse_manifest(*text);
  if (!manifest.ok() || manifest->step != step) return false;
  return std::all_of(manifest->files.begin(), manifest->files.end(), [&](const FileRecord& file) {
    struct stat info {};
    return ::stat(fmt::format("{}/{}", folder, file.name).c_str(), &info) == 0 && info.st_size == file.bytes;
  });
}

}  // namespace

std::string step_folder(const std::string& folder, int64_t step) {
  return fmt::format("{}/{}{:0{}}", without_trailing_slash(folder), kPrefix, step, kDigits);
}

std::optional<FoundCheckpoint> latest(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : names_in(folder)) {
    if (const std::optional<int64_t> step = step_of(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  for (const int64_t step : steps) {
    const std::string path = step_folder(folder, step);
    if (is_complete(path, step)) return FoundCheckpoint{path, step};
  }
  return std::nullopt;
}

void remove_checkpoint(const std::string& folder) {
  const std::string gone = fmt::format("{}{}{}.gone", without_trailing_slash(folder), kPartial, ::getpid());
  remove_folder(gone);
  if (::rename(without_trailing_slash(folder).c_str(), gone.c_str()) != 0) return;
  (void)sync_folder(parent_of(folder));
  remove_folder(gone);
}

absl::StatusOr<std::vector<std::string>> clean(const std::string& folder) {
  std::vector<std::string> removed;
  for (const std::string& name : names_in(folder)) {
    if (!is_temporary(name)) continue;
    std::string path = fmt::format("{}/{}", without_trailing_slash(folder), name);
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) return failed(fmt::format("{}: cannot remove: {}", path, error.message()));
    removed.push_back(std::move(path));
  }
  return removed;
}

}  // namespace scalai::store
