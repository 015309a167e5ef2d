#include "labs/near/commands/near_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "labs/near/commands/near_hosts.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/store/datasets/data_files.h"
#include "ptc/store/datasets/index.h"

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;

// The data files of a dataset, by their paths below the folder of its index.
absl::StatusOr<std::vector<std::string>> files_of_dataset(const std::string& path) {
  const auto index = datasets::Index::open(path);
  if (!index.ok())
    return absl::Status(index.status().code(),
                        message_of(index.status()) +
                            "\nhint: a source is a folder (a checkpoint, a mount, …) or the index "
                            "of a dataset");
  SCALAI_RETURN_IF_ERROR(datasets::check_inside(**index));
  const fs::path folder = fs::path(absolute_path(path)).parent_path();
  std::vector<std::string> files;
  for (const datasets::DataFile& file : (*index)->files())
    files.push_back(fs::path(absolute_path(file.location)).lexically_normal().lexically_relative(folder).string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string folder_of_source(const std::string& source) {
  const std::string path = fs::path(absolute_path(source)).lexically_normal().string();
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return fs::path(path).parent_path().string();
  return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
}

absl::StatusOr<SourceRequest> read_source(const std::string& source, std::vector<near::Host> hosts) {
  std::error_code ignored;
  SourceRequest request{.folder = folder_of_source(source), .is_here = false, .files = {}, .hosts = std::move(hosts)};
  request.is_here = fs::is_directory(request.folder, ignored);
  if (fs::is_regular_file(absolute_path(source), ignored)) {
    SCALAI_ASSIGN_OR_RETURN(request.files, files_of_dataset(source));
  }
  if (request.hosts.empty()) {
    if (!request.is_here)
      return missing(fmt::format("{}: no such folder here; --host says which hosts have it", source));
    request.hosts.push_back({.name = "here", .folder = request.folder, .here = true});
  }
  return request;
}

absl::StatusOr<near::Source> list_source(const SourceRequest& request, const near::Launch& launch, int jobs,
                                         std::vector<std::unique_ptr<near::Session>>& waiting) {
  const std::set<std::string> wanted(request.files.begin(), request.files.end());
  SCALAI_ASSIGN_OR_RETURN(near::Source source, list_hosts(request.hosts, wanted, launch, jobs, waiting));
  std::vector<std::string> absent;
  for (const std::string& file : wanted)
    if (!source.files.contains(file)) absent.push_back(file);
  if (!absent.empty())
    return missing(fmt::format("no host has these files of the dataset: {}", fmt::join(absent, ", ")));
  return source;
}

}  // namespace scalai::apps
