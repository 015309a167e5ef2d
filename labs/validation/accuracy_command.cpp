#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/common/output.h"
#include "labs/validation/commands.h"
#include "labs/validation/model/validation.h"
#include "nlohmann/json.hpp"
#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using step::validation::Goal;
using step::validation::RowResult;
using step::validation::Summary;
using step::validation::TableFile;
using step::validation::TableResult;
using Tables = std::vector<TableResult>;
using Json = nlohmann::ordered_json;

constexpr int kGoalMissed = 1;

// As many digits as were printed, and at least three.
std::string like(double value, const std::string& printed) {
  const size_t point = printed.find('.');
  const int decimals = point == std::string::npos ? 0 : static_cast<int>(printed.size() - point - 1);
  const int leading = value > 0 ? static_cast<int>(std::floor(std::log10(value))) + 1 : 1;
  return fmt::format("{:.{}f}", value, std::max(decimals, std::max(0, 3 - leading)));
}

std::string signed_error(double error, bool points) {
  return points ? fmt::format("{:+.2f}", error) : fmt::format("{:+.1f} %", 100 * error);
}

std::string size_of_error(double error, bool points) { return signed_error(std::abs(error), points).substr(1); }

std::string or_dash(const std::optional<double>& error, bool points) {
  return error ? signed_error(*error, points) : "-";
}

const char* mark_of(const RowResult& row, const std::string& kind) {
  if (!row.problem.empty()) return "none";
  if (kind == "models" || kind == "arithmetic") return row.exact ? "exact" : "differs";
  if (row.fitted) return "fitted";
  if (kind != "step" && kind != "transfer") return "predicted";
  return row.held_out ? "held out" : "fit";
}

bool has_baseline(const TableResult& table) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [](const RowResult& row) { return row.constant_mfu_error.has_value(); });
}

std::string rows_text(const TableResult& table) {
  const bool baseline = has_baseline(table);
  std::vector<std::string> headers = {"row", "published>", "ours>", "unit", "error>", "mark"};
  if (baseline) headers.insert(headers.end() - 1, {"constant MFU>", "constant HFU>"});
  headers.emplace_back("assumed~");
  Table text(headers);
  if (baseline) text.leave_out_first({"constant HFU", "constant MFU"});
  text.leave_out_first({"assumed"});
  for (const RowResult& row : table.rows) {
    const bool none = !row.problem.empty();
    std::vector<std::string> cells = {row.label, row.published_text,
                                      none ? "-" : like(row.predicted, row.published_text), row.unit,
                                      none ? "-" : signed_error(row.error, table.percentages)};
    if (baseline) {
      cells.push_back(or_dash(row.constant_mfu_error, false));
      cells.push_back(or_dash(row.constant_hfu_error, false));
    }
    cells.emplace_back(mark_of(row, table.table.said("kind")));
    cells.push_back(none ? row.problem : row.assumed);
    text.row(std::move(cells));
  }
  return text.text(stdout_screen());
}

std::string summary_line(const std::string& what, const Summary& summary, bool points) {
  if (summary.count == 0) return "";
  return fmt::format("{}: {}, mean error {}, largest {}, bias {}\n", what, counted(summary.count, "row"),
                     size_of_error(summary.mape, points), signed_error(summary.largest, points),
                     signed_error(summary.bias, points));
}

std::string goals_text(const std::vector<Goal>& goals) {
  std::string text;
  for (const Goal& goal : goals)
    text += fmt::format("{}{}: {} ({})", text.empty() ? "" : "; ", goal.text, goal.met ? "met" : "missed", goal.said);
  return text;
}

std::string table_text(const TableResult& table) {
  std::string text =
      fmt::format("{}: {}\nsource: {}\n", table.table.name, table.table.said("title"), table.table.said("source"));
  for (const char* key : {"assumed", "calibration"}) {
    if (const std::string said = table.table.said(key); !said.empty()) text += fmt::format("{}: {}\n", key, said);
  }
  text += "\n" + rows_text(table) + "\n";
  text += summary_line("predicted", table.predicted, table.percentages);
  text += summary_line("fitted", table.fitted, table.percentages);
  text += summary_line("constant MFU instead", table.constant_mfu, false);
  text += summary_line("constant HFU instead", table.constant_hfu, false);
  if (table.best_mfu && table.best_hfu) {
    text += fmt::format("best constant, knowing these rows: mean error {} at one MFU, {} at one HFU\n",
                        size_of_error(*table.best_mfu, false), size_of_error(*table.best_hfu, false));
  }
  if (table.tau) text += fmt::format("Kendall tau of the order: {:.2f}\n", *table.tau);
  if (!table.goals.empty()) text += "goals: " + goals_text(table.goals) + "\n";
  return text;
}

std::string overview(const Tables& tables) {
  Table text({"table", "fitted>", "predicted>", "mean error>", "largest>", "bias>", "tau>", "constant MFU>",
              "constant HFU>", "best HFU>", "goals~"});
  text.leave_out_first({"best HFU", "constant MFU", "constant HFU", "tau", "fitted", "largest", "goals"});
  for (const TableResult& table : tables) {
    const bool points = table.percentages;
    const bool any = table.predicted.count > 0, baseline = table.constant_mfu.count > 0;
    text.row({table.table.name, fmt::format("{}", table.fitted.count), fmt::format("{}", table.predicted.count),
              any ? size_of_error(table.predicted.mape, points) : "-",
              any ? signed_error(table.predicted.largest, points) : "-",
              any ? signed_error(table.predicted.bias, points) : "-",
              table.tau ? fmt::format("{:.2f}", *table.tau) : "-",
              baseline ? size_of_error(table.constant_mfu.mape, false) : "-",
              baseline ? size_of_error(table.constant_hfu.mape, false) : "-",
              table.best_hfu ? size_of_error(*table.best_hfu, false) : "-",
              table.goals.empty() ? "-" : goals_text(table.goals)});
  }
  return text.text(stdout_screen());
}

std::string groups_text(const Tables& tables) {
  Table text({"answers about", "rows to fit>", "mean error>", "bias>", "held out>", "mean error>", "largest>", "bias>",
              "nine in ten>"});
  text.leave_out_first({"largest", "bias", "rows to fit"});
  for (const auto& group : step::validation::groups_of(tables)) {
    const Summary &fit = group.fit, &held = group.held_out;
    text.row({group.group, fmt::format("{}", fit.count), size_of_error(fit.mape, false), signed_error(fit.bias, false),
              fmt::format("{}", held.count), size_of_error(held.mape, false), signed_error(held.largest, false),
              signed_error(held.bias, false),
              held.count == 0 ? "-" : fmt::format("{:.2f} to {:.2f}", group.low, group.high)});
  }
  return text.text(stdout_screen());
}

// Steps with what the recipe says, and with presets alone.
std::string presets_text(const Tables& tables) {
  Table text({"steps of", "with flags>", "mean error>", "bias>", "software named>", "mean error>", "bias>",
              "nine in ten>", "guessed>", "mean error>", "bias>", "nine in ten>", "refused>"});
  for (const auto& group : step::validation::groups_of(tables)) {
    if (group.flags.count == 0) continue;
    std::vector<std::string> cells = {group.group};
    const auto add = [&](const Summary& one, const step::validation::RatioInterval* interval) {
      cells.push_back(fmt::format("{}", one.count));
      cells.push_back(one.count == 0 ? "-" : size_of_error(one.mape, false));
      cells.push_back(one.count == 0 ? "-" : signed_error(one.bias, false));
      if (interval != nullptr)
        cells.push_back(one.count == 0 ? "-" : fmt::format("{:.2f} to {:.2f}", interval->low, interval->high));
    };
    add(group.flags, nullptr);
    add(group.named, &group.named_interval);
    add(group.guessed, &group.guessed_interval);
    cells.push_back(fmt::format("{}", group.refused));
    text.row(std::move(cells));
  }
  return text.text(stdout_screen());
}

std::string fitted_text(const Tables& tables) {
  std::string text;
  for (const TableResult& table : tables) {
    for (const RowResult& row : table.rows) {
      if (row.fitted) text += fmt::format("  {}: {}, {}\n", row.machine, table.table.name, row.label);
    }
  }
  return text.empty() ? "No row of these tables was fitted.\n" : "Rows that constants were fitted on:\n" + text;
}

void print_tables(const Tables& tables, bool rows) {
  for (const TableResult& table : tables) {
    if (rows || tables.size() == 1) print("{}\n", table_text(table));
  }
  print(
      "{}\n{}\n{}\n{}\nA step is held out if the hash of its table and name is even, a transfer if that of its source "
      "is, a\n"
      "pause if nothing was fitted on it.\n"
      "Nine in ten: published time over predicted time of the held-out steps; without flags of all, for a further "
      "source.\n"
      "With flags: as the recipe has them. Software named, guessed: layout, micro-batch, batch, sequence and "
      "precision\n"
      "are given, all else is of the program that trained, or of what such GPUs run today (scalai parallelize "
      "--software);\n"
      "transfers, guessed: costs of our own executor (strategy reshard).\n"
      "Error: of the step's time where it is a step, else of the value; points where the values are\n"
      "percentages. Mean error, largest and bias are of predicted rows. Constant MFU, constant HFU: mean error of\n"
      "taking the mean utilisation of the fitted rows, without and with what is computed again; best HFU: of the one "
      "that\n"
      "would be best for the table, chosen with its rows known.\n\nNot modelled:\n",
      overview(tables), groups_text(tables), presets_text(tables), fitted_text(tables));
  for (const std::string& what : step::validation::not_modelled()) print("  {}\n", what);
}

std::string number(double value) { return fmt::format("{:.6g}", value); }

std::string share(const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : ""; }

void print_csv(const Tables& tables) {
  Table text({"table", "row", "published", "predicted", "unit", "error", "error_unit", "mark", "constant_mfu_error",
              "constant_hfu_error", "assumed", "problem"});
  for (const TableResult& table : tables) {
    for (const RowResult& row : table.rows) {
      const bool none = !row.problem.empty();
      text.row({table.table.name, row.label, row.published_text, none ? "" : number(row.predicted), row.unit,
                none ? "" : share(row.error), table.percentages ? "points" : "share",
                mark_of(row, table.table.said("kind")), share(row.constant_mfu_error), share(row.constant_hfu_error),
                row.assumed, row.problem});
    }
  }
  print(text.csv());
}

Json summary_json(const Summary& summary) {
  return {{"rows", summary.count}, {"mape", summary.mape}, {"largest", summary.largest}, {"bias", summary.bias}};
}

Json row_json(const RowResult& row, const std::string& kind) {
  Json json = {{"row", row.label},
               {"unit", row.unit},
               {"published", row.published},
               {"printed", row.published_text},
               {"mark", mark_of(row, kind)}};
  if (row.problem.empty()) {
    json["predicted"] = row.predicted;
    json["error"] = row.error;
    json["exact"] = row.exact;
  } else {
    json["problem"] = row.problem;
  }
  if (!row.assumed.empty()) json["assumed"] = row.assumed;
  if (!row.group.empty()) json["group"] = row.group;
  if (row.named_error) json["software_named_error"] = *row.named_error;
  if (row.guessed_error) json["software_guessed_error"] = *row.guessed_error;
  if (!row.refused.empty()) json["refused"] = row.refused;
  if (row.constant_mfu_error) json["constant_mfu_error"] = *row.constant_mfu_error;
  if (row.constant_hfu_error) json["constant_hfu_error"] = *row.constant_hfu_error;
  return json;
}

void print_json(const Tables& tables) {
  Json all = Json::array();
  for (const TableResult& table : tables) {
    Json json = {{"table", table.table.name},
                 {"title", table.table.said("title")},
                 {"source", table.table.said("source")},
                 {"assumed", table.table.said("assumed")},
                 {"error_unit", table.percentages ? "points" : "share"}};
    for (const RowResult& row : table.rows) json["rows"].push_back(row_json(row, table.table.said("kind")));
    json["predicted"] = summary_json(table.predicted);
    json["fitted"] = summary_json(table.fitted);
    json["constant_mfu"] = summary_json(table.constant_mfu);
    json["constant_hfu"] = summary_json(table.constant_hfu);
    json["best_constant_mfu_mape"] = table.best_mfu ? Json(*table.best_mfu) : Json(nullptr);
    json["best_constant_hfu_mape"] = table.best_hfu ? Json(*table.best_hfu) : Json(nullptr);
    json["kendall_tau"] = table.tau ? Json(*table.tau) : Json(nullptr);
    json["goals"] = Json::array();
    for (const Goal& goal : table.goals)
      json["goals"].push_back({{"goal", goal.text}, {"found", goal.said}, {"met", goal.met}});
    all.push_back(std::move(json));
  }
  Json groups = Json::array();
  const auto with_interval = [](const Summary& summary, const step::validation::RatioInterval& interval) {
    Json json = summary_json(summary);
    json["published_over_predicted"] = {interval.low, interval.high};
    return json;
  };
  for (const auto& group : step::validation::groups_of(tables)) {
    groups.push_back({{"group", group.group},
                      {"fit", summary_json(group.fit)},
                      {"held_out", summary_json(group.held_out)},
                      {"published_over_predicted", {group.low, group.high}}});
    if (group.flags.count == 0) continue;
    groups.back()["with_flags"] = summary_json(group.flags);
    groups.back()["software_named"] = with_interval(group.named, group.named_interval);
    groups.back()["software_guessed"] = with_interval(group.guessed, group.guessed_interval);
    groups.back()["refused"] = group.refused;
  }
  print("{}\n", json_text(Json{{"groups", std::move(groups)},
                               {"tables", std::move(all)},
                               {"not_modelled", step::validation::not_modelled()}},
                          {.indent = 2}));
}

// What is wrong with the names of tables, "" when nothing is.
std::string unknown_tables(const std::vector<TableFile>& files, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const TableFile& file : files) known.push_back(step::validation::table_name(file));
  std::string problems;
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = closest(name, known);
    problems += fmt::format(
        "{}no table \"{}\"; {}", problems.empty() ? "" : "\n", name,
        near.empty() ? fmt::format("there are {}", fmt::join(known, ", ")) : fmt::format("did you mean \"{}\"?", near));
  }
  return problems;
}

int say_accuracy(const Arguments& arguments) {
  absl::StatusOr<std::vector<TableFile>> files = step::validation::built_in_tables();
  if (arguments.has("published")) files = step::validation::tables_in(arguments.text("published"));
  if (!files.ok()) return report_error(files.status());
  std::vector<std::string> names = arguments.list("table");
  const bool rows = names == std::vector<std::string>{"all"};
  if (rows) names.clear();
  const std::string unknown = unknown_tables(*files, names);
  if (!unknown.empty()) return report_error(invalid(unknown));
  const auto tables = step::validation::validate(*files, names);
  if (!tables.ok()) return report_error(tables.status());
  const std::string format = arguments.text("format");
  if (format == "json") {
    print_json(*tables);
  } else if (format == "csv") {
    print_csv(*tables);
  } else {
    print_tables(*tables, rows);
  }
  const bool missed = std::any_of(tables->begin(), tables->end(), [](const TableResult& table) {
    return std::any_of(table.goals.begin(), table.goals.end(), [](const Goal& goal) { return !goal.met; });
  });
  return missed && arguments.flag("require-goals") ? kGoalMissed : 0;
}

}  // namespace

Command accuracy_command(const std::string& name) {
  return {
      {.name = name,
       .summary = "how far each kind of answer may be trusted: published numbers beside ours",
       .usage = name == "accuracy" ? "scalai accuracy [model | policies] [OPTION…]" : "scalai accuracy model [OPTION…]",
       .description =
           R"(Prices every row of the published tables (step times, memory, parameter counts, collectives, restarts) with the
models that `parallelize` and the simulator use, and prints error, bias and order for each table beside
what a constant utilisation would give. Rows that constants were fitted on are marked and kept apart.
What a publication leaves open is searched; the column "assumed" says what was taken.)",
       .options =
           {list_option("table", "NAME,…", "Tables to print with all their rows, or all (an overview if not given)."),
            formerly(text_option("published", "FOLDER", "Folder of *.csv tables to use instead of the built-in ones."),
                     {"data"}),
            formerly(flag_option("require-goals", "Exit with 1 when a goal is missed."), {"check"}), format_option()},
       .examples = {"scalai accuracy", "scalai accuracy --table=ptdp_table1",
                    "scalai accuracy --table=all --require-goals",
                    "scalai accuracy --published=results/perfmodel/published --format=csv"},
       .verbs =
           name == "accuracy"
               ? std::vector<Verb>{{"model", "The same page: models of steps, memory, communication and restarts."},
                                   {"policies", "Schedulers and recovery designs: scalai accuracy policies --help."}}
               : std::vector<Verb>{}},
      say_accuracy};
}

}  // namespace scalai::apps
