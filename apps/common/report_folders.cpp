#include "apps/common/report_folders.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

namespace fs = std::filesystem;

// Folders in `folder` that are reports.
std::vector<fs::path> reports_in(const fs::path& folder) {
  std::vector<fs::path> reports;
  std::error_code error;  // a folder that cannot be listed is one that has no reports
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (fs::exists(it->path() / "summary.json", ignored)) reports.push_back(it->path());
  }
  std::sort(reports.begin(), reports.end());
  return reports;
}

std::optional<int64_t> seed_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const auto seed = name.starts_with("seed-") ? parse_count(name.substr(5)) : absl::StatusOr<int64_t>(invalid(""));
  return seed.ok() ? std::optional(*seed) : std::nullopt;
}

// The reports of all seeds in a folder that holds nothing else.
std::vector<std::string> seeds_in(const fs::path& folder) {
  std::vector<std::pair<int64_t, std::string>> seeds;
  for (const fs::path& report : reports_in(folder)) {
    const auto seed = seed_of(report);
    if (!seed) return {};
    seeds.emplace_back(*seed, report.string());
  }
  std::sort(seeds.begin(), seeds.end());
  std::vector<std::string> folders;
  for (auto& [seed, path] : seeds) folders.push_back(std::move(path));
  return folders;
}

struct Found {
  fs::path folder;
  std::vector<std::string> reports;
};

std::vector<Found> reports_at(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "summary.json", error)) return {{folder, {folder.string()}}};
  if (std::vector<std::string> seeds = seeds_in(folder); !seeds.empty()) return {{folder, std::move(seeds)}};
  std::vector<Found> found;
  for (const fs::path& report : reports_in(folder)) found.push_back({report, {report.string()}});
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (std::vector<std::string> seeds = seeds_in(it->path()); !seeds.empty())
      found.push_back({it->path(), std::move(seeds)});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.folder < b.folder; });
  if (found.empty()) found.push_back({folder, {folder.string()}});
  return found;
}

// A trailing slash would leave an empty name.
std::string name_of(const fs::path& folder) {
  const fs::path normal = folder.lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

}  // namespace

std::vector<ReportFolder> report_folders(const std::vector<std::string>& arguments) {
  std::vector<ReportFolder> result;
  std::vector<std::string> paths;
  for (const std::string& folder : arguments) {
    for (Found& found : reports_at(folder)) {
      const bool may_clash = found.folder != folder && arguments.size() > 1;
      const std::string name = name_of(found.folder);
      result.push_back({may_clash ? name_of(folder) + "/" + name : name, std::move(found.reports)});
      paths.push_back(found.folder.string());
    }
  }
  const std::vector<ReportFolder> named = result;
  for (size_t i = 0; i < result.size(); ++i) {
    const auto same = [&](const ReportFolder& other) { return other.label == named[i].label; };
    if (std::count_if(named.begin(), named.end(), same) > 1) result[i].label = paths[i];
  }
  return result;
}

}  // namespace scalai::apps
