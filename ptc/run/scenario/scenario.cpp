#include "ptc/run/scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/internal/scenario_many_jobs.h"
#include "ptc/run/scenario/internal/scenario_policy.h"
#include "ptc/run/scenario/scenario_parts.h"
#include "ptc/run/scenario/scenario_set.h"

namespace scalai::scenario {
namespace internal {

std::string beside(const std::string& file_name, const std::string& name) {
  return (std::filesystem::path(file_name).parent_path() / name).string();
}

std::string base_of(const std::string& file_name, const proto::Scenario& message) {
  if (message.folder().empty()) return file_name;
  const std::filesystem::path name = std::filesystem::path(file_name).filename();
  return (std::filesystem::path(beside(file_name, message.folder())) / name).lexically_normal().string();
}

std::string folder_of(const std::string& base) {
  const std::string folder = std::filesystem::path(base).parent_path().string();
  return folder.empty() ? "." : folder;
}

absl::StatusOr<std::string> content_of(const Context& context, const std::string& name, const std::string& text) {
  if (!text.empty()) return text;
  return context.read(beside(context.file_name, name));
}

void report_lines(Source& source, const std::string& path, const std::string& text, const std::string& hint,
                  const std::vector<Note>& notes) {
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
  for (const auto& [message, advice] : problems) source.error(path, message, advice, notes);
}

Note cluster_note(const Context& context) {
  return {context.cluster_path,
          fmt::format("the cluster has {} GPUs on {} {}", context.cluster->device_count(),
                      context.cluster->hosts.size(), context.cluster->hosts.size() == 1 ? "host" : "hosts")};
}

namespace {

// A cluster from a file of its own, whose problems are listed under its own name.
std::optional<cluster::Cluster> read_cluster(const std::string& path, const std::string& text, std::string& problems) {
  proto::Cluster message;
  Source source(path, text);
  source.parse(text, message);
  std::optional<cluster::Cluster> cluster;
  if (!source.broken("")) cluster = build_cluster(message, "", source);
  problems += source.render();
  return cluster;
}

// `replacement` ("" = none) is a file that takes the place of whatever the scenario says.
absl::Status load_cluster(Context& context, const std::string& replacement) {
  Source& source = context.source;
  const bool inlined = source.given("cluster");
  const bool named = source.given("cluster_file");
  context.cluster_path = inlined ? "cluster" : "cluster_file";
  if (inlined && named) {
    source.error("cluster_file", "\"cluster\" and \"cluster_file\" exclude each other", "",
                 {{"cluster", "the cluster is described here"}});
  }
  if (!replacement.empty()) {
    context.cluster_path.clear();
    SCALAI_ASSIGN_OR_RETURN(const std::string text, context.read(replacement));
    context.cluster = read_cluster(replacement, text, context.other_files);
  } else if (inlined) {
    context.cluster = build_cluster(context.message.cluster(), "cluster.", source);
  } else if (!named) {
    source.missing("cluster", "describe one, or name a file with cluster_file");
  } else if (!source.broken("cluster_file")) {
    const std::string path = beside(context.file_name, context.message.cluster_file());
    const absl::StatusOr<std::string> text = context.read(path);
    if (text.ok())
      context.cluster = read_cluster(path, *text, context.other_files);
    else
      source.error("cluster_file", message_of(text.status()));
  }
  return absl::OkStatus();
}

void build_head(Context& context, Scenario& scenario) {
  Source& source = context.source;
  const proto::Scenario& message = context.message;
  if (message.schema_version() != 0 && message.schema_version() != 1) {
    source.error("schema_version", fmt::format("schema version {} is not known here", message.schema_version()),
                 "this program reads version 1");
  }
  if (source.is_name("name", message.name())) scenario.name = message.name();
  scenario.description = message.description();
  scenario.seed = message.seed();
  if (message.compute() == proto::Scenario::SIMULATED) scenario.compute = Compute::kSimulated;
  if (!source.given("until")) return;
  scenario.until_s = source.seconds("until", message.until());
  if (scenario.until_s == 0.0) source.error("until", "the scenario ends before anything can happen");
}

// Parts that only a workload has a use for, and a workload itself, which the control loop does not run: false.
bool refuse_workloads(Context& context) {
  Source& source = context.source;
  for (const std::string field : {"workload", "recovery"}) {
    if (source.given(field))
      source.error(field,
                   fmt::format("a scenario with a {} is simulated as a whole: it has no jobs to plan for", field),
                   "run it with `scalai sim`");
  }
  if (source.given("workload") || source.given("recovery")) return false;
  for (const std::string field : {"throughputs", "changes"}) {
    if (source.given(field))
      source.error(field, fmt::format("\"{}\" is for the jobs of a workload", field),
                   "jobs with a model have their own: leave it out");
  }
  for (const std::string field : {"window", "estimates", "virtual_clusters", "metrics"}) {
    if (source.given(field))
      source.error(field, fmt::format("\"{}\" is for the jobs of a workload", field), "leave it out");
  }
  if (source.given("prices"))
    source.error("prices", "\"prices\" is for the jobs of a workload", "give the cluster's hosts a price_per_hour");
  return true;
}

// Without `until` the scenario ends with its jobs, so all of them must end.
void check_end(Context& context, const Scenario& scenario) {
  if (context.source.given("until") || context.source.broken("until")) return;
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    const std::string path = fmt::format("jobs[{}].steps", j);
    if (context.source.given(path) && context.message.jobs(static_cast<int>(j)).steps() != 0) continue;
    context.source.error(path, "this job never ends: it has no \"steps\" and the scenario has no \"until\"",
                         "add steps: 1000 to the job, or until: \"1h\" to the scenario");
  }
}

// Each checkpoint, and each copy, is an event of its own: too many would fill the memory before the scenario ends.
void check_copies(Context& context, const Scenario& scenario) {
  constexpr double kMostCopies = 5e6;
  for (size_t j = 0; j < scenario.jobs.size(); ++j) {
    const JobSpec& job = scenario.jobs[j];
    double steps = job.steps > 0 ? static_cast<double>(job.steps) : std::numeric_limits<double>::infinity();
    double shortest_s = std::numeric_limits<double>::infinity();  // whose time is computed takes longer
    for (const ParallelChoice& choice : job.configs) {
      if (choice.step_s > 0) shortest_s = std::min(shortest_s, choice.step_s);
    }
    if (scenario.until_s) steps = std::min(steps, *scenario.until_s / shortest_s);
    const auto check = [&](const std::string& field, const std::string& what, int64_t every) {
      const double count = every > 0 ? steps / static_cast<double>(every) : 0;
      if (count <= kMostCopies || std::isinf(count)) return;  // infinite: check_end() has said why
      const std::string path = fmt::format("jobs[{}].{}", j, field);
      context.source.error(
          context.source.given(path + ".every_steps") ? path + ".every_steps" : path,
          fmt::format("job \"{}\" would make {:.3g} {}, one every {}; at most {:.0f} are kept track of", job.name,
                      count, what, counted(every, "step"), kMostCopies),
          "raise every_steps, or make the scenario shorter");
    };
    check("checkpoint", "checkpoints", job.checkpoint.every_steps);
    if (job.redundancy.copies > 0) check("redundancy", "copies", job.redundancy.every_steps);
  }
}

// `replacement` takes the place of whatever the scenario says.
void build_scale(Context& context, const std::optional<model::Fraction>& replacement, Scenario& scenario) {
  Source& source = context.source;
  if (source.given("scale_model")) {
    const absl::StatusOr<model::Fraction> own = model::parse_fraction(context.message.scale_model());
    if (own.ok()) {
      context.scale = *own;
    } else {
      source.error("scale_model", message_of(own.status()));
    }
  }
  if (replacement.has_value()) context.scale = *replacement;
  scenario.scale_model = context.scale;
}

// Expectations hold for models of the size that the scenario itself asks for.
void drop_foreign_expectations(const Context& context, Scenario& scenario) {
  const absl::StatusOr<model::Fraction> own = model::parse_fraction(context.message.scale_model());
  if ((own.ok() ? *own : model::Fraction{}) != context.scale) scenario.expectations.clear();
}

// Rounds are cut by bytes: in proportion, so that a narrower model moves in about as many of them.
void scale_rounds(const Context& context, Scenario& scenario) {
  if (context.whole_bytes == 0) return;
  const double ratio = static_cast<double>(context.scaled_bytes) / static_cast<double>(context.whole_bytes);
  for (int64_t* bytes : {&scenario.round_bytes, &scenario.memory_cap}) {
    if (*bytes > 0) *bytes = static_cast<int64_t>(std::ceil(static_cast<double>(*bytes) * ratio));
  }
}

// When it is resolved: other files are written out.
bool names_files(const Scenario& scenario) {
  const bool program = scenario.policy && !scenario.policy->exec.empty();
  return program || std::any_of(scenario.jobs.begin(), scenario.jobs.end(),
                                [](const JobSpec& job) { return job.dataset && !job.dataset->index.empty(); });
}

void build_control(Context& context, const LoadOptions& options, Scenario& scenario) {
  build_scale(context, options.scale_model, scenario);
  if (context.source.given("policy")) {
    scenario.policy = build_policy(context.message.policy(), "policy", folder_of(context.file_name), context.source);
  }
  build_jobs(context, scenario);
  check_policy(context, scenario);
  check_end(context, scenario);
  check_copies(context, scenario);
  build_events(context, scenario);
  build_options(context, scenario);
  drop_foreign_expectations(context, scenario);
}

void resolve_control(Context& context, Scenario& scenario) {
  if (names_files(scenario)) scenario.folder = folder_of(context.file_name);
  scenario.resolved_text = context.comments + resolved_text_of(scenario, context.message);
  scenario.digest = digest_of(with_strategy(scenario.resolved_text, ""));
  // Not before: the text holds what was given, and is scaled again when it is read.
  scale_rounds(context, scenario);
}

absl::StatusOr<Scenario> build(Context& context, const LoadOptions& options, Scenario scenario) {
  const bool many_jobs = scenario.many_jobs != nullptr;
  const bool parsed = context.source.empty();
  if (!context.source.broken("") && (many_jobs || refuse_workloads(context))) {
    build_head(context, scenario);
    SCALAI_RETURN_IF_ERROR(load_cluster(context, options.cluster_file));
    if (many_jobs)
      build_many_jobs(context, *options.engine, scenario);
    else
      build_control(context, options, scenario);
  }
  const std::string problems = context.source.render() + context.other_files;
  const bool only_missing = parsed && context.files_missing == context.source.errors() && context.other_files.empty();
  if (!problems.empty()) return only_missing ? missing(problems) : invalid(problems);
  SCALAI_CHECK(context.cluster.has_value() && context.source.errors() == 0, "a problem was not reported");
  scenario.cluster = *std::move(context.cluster);
  many_jobs ? resolve_many_jobs(context, scenario) : resolve_control(context, scenario);
  return scenario;
}

}  // namespace
}  // namespace internal

absl::StatusOr<cluster::Cluster> load_cluster(const std::string& path) {
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  std::string problems;
  std::optional<cluster::Cluster> cluster = internal::read_cluster(path, text, problems);
  if (!cluster.has_value()) return invalid(problems);
  return *std::move(cluster);
}

absl::StatusOr<Scenario> parse_scenario(const std::string& text, const std::string& file_name, const FileReader& read,
                                        const LoadOptions& options) {
  proto::Scenario message;
  internal::Source source(file_name, text);
  source.parse(text, message, kMaxFileBytes);
  apply_settings(options.settings, message, source);
  Scenario scenario;
  if (options.engine != nullptr && (message.has_workload() || message.has_recovery())) {
    scenario.many_jobs = std::make_shared<ManyJobs>();
    scenario.many_jobs->left_out = internal::leave_out_foreign_parameters(message, *options.engine, source);
  }
  internal::Context context{
      .message = message, .source = source, .read = read, .file_name = internal::base_of(file_name, message)};
  auto built = internal::build(context, options, std::move(scenario));
  if (built.ok() && !options.settings.empty()) built->expectations.clear();
  return built;
}

absl::StatusOr<Scenario> load(const std::string& path, const LoadOptions& options) {
  const FileReader read = [](const std::string& name) { return read_file(name, kMaxFileBytes); };
  if (options.text != nullptr) return parse_scenario(*options.text, path, read, options);
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read(path));
  return parse_scenario(text, path, read, options);
}

}  // namespace scalai::scenario
