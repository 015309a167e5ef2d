#include "labs/validation/model/validation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>

#include "labs/validation/model/goals.h"
#include "labs/validation/model/hardware_rows.h"
#include "labs/validation/model/memory_rows.h"
#include "labs/validation/model/model_rows.h"
#include "labs/validation/model/pause_rows.h"
#include "labs/validation/model/step_rows.h"
#include "labs/validation/model/transfer_rows.h"
#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::step::validation {
namespace {

struct Kind {
  const char* name;
  bool percentages;
  std::vector<std::string> columns;
  std::function<RowResult(RowReader&, const Models&)> result;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table = {
      {"step", false, step_columns(), step_result},
      {"arithmetic", false, arithmetic_columns(), arithmetic_result},
      {"memory", false, memory_columns(), memory_result},
      {"ratio", true, memory_columns(), ratio_result},
      {"layer", false, layer_columns(), layer_result},
      {"collective", false, collective_columns(), [](RowReader& row, const Models&) { return collective_result(row); }},
      {"kernel", false, kernel_columns(), [](RowReader& row, const Models&) { return kernel_result(row); }},
      {"pause", false, pause_columns(), [](RowReader& row, const Models&) { return pause_result(row); }},
      {"transfer", false, transfer_columns(), transfer_result}};
  return table;
}

const Kind* find_kind(const std::string& name) {
  const auto found = std::find_if(kinds().begin(), kinds().end(), [&](const Kind& kind) { return name == kind.name; });
  return found == kinds().end() ? nullptr : &*found;
}

struct ReadTable {
  Diagnostics problems;
  PublishedTable table;
};

TableResult read_models(const PublishedTable& table, Models& models, Diagnostics& problems) {
  TableResult result{.table = table};
  check_columns(table, model_columns(), problems);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    RowReader row(table, i, problems);
    const ModelShape model = read_model(row);
    if (row.ok() && models.contains(model.name)) row.problem("model", fmt::format("model \"{}\" again", model.name));
    RowResult found = model_result(row, model);
    if (!row.ok()) continue;
    models[model.name] = model;
    if (!found.published_text.empty()) result.rows.push_back(std::move(found));
  }
  return result;
}

TableResult read_rows(const PublishedTable& table, const Models& models, Diagnostics& problems) {
  TableResult result{.table = table};
  const Kind* kind = find_kind(table.said("kind"));
  if (kind == nullptr) {
    if (!table.said("kind").empty()) {
      std::vector<std::string> names = {"models"};
      for (const Kind& known : kinds()) names.emplace_back(known.name);
      problems.error(table.header_at.at("kind"), fmt::format("unknown kind \"{}\"", table.said("kind")),
                     fmt::format("known: {}", fmt::join(names, ", ")));
    }
    return result;
  }
  result.percentages = kind->percentages;
  check_columns(table, kind->columns, problems);
  check_goals(table, problems);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    RowReader row(table, i, problems);
    result.rows.push_back(kind->result(row, models));
  }
  return result;
}

// Mean logarithm of a share over the fitted rows of a machine, so that it errs as often up as down.
struct Share {
  double log_sum = 0;
  int rows = 0;
  void add(double share) { log_sum += std::log(share), ++rows; }
  double value() const { return std::exp(log_sum / rows); }
};

void add_baselines(std::vector<TableResult>& tables) {
  std::map<std::string, Share> mfu, hfu;
  for (const TableResult& table : tables) {
    for (const RowResult& row : table.rows) {
      if (!row.fitted || row.published_s <= 0) continue;
      mfu[row.machine].add(row.model_peak_s / row.published_s);
      hfu[row.machine].add(row.hardware_peak_s / row.published_s);
    }
  }
  for (TableResult& table : tables) {
    for (RowResult& row : table.rows) {
      if (row.published_s <= 0 || !mfu.contains(row.machine)) continue;
      row.constant_mfu_error = row.model_peak_s / mfu[row.machine].value() / row.published_s - 1;
      row.constant_hfu_error = row.hardware_peak_s / hfu[row.machine].value() / row.published_s - 1;
    }
  }
}

void sum_up(TableResult& table) {
  std::vector<double> fitted, predicted, constant_mfu, constant_hfu, mfu, hfu, rank_published, rank_predicted;
  for (const RowResult& row : table.rows) {
    if (!row.problem.empty()) {
      ++table.missing;
      continue;
    }
    table.exact += row.exact ? 1 : 0;
    rank_published.push_back(row.rank_published);
    rank_predicted.push_back(row.rank_predicted);
    (row.fitted ? fitted : predicted).push_back(row.error);
    if (!row.fitted && row.published_s > 0) {
      mfu.push_back(row.model_peak_s / row.published_s);
      hfu.push_back(row.hardware_peak_s / row.published_s);
    }
    if (row.fitted || !row.constant_mfu_error) continue;
    constant_mfu.push_back(*row.constant_mfu_error);
    constant_hfu.push_back(*row.constant_hfu_error);
  }
  table.fitted = summarize(fitted);
  table.predicted = summarize(predicted);
  table.constant_mfu = summarize(constant_mfu);
  table.constant_hfu = summarize(constant_hfu);
  table.best_mfu = best_constant_mape(mfu);
  table.best_hfu = best_constant_mape(hfu);
  table.tau = kendall_tau(rank_published, rank_predicted);
  table.goals = goals_of(table);
}

std::string rendered(const std::vector<ReadTable>& read) {
  std::string text;
  for (const ReadTable& table : read) {
    if (!table.problems.empty()) text += (text.empty() ? "" : "\n") + table.problems.render();
  }
  return text;
}

}  // namespace

absl::StatusOr<std::vector<TableFile>> tables_in(const std::string& folder) {
  std::error_code error;
  std::set<std::string> paths;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".csv") paths.insert(entry->path().string());
  }
  if (error) return missing(fmt::format("{}: {}", folder, error.message()));
  if (paths.empty()) return missing(fmt::format("{}: no *.csv here; give the folder of the published tables", folder));
  std::vector<TableFile> files;
  for (const std::string& path : paths) {
    SCALAI_ASSIGN_OR_RETURN(std::string text, read_file(path));
    files.push_back({path, std::move(text)});
  }
  return files;
}

std::string table_name(const TableFile& file) { return std::filesystem::path(file.path).stem().string(); }

absl::StatusOr<std::vector<TableResult>> validate(const std::vector<TableFile>& files,
                                                  const std::vector<std::string>& only) {
  std::vector<ReadTable> read;
  for (const TableFile& file : files) {
    Diagnostics problems(file.path, file.text);
    PublishedTable table = read_table(table_name(file), file.text, problems);
    read.push_back({std::move(problems), std::move(table)});
  }

  Models models;
  std::vector<TableResult> results;
  for (const bool want_models : {true, false}) {
    for (ReadTable& table : read) {
      if ((table.table.said("kind") == "models") != want_models) continue;
      results.push_back(want_models ? read_models(table.table, models, table.problems)
                                    : read_rows(table.table, models, table.problems));
    }
  }
  if (std::string text = rendered(read); !text.empty()) return invalid(text);

  add_baselines(results);
  for (TableResult& table : results) sum_up(table);
  if (!only.empty()) {
    std::erase_if(results, [&](const TableResult& table) {
      return std::find(only.begin(), only.end(), table.table.name) == only.end();
    });
  }
  return results;
}

namespace {

// Rows of steps by what is given.
struct GivenRows {
  std::vector<double> errors;
  std::vector<RatioOfSource> ratios;
  void add(std::string_view source, double error) {
    errors.push_back(error);
    ratios.push_back({source, 1 / (1 + error)});
  }
};

struct GroupRows {
  std::vector<double> fit, held_out;
  GivenRows flags, named, guessed;
  int refused = 0;
};

GroupResult result_of(const std::string& name, const GroupRows& rows) {
  // From the largest prediction on: published / predicted.
  std::vector<double> held = rows.held_out;
  std::sort(held.begin(), held.end(), std::greater<>());
  const auto ratio = [&](double share) {
    return held.empty()
               ? 1
               : 1 / (1 + held[static_cast<size_t>(std::lround(share * static_cast<double>(held.size() - 1)))]);
  };
  return {.group = name,
          .fit = summarize(rows.fit),
          .held_out = summarize(rows.held_out),
          .low = ratio(0.05),
          .high = ratio(0.95),
          .flags = summarize(rows.flags.errors),
          .named = summarize(rows.named.errors),
          .guessed = summarize(rows.guessed.errors),
          .named_interval = interval_of(rows.named.ratios),
          .guessed_interval = interval_of(rows.guessed.ratios),
          .refused = rows.refused};
}

}  // namespace

std::vector<GroupResult> groups_of(const std::vector<TableResult>& tables) {
  std::map<std::string, std::string> sources;  // by table
  for (const TableResult& table : tables) sources[table.table.name] = table.table.source();
  std::map<std::string, GroupRows> groups;
  for (const TableResult& table : tables) {
    const std::string& source = sources[table.table.name];
    for (const RowResult& row : table.rows) {
      if (row.group.empty() || row.fitted || !row.problem.empty()) continue;
      GroupRows& group = groups[row.group];
      (row.held_out ? group.held_out : group.fit).push_back(row.error);
      if (!row.guessed_error && !row.named_error && row.refused.empty()) continue;
      const std::string& of = row.source.empty() ? source : row.source;
      group.flags.add(of, row.error);
      if (row.named_error) group.named.add(of, *row.named_error);
      if (row.guessed_error) group.guessed.add(of, *row.guessed_error);
      group.refused += row.refused.empty() ? 0 : 1;
    }
  }
  std::vector<GroupResult> results;
  for (const auto& [name, rows] : groups) results.push_back(result_of(name, rows));
  return results;
}

std::vector<std::string> not_modelled() {
  return {"broken or throttled GPUs beyond the usual spread of clocks",
          "collisions of flows in the fabric (ECMP) and other jobs on it",
          "kernels that slow down while a collective runs beside them",
          "data loading, checkpoints, evaluation, garbage collection",
          "power limits beyond the share of the peak that large products reach",
          "software versions: a table's rows are of one release, the constants of another"};
}

}  // namespace scalai::step::validation
