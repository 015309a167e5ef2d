#include "apps/common/report_folders.h"

#include <algorithm>
#include <filesystem>

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> reports_at(const fs::path& folder) {
  std::vector<fs::path> reports;
  std::error_code error;  // a folder that cannot be listed is one that has no reports
  if (fs::exists(folder / "summary.json", error)) return {folder};
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::exists(it->path() / "summary.json", ignored)) reports.push_back(it->path());
  }
  std::sort(reports.begin(), reports.end());
  return reports.empty() ? std::vector<fs::path>{folder} : reports;
}

// A trailing slash would leave an empty name.
std::string name_of(const fs::path& folder) {
  const fs::path normal = folder.lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> report_folders(const std::vector<std::string>& arguments) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& folder : arguments) {
    for (const fs::path& report : reports_at(folder)) {
      const bool may_clash = report != folder && arguments.size() > 1;
      result.emplace_back(may_clash ? name_of(folder) + "/" + name_of(report) : name_of(report), report.string());
    }
  }
  const std::vector<std::pair<std::string, std::string>> named = result;
  for (auto& [label, path] : result) {
    const auto same = [&](const auto& other) { return other.first == label; };
    if (std::count_if(named.begin(), named.end(), same) > 1) label = path;
  }
  return result;
}

}  // namespace scalai::apps
