#include "ptc/store/views/internal/reshard_places.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/files.h"
#include "ptc/store/views/internal/arranged_manifest.h"
#include "ptc/store/views/internal/opened_folder.h"

namespace scalai::store::internal {
namespace {

namespace fs = std::filesystem;

bool same_file(const std::string& a, const struct stat& b) {
  struct stat status {};
  return ::stat(a.c_str(), &status) == 0 && status.st_dev == b.st_dev && status.st_ino == b.st_ino;
}

// By inode, so that neither links nor mounts hide it.
bool is_in_or_below(fs::path path, const std::string& folder) {
  struct stat wanted {};
  if (::stat(folder.c_str(), &wanted) != 0) return false;
  while (true) {
    if (same_file(path.string(), wanted)) return true;
    const fs::path parent = path.parent_path();
    if (parent.empty() || parent == path) return false;
    path = parent;
  }
}

std::set<fs::path> read_places(const Checkpoint& source) {
  std::set<fs::path> places;
  const auto add = [&](const std::string& path, bool parent) {
    std::error_code error;
    if (!is_there(path)) return;  // not a local one
    const fs::path real = fs::canonical(path, error);
    if (!error) places.insert(parent ? real.parent_path() : real);
  };
  add(source.info().path, false);
  for (size_t file = 0; file < source.files().size(); ++file) add(source.source(file).name(), true);
  return places;
}

bool has_own_manifest(const std::string& folder) {
  const absl::StatusOr<std::string> text = read_file(folder + "/" + kManifestName, kMostManifestBytes);
  if (!text.ok()) return false;
  const absl::StatusOr<std::string> kind = manifest_kind(*text);
  return kind.ok() && (*kind == kArrangedKind || (kind->empty() && parse_manifest(*text).ok()));
}

bool is_known(const std::string& name) {
  return name.ends_with(kTensorsExtension) || name.ends_with(".json") || name.ends_with(".textproto") ||
         name == ".gitattributes" || is_extra(name);
}

// The files that a folder's own manifest names.
std::set<std::string> own_files(const std::string& folder) {
  std::set<std::string> names;
  const absl::StatusOr<std::string> text = read_file(folder + "/" + kManifestName, kMostManifestBytes);
  const auto manifest = text.ok() ? parse_arranged_manifest(*text) : absl::StatusOr<ArrangedManifest>(text.status());
  if (!manifest.ok()) return names;
  for (const ArrangedRecord& record : manifest->files) names.insert(record.file.name);
  for (const TextRecord& record : manifest->texts) names.insert(record.name);
  return names;
}

bool has_folder(const std::set<std::string>& names, const std::string& folder) {
  const auto found = names.lower_bound(folder);
  return found != names.end() && found->starts_with(folder);
}

// Empty: --force may replace the folder. Else why not.
std::string reason_to_keep(const std::string& folder) {
  const bool own = has_own_manifest(folder);
  const std::set<std::string> named = own ? own_files(folder) : std::set<std::string>();
  bool tensors = false;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    std::error_code ignored;
    const fs::file_status status = it->symlink_status(ignored);
    if (fs::is_directory(status) && has_folder(named, name + "/")) {
      const std::optional<std::string> foreign = foreign_entry(it->path().string(), [&](const std::string& below) {
        const std::string path = fmt::format("{}/{}", name, below);
        return below.ends_with('/') ? has_folder(named, path) : named.count(path) != 0;
      });
      if (foreign) return fmt::format("has \"{}/{}\", which is not of it", clipped(name, 120), clipped(*foreign, 120));
      continue;
    }
    if (!fs::is_regular_file(status) && !fs::is_symlink(status))
      return fmt::format("has \"{}\", which is no file", clipped(name, 120));
    // Of a folder that names its files, no others but what comes with a model; a job's has names of its own.
    const bool foreign =
        named.empty() ? !own && !is_known(name) : named.count(name) == 0 && name != kManifestName && !is_extra(name);
    if (foreign) return fmt::format("has \"{}\", which is not of a checkpoint", clipped(name, 120));
    tensors = tensors || name.ends_with(".safetensors");
  }
  if (error) return fmt::format("cannot be read: {}", error.message());
  return own || tensors ? "" : "is no checkpoint";
}

}  // namespace

ReshardPlaces places_of(const std::string& target) {
  const std::string clean = without_trailing_slash(target);
  return {clean, clean + ".partial", clean + ".partial.journal"};
}

bool is_there(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

std::string checksum_of_manifest(const std::string& folder) {
  const absl::StatusOr<std::string> text = read_file(folder + "/" + kManifestName, kMostManifestBytes);
  return text.ok() ? Checksum().add(bytes_of(*text)).hex() : "";
}

bool is_empty_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error) && fs::is_empty(path, error);
}

absl::Status check_apart(const ReshardPlaces& places, const Checkpoint& source) {
  const std::string name = places.target.substr(places.target.rfind('/') + 1);
  if (name.empty() || name == "." || name == "..") {
    return invalid(fmt::format("\"{}\": names no folder to write", places.target));
  }
  const std::set<fs::path> read = read_places(source);
  for (const std::string& folder : {places.target, places.partial}) {
    for (const fs::path& place : read) {
      if (!is_in_or_below(place, folder)) continue;
      return invalid(fmt::format("{}: the source is read from it ({}); write to another folder", folder,
                                 clipped(place.string(), 400)));
    }
  }
  return absl::OkStatus();
}

absl::Status check_target(const ReshardPlaces& places, bool force) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(places.target, error);
  const std::string parent = parent_of(places.target);
  if (!fs::is_directory(parent, error)) {
    return missing(fmt::format("{}: the folder {} is not there; mkdir -p makes it", places.target, parent));
  }
  if (!fs::exists(status)) return absl::OkStatus();
  if (fs::is_symlink(status)) {
    return invalid(fmt::format("{}: is a symbolic link; give the folder that it leads to", places.target));
  }
  if (!fs::is_directory(status)) return invalid(fmt::format("{}: is there and not a folder", places.target));
  if (is_empty_folder(places.target)) return absl::OkStatus();
  if (!force) return invalid(fmt::format("{}: is there already; --force replaces it", places.target));
  const std::string reason = reason_to_keep(places.target);
  if (reason.empty()) return absl::OkStatus();
  return invalid(fmt::format("{}: {}; --force replaces a checkpoint and nothing else", places.target, reason));
}

std::optional<std::string> foreign_entry(const std::string& folder,
                                         const std::function<bool(const std::string&)>& own) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    std::string name = it->path().string().substr(folder.size() + 1);
    const fs::file_status status = it->symlink_status(ignored);
    if (fs::is_directory(status)) name += '/';
    if ((!fs::is_regular_file(status) && !fs::is_directory(status)) || !own(name)) return name;
  }
  return error ? std::optional<std::string>(error.message()) : std::nullopt;
}

}  // namespace scalai::store::internal
