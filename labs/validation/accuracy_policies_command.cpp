#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "apps/common/output.h"
#include "labs/validation/commands.h"
#include "labs/validation/policies/validation.h"
#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using policy::validation::ReferenceRow;
using policy::validation::ReferenceSet;
using Json = nlohmann::ordered_json;

constexpr int kOutOfTolerance = 1;

struct SetResult {
  ReferenceSet set;
  std::vector<ReferenceRow> rows;
  std::string missing;  // what public data is not there
};

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.{}f}", value, std::abs(value) >= 100 ? 1 : std::abs(value) >= 10 ? 3 : 6);
}

std::string signed_percent(double share) {
  if (std::isinf(share)) return "infinite";
  if (share != 0 && std::abs(share) < 5e-5) return fmt::format("{:+.1e}", share);
  return fmt::format("{:+.2f} %", 100 * share);
}

std::string tolerance(double share) {
  if (share == 0) return "exact";
  return share < 1e-3 ? fmt::format("{:g}", share) : fmt::format("{:g} %", 100 * share);
}

// Known and explained, which fails nobody's run; or not.
bool is_out(const ReferenceRow& row) {
  return !policy::validation::within_tolerance(row) && row.not_reproduced.empty();
}
const char* verdict(const ReferenceRow& row) {
  return policy::validation::within_tolerance(row) ? "ok" : is_out(row) ? "OUT" : "NOT REPRODUCED";
}
std::string note_of(const ReferenceRow& row) {
  if (policy::validation::within_tolerance(row) || row.not_reproduced.empty()) return row.note;
  return row.note.empty() ? row.not_reproduced : row.note + "; " + row.not_reproduced;
}

// Rows of a kind apart: agreeing with another program says nothing of a cluster.
void print_summary(const std::vector<SetResult>& results) {
  using policy::validation::Reproduces;
  int64_t missing = 0;
  std::vector<ReferenceRow> all;
  Table text({"rows that reproduce", "rows>", "ok>", "not reproduced>", "out of tolerance>"});
  for (const auto& [kind, what] :
       {std::pair(Reproduces::kArithmetic, "arithmetic, another program with the same rules"),
        std::pair(Reproduces::kSimulator, "a published simulator"),
        std::pair(Reproduces::kCluster, "a published cluster")}) {
    int64_t rows = 0, ok = 0, out = 0;
    for (const SetResult& result : results) {
      if (result.set.reproduces != kind) continue;
      missing += result.missing.empty() ? 0 : 1;
      for (const ReferenceRow& row : result.rows) {
        ++rows;
        ok += policy::validation::within_tolerance(row) ? 1 : 0;
        out += is_out(row) ? 1 : 0;
        all.push_back(row);
      }
    }
    text.row({what, std::to_string(rows), std::to_string(ok), std::to_string(rows - ok - out), std::to_string(out)});
  }
  print("{}", text.text(stdout_screen()));
  const auto out = std::count_if(all.begin(), all.end(), is_out);
  print("{}, {} out of tolerance; {} of {} not run for want of data\n", counted(std::ssize(all), "row"), out, missing,
        counted(std::ssize(results), "set"));
  if (missing == 0 && results.size() == policy::validation::reference_sets().size())
    print("policies and designs that no row is of: {}\n",
          fmt::format("{}", fmt::join(policy::validation::policies_without(all), ", ")));
}

void print_table(const std::vector<SetResult>& results) {
  for (const SetResult& result : results) {
    print("{}: {}\nsource: {}\n", result.set.name, result.set.summary, result.set.source);
    if (!result.missing.empty()) {
      print("not run: {}\n\n", result.missing);
      continue;
    }
    Table text({"row", "unit", "reference>", "ours>", "error>", "tolerance>", "verdict", "note~"});
    text.leave_out_first({"tolerance", "unit", "note"});
    for (const ReferenceRow& row : result.rows) {
      text.row({row.name, row.unit, number_text(row.reference), number_text(row.ours),
                signed_percent(policy::validation::error_of(row)), tolerance(row.tolerance), verdict(row),
                note_of(row)});
    }
    print("{}\n", text.text(stdout_screen()));
  }
  print_summary(results);
}

void print_csv(const std::vector<SetResult>& results) {
  Table text(
      {"set", "reproduces", "policy", "row", "unit", "reference", "ours", "error", "tolerance", "verdict", "note"});
  for (const SetResult& result : results) {
    const std::string kind(name_of(result.set.reproduces));
    if (!result.missing.empty())
      text.row({result.set.name, kind, "", "", "", "", "", "", "", "missing", result.missing});
    for (const ReferenceRow& row : result.rows) {
      text.row({row.set, kind, row.policy, row.name, row.unit, fmt::format("{:.10g}", row.reference),
                fmt::format("{:.10g}", row.ours), fmt::format("{:.3g}", policy::validation::error_of(row)),
                fmt::format("{:g}", row.tolerance), verdict(row), note_of(row)});
    }
  }
  print(text.csv());
}

void print_json(const std::vector<SetResult>& results) {
  Json all = Json::array();
  for (const SetResult& result : results) {
    Json json = {{"set", result.set.name},
                 {"summary", result.set.summary},
                 {"source", result.set.source},
                 {"reproduces", name_of(result.set.reproduces)}};
    if (!result.missing.empty()) json["missing"] = result.missing;
    json["rows"] = Json::array();
    for (const ReferenceRow& row : result.rows) {
      const double error = policy::validation::error_of(row);
      json["rows"].push_back({{"row", row.name},
                              {"policy", row.policy},
                              {"unit", row.unit},
                              {"reference", row.reference},
                              {"ours", row.ours},
                              {"error", std::isinf(error) ? Json(nullptr) : Json(error)},
                              {"tolerance", row.tolerance},
                              {"ok", policy::validation::within_tolerance(row)},
                              {"verdict", verdict(row)},
                              {"note", note_of(row)}});
    }
    all.push_back(std::move(json));
  }
  print("{}\n", json_text(Json{{"sets", std::move(all)}}, {.indent = 2}));
}

std::string how_to_get(const std::string& data) {
  return data.empty() ? "give --data=FOLDER or set SCALAI_DATA to the folder that holds gavel/, pollux/, …"
                      : "put it there, or give another folder with --data";
}

absl::StatusOr<SetResult> run_set(const ReferenceSet& set, const std::string& data) {
  SetResult result{set, {}, ""};
  absl::StatusOr<std::vector<ReferenceRow>> rows = set.run(data);
  if (rows.ok()) {
    result.rows = *std::move(rows);
  } else if (rows.status().code() == absl::StatusCode::kNotFound) {
    result.missing = fmt::format("{}; {}", message_of(rows.status()), how_to_get(data));
  } else {
    return absl::Status(rows.status().code(), fmt::format("{}: {}", set.name, message_of(rows.status())));
  }
  return result;
}

int say_policies(const Arguments& arguments) {
  const absl::StatusOr<std::vector<ReferenceSet>> sets = policy::validation::sets_named(arguments.list("set"));
  if (!sets.ok()) return usage_error("accuracy policies", message_of(sets.status()));
  const std::string data = policy::validation::data_folder(arguments.has("data") ? arguments.text("data") : "");
  std::vector<SetResult> results;
  {
    Progress progress("running sets");
    for (const ReferenceSet& set : *sets) {
      progress.update(static_cast<double>(results.size()) / static_cast<double>(sets->size()), set.name);
      absl::StatusOr<SetResult> result = run_set(set, data);
      if (!result.ok()) return report_error(result.status());
      results.push_back(*std::move(result));
    }
  }
  const std::string format = arguments.text("format");
  if (format == "json") {
    print_json(results);
  } else if (format == "csv") {
    print_csv(results);
  } else {
    print_table(results);
  }
  bool out = false, any = false;
  for (const SetResult& result : results) {
    any = any || result.missing.empty();
    out = out || std::any_of(result.rows.begin(), result.rows.end(), is_out);
  }
  if (out) return kOutOfTolerance;
  if (any) return 0;
  return report_error(missing("no reference set has the public data it needs; " + how_to_get(data)));
}

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const ReferenceSet& set : policy::validation::reference_sets()) names.push_back(set.name);
  return names;
}

}  // namespace

Command accuracy_policies_command() {
  return {{.name = "accuracy policies",
           .summary = "run scheduler policies and recovery designs on public traces, next to the published numbers",
           .usage = "scalai accuracy policies [OPTION…]",
           .description =
               R"(Reproduces numbers of published simulators of many jobs: scheduler policies (Gavel, Pollux, POP, order
policies on Philly), recovery designs on spot instances (Varuna, Bamboo, Oobleck, Parcae), and failures
at scale (Llama 3). Every row has the reference, our number, the relative error and the tolerance; the
exit code is 1 when a row is out of tolerance. Rows that are known not to be reproduced say why, and are
counted apart; so are rows of arithmetic, of published simulators and of clusters. The traces are public and not part of this program: sets
whose data is not there are named with where it comes from, and left out.)",
           .options = {text_option("data", "FOLDER",
                                   "Folder of public data (default: the environment variable SCALAI_DATA)."),
                       list_option("set", "NAME,…",
                                   fmt::format("Sets to run: {} (default: all).", fmt::join(set_names(), ", "))),
                       format_option()},
           .examples = {"scalai accuracy policies", "scalai accuracy policies --set=G7,G9,G12",
                        "scalai accuracy policies --data=/data/traces --format=csv > references.csv"}},
          say_policies};
}

}  // namespace scalai::apps
