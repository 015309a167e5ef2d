#include "ptc/run/scenario/trace/internal/rate_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/values.h"
#include "ptc/run/scenario/trace/problems.h"

namespace scalai::trace {
namespace {

namespace fs = std::filesystem;

constexpr Bounds kRate{0, 1e12};
constexpr std::string_view kUnconsolidated = "_unconsolidated";

absl::StatusOr<RateTable> read_gavel(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const GavelTable file, read_gavel_table(path));
  RateTable table;
  for (const auto& [worker, jobs] : file) {
    if (worker.size() > kUnconsolidated.size() && worker.ends_with(kUnconsolidated)) continue;
    RateRows rows;
    rows.gpu = worker;
    for (const auto& [key, rates] : jobs) {
      rows.rates[{key.type, 0, key.gpus}] = rates.alone;
      rows.beside[key] = rates.beside;
    }
    const auto spread = file.find(worker + std::string(kUnconsolidated));
    if (spread != file.end()) {
      table.spread = true;
      for (const auto& [key, rates] : spread->second) rows.spread[{key.type, 0, key.gpus}] = rates.alone;
    }
    table.types.push_back(std::move(rows));
  }
  return table;
}

// One model: rows are batch sizes, columns numbers of GPUs.
absl::Status read_model(const fs::path& path, Problems& problems, RateRows& rows) {
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path.string(), problems));
  if (!csv.read_header({"global_batch_size"})) return csv.status();
  std::vector<std::pair<std::string, int>> columns;
  for (const std::string& name : csv.header()) {
    if (name == "global_batch_size") continue;
    const auto gpus = whole_of(name);
    if (!gpus || *gpus < 1 || *gpus > 1000000) {
      problems.add({csv.place().file, 1}, name, "is no number of GPUs");
      return absl::OkStatus();
    }
    columns.emplace_back(name, static_cast<int>(*gpus));
  }
  while (csv.next()) {
    const auto batch = csv.count("global_batch_size", {1, 1e12});
    for (const auto& [name, gpus] : columns) {
      if (csv.text(name).empty() || csv.text(name) == "nan") continue;  // not measured
      const auto rate = csv.number(name, kRate);
      if (!batch || !rate) continue;
      if (!rows.rates.try_emplace({path.stem().string(), *batch, gpus}, *rate).second) {
        csv.problem(name, "this batch size is there already");
      }
    }
  }
  return csv.status();
}

// Files or folders in a folder, by name: the order of a directory is not one.
absl::StatusOr<std::vector<fs::path>> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  if (error) return missing(fmt::format("{}: {}", folder.string(), error.message()));
  std::sort(paths.begin(), paths.end());
  return paths;
}

// "throughputs_A100" → "A100".
std::string gpu_of_folder(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const size_t at = name.find_last_of('_');
  return at == std::string::npos ? name : name.substr(at + 1);
}

absl::Status read_folder(const fs::path& folder, Problems& problems, RateTable& table) {
  SCALAI_ASSIGN_OR_RETURN(const std::vector<fs::path> paths, entries_of(folder));
  RateRows rows;
  rows.gpu = gpu_of_folder(folder);
  for (const fs::path& path : paths) {
    if (path.extension() == ".csv") SCALAI_RETURN_IF_ERROR(read_model(path, problems, rows));
  }
  if (!rows.rates.empty()) table.types.push_back(std::move(rows));
  return absl::OkStatus();
}

absl::StatusOr<RateTable> read_elasticflow(const std::string& path) {
  RateTable table;
  table.by_batch = true;
  Problems problems;
  fs::path folder(path);
  if (!folder.has_filename()) folder = folder.parent_path();  // a "/" at the end
  SCALAI_ASSIGN_OR_RETURN(const std::vector<fs::path> paths, entries_of(folder));
  std::vector<fs::path> folders;
  for (const fs::path& entry : paths) {
    std::error_code error;
    if (fs::is_directory(entry, error) && entry.filename().string().starts_with("throughputs_"))
      folders.push_back(entry);
  }
  if (folders.empty()) folders.push_back(folder);
  for (const fs::path& one : folders) SCALAI_RETURN_IF_ERROR(read_folder(one, problems, table));
  SCALAI_RETURN_IF_ERROR(problems.status());
  if (table.types.empty()) {
    return invalid(fmt::format("{}: has no table of a model (MODEL.csv, first column global_batch_size)", path));
  }
  return table;
}

absl::StatusOr<RateTable> read_own(const std::string& path) {
  RateTable table;
  Problems problems;
  SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, problems));
  std::map<std::string, size_t> index;
  if (!csv.read_header({"type", "gpu", "gpus", "iterations_per_s"})) {
    SCALAI_RETURN_IF_ERROR(csv.status());
    return problems.status();
  }
  while (csv.next()) {
    const auto type = csv.name("type");
    const auto gpu = csv.name("gpu");
    const auto gpus = csv.count("gpus", kGpuCount);
    const auto rate = csv.number("iterations_per_s", kRate);
    if (!type || !gpu || !gpus || !rate) continue;
    const auto [at, fresh] = index.try_emplace(*gpu, table.types.size());
    if (fresh) {
      table.types.emplace_back();
      table.types.back().gpu = *gpu;
    }
    if (!table.types[at->second].rates.try_emplace({*type, 0, static_cast<int>(*gpus)}, *rate).second) {
      csv.problem("gpus", "this type, GPU and number is there already");
    }
  }
  SCALAI_RETURN_IF_ERROR(csv.status());
  SCALAI_RETURN_IF_ERROR(problems.status());
  if (table.types.empty()) return invalid(fmt::format("{}: has no rows", path));
  return table;
}

}  // namespace

absl::StatusOr<RateTable> read_rates(const std::string& format, const std::string& path) {
  absl::StatusOr<RateTable> table = invalid(fmt::format(
      "there is no throughput table format {}\n  hint: there are gavel, elasticflow, scalai", in_quotes(format)));
  if (format == "gavel") table = read_gavel(path);
  if (format == "elasticflow") table = read_elasticflow(path);
  if (format == "scalai") table = read_own(path);
  if (table.ok()) table->what = fmt::format("table {} ({})", format, fs::path(path).filename().string());
  return table;
}

}  // namespace scalai::trace
