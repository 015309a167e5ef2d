#include "ptc/report/report.h"

#include <fmt/format.h>

#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"
#include "ptc/plan/plan_io.h"
#include "ptc/report/internal/report_files.h"
#include "ptc/report/internal/summary.h"
#include "ptc/run/control/event_text.h"

namespace scalai::report {
namespace {

namespace fs = std::filesystem;

bool is_plan_file(const fs::path& path) {
  const std::string stem = path.stem().string();
  return path.extension() == ".binpb" && stem.size() >= 3 && stem.find_first_not_of("0123456789") == std::string::npos;
}

absl::Status remove_file(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  return error ? missing(fmt::format("{}: cannot remove: {}", path.string(), error.message())) : absl::OkStatus();
}

// An earlier report may have had more plans; files that are not a report's stay.
absl::Status remove_plans(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> plans;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_plan_file(it->path())) plans.push_back(it->path());
  }
  if (error) return missing(fmt::format("{}: cannot list: {}", folder.string(), error.message()));
  for (const fs::path& plan : plans) SCALAI_RETURN_IF_ERROR(remove_file(plan));
  return absl::OkStatus();
}

}  // namespace

absl::Status write_report(const control::RunReport& report, const Manifest& manifest, const std::string& folder) {
  SCALAI_CHECK(report.scenario != nullptr);
  const auto path_of = [&](const std::string& name) { return (fs::path(folder) / name).string(); };
  SCALAI_RETURN_IF_ERROR(make_folders(path_of("plans")));
  // Whoever finds a summary.json finds the whole report: it goes first and comes back last.
  SCALAI_RETURN_IF_ERROR(remove_file(path_of("summary.json")));
  SCALAI_RETURN_IF_ERROR(remove_plans(path_of("plans")));
  for (size_t n = 0; n < report.plans.size(); ++n) {
    SCALAI_RETURN_IF_ERROR(write_file(path_of(plan_file_name(n)), plan::serialize(report.plans[n])));
  }
  SCALAI_RETURN_IF_ERROR(
      write_file(path_of("scenario.resolved.textproto"),
                 scenario::text_in_folder(scenario::with_strategy(report.scenario->resolved_text, report.strategy),
                                          report.scenario->folder, folder)));
  SCALAI_RETURN_IF_ERROR(write_file(path_of("events.csv"), control::events_csv(report.events)));
  SCALAI_RETURN_IF_ERROR(write_file(path_of("transfers.csv"), transfers_csv(report)));
  SCALAI_RETURN_IF_ERROR(write_file(path_of("devices.csv"), devices_csv(report)));
  SCALAI_RETURN_IF_ERROR(write_file(path_of("trace.pftrace"), perfetto_trace(report)));
  SCALAI_RETURN_IF_ERROR(write_file(path_of("manifest.json"), manifest_json(manifest)));
  return write_file(path_of("summary.json"), summary_json(report));
}

}  // namespace scalai::report
