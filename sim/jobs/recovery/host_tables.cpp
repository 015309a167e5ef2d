#include "sim/jobs/recovery/host_tables.h"

#include <cctype>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ptc/base/status.h"
#include "ptc/run/scenario/trace/csv.h"

namespace scalai::jobs {
namespace {

using trace::Bounds;
using trace::Csv;
using trace::Problems;

constexpr trace::Bounds kHosts{0, 1e6};
constexpr trace::Bounds kRate{0, 1e12};
constexpr trace::Bounds kSeconds{0, 1e9};

absl::StatusOr<trace::Csv> open_table(const std::string& path, trace::Problems& problems) {
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, trace::Csv::open(path, problems));
  csv.read_header({});
  return csv;
}

absl::Status lacks(const std::string& path, const std::string& what, const std::set<std::string>& has) {
  if (has.empty()) return invalid(fmt::format("{}: the table has no rows", path));
  return invalid(fmt::format("{}: the table has no {}; it has {}", path, what, fmt::join(has, ", ")));
}

absl::Status wrong_columns(const std::string& path, const trace::Csv& csv, const std::string& expected) {
  return invalid(fmt::format("{}: columns {}; expected {}", path, fmt::join(csv.header(), ","), expected));
}

absl::Status end_of(const trace::Csv& csv, const trace::Problems& problems) {
  SCALAI_RETURN_IF_ERROR(csv.status());
  return problems.status();
}

std::string label(const TableKey& key) {
  if (!key.system.empty()) return fmt::format("model {} of {}", key.model, key.system);
  return fmt::format(
      "rows of this design (for throughputs set table-of=…, of the rows' systems; for costs name a table "
      "cost,seconds)");
}

bool is_row_of(const trace::Csv& csv, const TableKey& key, std::set<std::string>& seen) {
  const std::string system(csv.text("system"));
  const std::string model(csv.text("model"));
  seen.insert(fmt::format("{}/{}", system, model));
  return system == key.system && plain_model_name(model) == plain_model_name(key.model);
}

}  // namespace

std::string plain_model_name(const std::string& name) {
  std::string plain;
  for (const char c : name) {
    plain += c == '_' || c == '-' ? '.' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  constexpr std::string_view kSuffix = ".ours";
  if (plain.size() > kSuffix.size() && plain.ends_with(kSuffix)) plain.resize(plain.size() - kSuffix.size());
  return plain;
}

HostThroughput::HostThroughput(std::map<int, double> samples_per_s, HostsBeyond beyond)
    : rows_(std::move(samples_per_s)), beyond_(beyond) {
  SCALAI_CHECK(!rows_.empty());
}

double HostThroughput::operator()(int hosts) const {
  const auto above = rows_.upper_bound(hosts);
  if (above != rows_.begin()) return std::prev(above)->second;
  return beyond_ == HostsBeyond::kNearest ? above->second : 0;
}

absl::StatusOr<HostThroughput> read_host_throughput(const std::string& path, const TableKey& key, HostsBeyond beyond) {
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, open_table(path, problems));
  const bool keyed = csv.has("system") && csv.has("model");
  const std::string hosts_column = csv.has("active_nodes") ? "active_nodes" : "hosts";
  if (!csv.has(hosts_column) || !csv.has("samples_per_s")) {
    return wrong_columns(path, csv, "hosts,samples_per_s or system,model,active_nodes,samples_per_s");
  }
  std::map<int, double> rows;
  std::set<std::string> seen;
  while (csv.next()) {
    if (keyed && !is_row_of(csv, key, seen)) continue;
    const auto hosts = csv.count(hosts_column, kHosts);
    const auto rate = csv.number("samples_per_s", kRate);
    if (!hosts || !rate) continue;
    if (!rows.emplace(static_cast<int>(*hosts), *rate).second) {
      csv.problem(hosts_column, fmt::format("{} hosts were there before", *hosts));
    }
  }
  SCALAI_RETURN_IF_ERROR(end_of(csv, problems));
  if (rows.empty()) return lacks(path, keyed ? label(key) : "rows", seen);
  return HostThroughput(std::move(rows), beyond);
}

namespace {

// ours: cost,seconds
void read_named_cost(trace::Csv& csv, HostCosts& costs) {
  const std::pair<const char*, double*> known[] = {{"change", &costs.change_s},
                                                   {"fatal", &costs.fatal_s},
                                                   {"ready", &costs.ready_s},
                                                   {"detect", &costs.detect_s},
                                                   {"checkpoint", &costs.checkpoint_s}};
  const auto seconds = csv.number("seconds", kSeconds);
  for (const auto& [name, value] : known) {
    if (csv.text("cost") != name) continue;
    if (*value >= 0) csv.problem("cost", fmt::format("{} was there before", name));
    if (seconds) *value = *seconds;
    return;
  }
  csv.problem("cost", fmt::format("{} is no cost", trace::in_quotes(csv.text("cost"))),
              "change, fatal, ready, detect, checkpoint");
}

void read_optional(trace::Csv& csv, const std::string& column, double& value) {
  if (!csv.has(column) || csv.text(column).empty()) return;
  const auto number = csv.number(column, kSeconds);
  if (number) value = *number;
}

}  // namespace

absl::StatusOr<HostCosts> read_host_costs(const std::string& path, const TableKey& key) {
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, open_table(path, problems));
  HostCosts costs;
  const bool ours = csv.has("cost") && csv.has("seconds");
  if (!ours && !(csv.has("system") && csv.has("model") && csv.has("local_reconfig_s"))) {
    return wrong_columns(path, csv, "cost,seconds or system,model,samples_per_step,local_reconfig_s,…");
  }
  bool found = ours;
  std::set<std::string> seen;
  while (csv.next()) {
    if (ours) {
      read_named_cost(csv, costs);
      continue;
    }
    if (!is_row_of(csv, key, seen)) continue;
    found = true;
    read_optional(csv, "samples_per_step", costs.samples_per_step);
    read_optional(csv, "local_reconfig_s", costs.change_s);
    read_optional(csv, "checkpoint_s", costs.checkpoint_s);
    read_optional(csv, "checkpoint_every_iters", costs.checkpoint_every_steps);
    read_optional(csv, "global_rendezvous_s", costs.fatal_s);
  }
  SCALAI_RETURN_IF_ERROR(end_of(csv, problems));
  if (!found) return lacks(path, label(key), seen);
  return costs;
}

absl::StatusOr<std::map<PipelineLayout, double>> read_layouts(const std::string& path, const std::string& model) {
  trace::Problems problems;
  SCALAI_ASSIGN_OR_RETURN(trace::Csv csv, open_table(path, problems));
  for (const char* column : {"model", "dp", "pp", "samples_per_s"}) {
    if (!csv.has(column)) return wrong_columns(path, csv, "model,dp,pp,samples_per_s among others");
  }
  std::map<PipelineLayout, double> layouts;
  std::set<std::string> seen;
  while (csv.next()) {
    seen.insert(std::string(csv.text("model")));
    if (plain_model_name(std::string(csv.text("model"))) != plain_model_name(model)) continue;
    const auto dp = csv.count("dp", {1, 1e5});
    const auto pp = csv.count("pp", {1, 1e5});
    const auto rate = csv.number("samples_per_s", kRate);
    if (!dp || !pp || !rate) continue;
    const PipelineLayout layout{static_cast<int>(*dp), static_cast<int>(*pp)};
    if (!layouts.emplace(layout, *rate).second) {
      csv.problem("dp", fmt::format("layout {} x {} was there before", *dp, *pp));
    }
  }
  SCALAI_RETURN_IF_ERROR(end_of(csv, problems));
  if (layouts.empty()) return lacks(path, fmt::format("model {}", model), seen);
  return layouts;
}

}  // namespace scalai::jobs
