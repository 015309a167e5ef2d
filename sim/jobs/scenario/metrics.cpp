// Metrics of the user: which table each is of, and its rows.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/report/entities.h"
#include "ptc/report/jobs_report.h"
#include "ptc/report/jobs_trace.h"
#include "ptc/run/scenario/trace/csv.h"
#include "sim/jobs/scenario/internal/build_parts.h"

namespace scalai::scenario::internal {
namespace {

// Names are keys of summary.json and columns of tables.
bool is_metric_name(const std::string& name) {
  return !name.empty() && name[0] >= 'a' && name[0] <= 'z' && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }
bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The last word of the text, which is cut off, with the space around it.
std::string cut_word(std::string_view* text) {
  const auto cut = [text](auto&& of) {
    size_t size = text->size();
    while (size > 0 && of((*text)[size - 1])) --size;
    const std::string tail(text->substr(size));
    text->remove_suffix(tail.size());
    return tail;
  };
  cut(is_space);
  std::string word = cut(is_of_word);
  if (cut(is_space).empty()) return "";  // part of an expression
  return word;
}

// Up to " FROM NAME" at its end, and NAME; "jobs" without one.
UserMetric metric_of(std::string name, const std::string& text) {
  std::string_view rest = text;
  std::string table = cut_word(&rest), from = cut_word(&rest);
  std::transform(from.begin(), from.end(), from.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  if (from != "from" || table.empty()) return {std::move(name), text};
  return {std::move(name), std::string(rest), std::move(table)};
}

absl::Status check(const ManyJobs& many, const UserMetric& metric) {
  const std::vector<std::string> tables = metric_tables();
  if (std::find(tables.begin(), tables.end(), metric.table) == tables.end()) {
    return invalid(fmt::format("there is no table \"{}\"\nhint: there are {}", metric.table, fmt::join(tables, ", ")));
  }
  return report::check_expression(metric_table_of(many, metric.table), metric.expression);
}

}  // namespace

void build_metrics(PartsContext& context) {
  Source& source = context.source;
  const auto& set = context.message.metrics().set();
  const std::vector<std::string> known = report::metric_names();
  for (int i = 0; i < set.size(); ++i) {
    const std::string path = fmt::format("metrics.set[{}]", i);
    const size_t equals = set.Get(i).find('=');
    const std::string name = set.Get(i).substr(0, equals);
    const auto same = [&](const UserMetric& metric) { return metric.name == name; };
    if (equals == std::string::npos || !is_metric_name(name)) {
      source.error(path, fmt::format("\"{}\" defines no metric", set.Get(i)),
                   "write it like \"p99_slowdown=percentile(jct_s / isolated_s, 99)\": small letters, digits and _");
    } else if (std::find(known.begin(), known.end(), name) != known.end()) {
      source.error(path, fmt::format("\"{}\" is a metric that runs have anyway", name), "give yours another name");
    } else if (std::any_of(context.parts.metrics.begin(), context.parts.metrics.end(), same)) {
      source.error(path, fmt::format("\"{}\" is defined twice", name));
    } else {
      const UserMetric metric = metric_of(name, set.Get(i).substr(equals + 1));
      const absl::Status good = check(context.many, metric);
      if (!good.ok()) report_lines(source, path, fmt::format("\"{}\": {}", name, message_of(good)));
      context.parts.metrics.push_back(metric);
    }
  }
}

}  // namespace scalai::scenario::internal

namespace scalai::scenario {
namespace {

using Fields = std::vector<std::string>;

Fields fields_of(std::string_view line) {
  Fields fields;
  SCALAI_CHECK(trace::split_fields(line, ',', fields));  // a report's own
  return fields;
}

// The file of a run without jobs: its header.
std::string file_without_rows(const ManyJobs& many, const std::string& name) {
  if (name == "placements") {
    return report::JobsTrace(many.workload, many.fleet, many.availability).placements_csv();
  }
  if (name == "hosts") return report::hosts_csv({}, {}, 0);
  if (name == "entities") return report::entities_csv({});
  if (name == "costs") return report::costs_csv({}, {}, {}, {});
  SCALAI_CHECK(name == "utilization");
  return report::utilization_csv({});
}

}  // namespace

std::vector<std::string> more_columns(const ManyJobs& many) {
  std::vector<std::string> columns;
  if (many.window) columns.emplace_back("in_window");
  if (!many.estimates.none()) columns.emplace_back("estimate");
  return columns;
}

std::vector<std::string> metric_tables() { return {"jobs", "utilization", "placements", "hosts", "entities", "costs"}; }

report::QueryTable metric_table_of(const ManyJobs& many, const std::string& name) {
  report::QueryTable table{.name = name, .columns = {}, .text_columns = {}, .rows = {}};
  if (name == "jobs") {
    table.columns = report::job_columns(more_columns(many));
  } else {
    const std::string header = file_without_rows(many, name);
    table.columns = fields_of(header.substr(0, header.find('\n')));
  }
  for (const char* text :
       {"job", "type", "entity", "end", "host", "hosts", "what", "devices", "slices", "reason", "kind", "name"}) {
    if (std::find(table.columns.begin(), table.columns.end(), text) != table.columns.end())
      table.text_columns.push_back(text);
  }
  return table;
}

void add_rows(std::string_view csv, report::QueryTable* table) {
  for (size_t begin = csv.find('\n') + 1; begin < csv.size();) {
    const size_t end = csv.find('\n', begin);
    table->rows.push_back(fields_of(csv.substr(begin, end - begin)));
    begin = end + 1;
  }
}

}  // namespace scalai::scenario
