#include "sim/jobs/scenario/scenario_sched.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/proto/textproto.h"
#include "ptc/report/report.h"
#include "ptc/run/scenario/scenario_set.h"
#include "sim/jobs/scenario/internal/sched_parts.h"

namespace scalai::scenario {
namespace internal {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{1} << 20;

void build_head(SchedContext& context) {
  Source& source = context.source;
  const proto::Scenario& message = context.message;
  ClusterScenario& scenario = context.scenario;
  if (message.schema_version() != 0 && message.schema_version() != 1) {
    source.error("schema_version", fmt::format("schema version {} is not known here", message.schema_version()),
                 "this program reads version 1");
  }
  if (source.is_name("name", message.name())) scenario.name = message.name();
  scenario.description = message.description();
  scenario.seed = message.seed();
  if (source.given("until")) {
    const auto until_s = source.seconds("until", message.until());
    if (until_s == 0.0) source.error("until", "the scenario ends before anything can happen");
    if (until_s) scenario.options.until_s = *until_s;
  }
  const auto only_control = [&](const std::string& field) {
    if (!source.given(field)) return;
    const std::string who = message.has_recovery() ? "recovery" : "workload";
    source.error(field, fmt::format("\"{}\" has no meaning with \"{}\"", field, who), "leave it out",
                 {{who, "this makes it a scenario of many jobs"}});
  };
  for (const char* field : {"events", "planner", "scale_model", "strategy"}) only_control(field);
  if (message.has_workload()) only_control("jobs");
  if (message.has_workload() && message.has_recovery()) {
    source.error("recovery", "\"workload\" and \"recovery\" exclude each other", "",
                 {{"workload", "the workload is here"}});
  }
}

absl::Status build_cluster_of(SchedContext& context, const std::string& replacement) {
  Source& source = context.source;
  const bool inlined = source.given("cluster"), named = source.given("cluster_file");
  if (inlined && named) {
    source.error("cluster_file", "\"cluster\" and \"cluster_file\" exclude each other", "",
                 {{"cluster", "the cluster is described here"}});
  }
  std::optional<cluster::Cluster> cluster;
  if (!replacement.empty()) {
    SCALAI_ASSIGN_OR_RETURN(cluster, load_cluster(replacement));
  } else if (inlined) {
    cluster = build_cluster(context.message.cluster(), "cluster.", source);
  } else if (!named) {
    source.missing("cluster", "describe one, or name a file with cluster_file");
  } else if (!source.broken("cluster_file")) {
    auto read = load_cluster(beside(context.file_name, context.message.cluster_file()));
    if (read.ok())
      cluster = *std::move(read);
    else
      report_lines(source, "cluster_file", message_of(read.status()), "", {});
  }
  if (!cluster) return absl::OkStatus();
  context.scenario.cluster = *std::move(cluster);
  build_fleet(context);
  return absl::OkStatus();
}

// Costs and expectations as in any scenario: the same checks, on a scenario without jobs.
void build_common_options(SchedContext& context) {
  const FileReader read = [](const std::string& name) { return read_file(name, kMaxFileBytes); };
  Context common{.message = context.message, .source = context.source, .read = read, .file_name = context.file_name};
  Scenario scenario;
  build_options(common, scenario);
  context.scenario.costs = std::move(scenario.costs);
  context.scenario.expectations = std::move(scenario.expectations);
}

// The message with the cluster written out, which may lie in another file, and a line for every file that was read.
void write_resolved(SchedContext& context) {
  ClusterScenario& scenario = context.scenario;
  proto::Scenario message = context.message;
  Scenario shell;
  shell.name = scenario.name;
  shell.cluster = scenario.cluster;
  proto::Scenario with_cluster;
  proto::Source source("", "");
  source.parse(resolved_text_of(shell, proto::Scenario()), with_cluster);
  *message.mutable_cluster() = with_cluster.cluster();
  message.clear_cluster_file();
  message.clear_folder();
  if (scenario.estimates.none()) message.clear_estimates();  // as without any
  message.set_schema_version(1);
  if (message.policy().name().empty() && message.policy().exec().empty() && message.has_workload()) {
    message.mutable_policy()->set_name(scenario.policy.name);
  }
  if (!scenario.files.empty() || !scenario.policy.exec.empty()) scenario.folder = folder_of(context.file_name);
  std::string text;
  for (const auto& [name, checksum] : scenario.files) text += fmt::format("# {}: {}\n", name, checksum);
  scenario.resolved_text = text + proto::print_textproto(message);
  scenario.digest = digest_of(scenario.resolved_text);
}

absl::Status build(SchedContext& context, const ClusterLoadOptions& options) {
  if (!context.source.broken("")) {
    build_head(context);
    SCALAI_RETURN_IF_ERROR(build_cluster_of(context, options.cluster_file));
    if (context.message.has_workload()) build_workload(context);
    build_window(context);
    build_availability(context);
    if (!context.message.has_recovery()) build_prices(context);
    build_common_options(context);
    if (context.message.has_recovery()) {
      build_recovery(context);
    } else {
      build_throughputs(context);
      build_policy(context);
      build_estimates(context);
      build_virtual_clusters(context);
      build_metrics(context);
      build_changes(context);
      build_slices(context);
    }
  }
  const std::string problems = context.source.render();
  if (problems.empty()) return absl::OkStatus();
  return context.files_missing == context.source.errors() ? missing(problems) : invalid(problems);
}

}  // namespace

void build_fleet(SchedContext& context) {
  ClusterScenario& scenario = context.scenario;
  std::map<std::string, int> type_of;
  for (size_t h = 0; h < scenario.cluster.hosts.size(); ++h) {
    const cluster::Host& host = scenario.cluster.hosts[h];
    const double price = host.price_per_hour / host.gpus;
    const auto [at, fresh] = type_of.emplace(host.gpu.name, static_cast<int>(scenario.fleet.types.size()));
    if (fresh) {
      scenario.fleet.types.push_back({host.gpu.name, price});
    } else if (scenario.fleet.types[static_cast<size_t>(at->second)].price_per_gpu_hour != price) {
      context.source.error(
          context.source.given("cluster") ? "cluster" : "cluster_file",
          fmt::format("GPUs of kind \"{}\" have two prices ({} and {} USD an hour)", host.gpu.name,
                      scenario.fleet.types[static_cast<size_t>(at->second)].price_per_gpu_hour, price),
          fmt::format("call some of them by another name: gpu_kinds {{ name: \"{}-spot\" }}", host.gpu.name));
      return;
    }
    scenario.fleet.hosts.push_back({policy::GpuType(at->second), host.gpus});
  }
  context.cluster_ok = true;
}

void report_list(Source& source, const std::string& path, const std::string& text, const std::string& hint) {
  constexpr std::string_view kHint = "hint: ";
  std::vector<std::pair<std::string, std::string>> problems;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    const size_t digits = line.find_first_not_of("0123456789");
    const bool count = digits != 0 && digits != std::string::npos && line.substr(digits).starts_with(" problem");
    if (line.empty() || count) continue;
    if (line.starts_with(kHint) && !problems.empty()) {
      problems.back().second = line.substr(kHint.size());
    } else {
      problems.emplace_back(line, hint);
    }
  }
  for (const auto& [message, advice] : problems) source.error(path, message, advice);
}

SetValues::SetValues(Source& source, const std::string& path, const std::vector<std::string>& set,
                     const std::vector<std::string>& known)
    : source_(source), path_(path) {
  const auto is_known = [&](const std::string& name) {
    return std::any_of(known.begin(), known.end(), [&](const std::string& one) {
      return one.ends_with('.') ? name.starts_with(one) && name.size() > one.size() : name == one;
    });
  };
  for (size_t i = 0; i < set.size(); ++i) {
    const std::string place = fmt::format("{}.set[{}]", path, i);
    const size_t equals = set[i].find('=');
    const std::string name = set[i].substr(0, equals);
    if (equals == std::string::npos || equals == 0) {
      source.error(place, fmt::format("\"{}\" sets nothing", set[i]), "write it like \"name=value\"");
    } else if (!is_known(name)) {
      source.error_unknown(place, "option", name, known);
    } else if (const auto [at, fresh] = at_.emplace(name, std::pair(set[i].substr(equals + 1), static_cast<int>(i)));
               !fresh) {
      source.error(place, fmt::format("\"{}\" is set twice", name), "",
                   {{fmt::format("{}.set[{}]", path, at->second.second), "the first is here"}});
    }
  }
}

std::string SetValues::text(const std::string& name, const std::string& otherwise) const {
  const auto found = at_.find(name);
  return found == at_.end() ? otherwise : found->second.first;
}

std::string SetValues::path(const std::string& name) const {
  return fmt::format("{}.set[{}]", path_, at_.at(name).second);
}

double SetValues::seconds(const std::string& name, double otherwise) {
  if (!has(name)) return otherwise;
  return source_.seconds(path(name), text(name)).value_or(otherwise);
}

double SetValues::positive(const std::string& name, double otherwise) {
  if (!has(name)) return otherwise;
  double value = 0;
  const std::string words = text(name);
  const auto result = std::from_chars(words.data(), words.data() + words.size(), value);
  if (result.ec == std::errc{} && result.ptr == words.data() + words.size() && value > 0 && std::isfinite(value)) {
    return value;
  }
  source_.error(path(name), fmt::format("\"{}\" takes a number above 0, found \"{}\"", name, words));
  return otherwise;
}

int64_t SetValues::count(const std::string& name, int64_t otherwise) {
  if (!has(name)) return otherwise;
  const auto value = parse_count(text(name));
  if (value.ok()) return *value;
  source_.error(path(name), message_of(value.status()));
  return otherwise;
}

bool SetValues::flag(const std::string& name, bool otherwise) {
  if (!has(name)) return otherwise;
  const std::string value = text(name);
  if (value == "true" || value == "false") return value == "true";
  source_.error(path(name), fmt::format("\"{}\" takes true or false, found \"{}\"", name, value));
  return otherwise;
}

}  // namespace internal

absl::StatusOr<std::unique_ptr<ClusterScenario>> load_cluster_scenario(const std::string& path,
                                                                       const ClusterLoadOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path, internal::kMaxFileBytes));
  proto::Scenario message;
  internal::Source source(path, text);
  source.parse(text, message);
  apply_settings(options.settings, message, source);
  auto scenario = std::make_unique<ClusterScenario>();
  scenario->left_out = internal::leave_out_foreign_parameters(message, source);
  internal::SchedContext context{message, source, internal::base_of(path, message), options.simulators, *scenario};
  SCALAI_RETURN_IF_ERROR(internal::build(context, options));
  internal::write_resolved(context);
  if (!options.settings.empty()) scenario->expectations.clear();
  return scenario;
}

std::string failed_expectations(const ClusterScenario& scenario, const std::string& summary_json_text) {
  Scenario holder;
  holder.expectations = scenario.expectations;
  return report::failed_expectations(holder, holder.strategy, summary_json_text);
}

}  // namespace scalai::scenario
