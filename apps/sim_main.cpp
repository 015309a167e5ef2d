#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "apps/output.h"
#include "apps/sim_family.h"
#include "ptc/base/command.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/control/report.h"
#include "ptc/control/run.h"
#include "ptc/model/scaling.h"
#include "sim/sim_runtime.h"

namespace scalai::apps {
namespace {

constexpr int kExpectationFailed = 1;
constexpr int kJobFailed = 5;
// Up to here SimGrid's solver is fast enough; beyond, our exact one takes over (both agree to 1e-6).
constexpr int kSimGridDevices = 256;

struct Options {
  std::string scenario, cluster, out, format;
  sim::BackendKind network = sim::BackendKind::kSimGrid;
  std::optional<model::Fraction> scale;
  bool check = false;
  std::string command_line;
};

std::string now_rfc3339() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// As the process was started, arguments joined by blanks.
std::string command_line() {
  std::string words = read_file("/proc/self/cmdline").value_or("");
  if (!words.empty()) words.pop_back();
  std::replace(words.begin(), words.end(), '\0', ' ');
  return words;
}

absl::StatusOr<control::RunReport> simulate(const control::Scenario& scenario, const control::Strategy& strategy,
                                            const Options& options) {
  const sim::Platform platform(scenario.cluster);
  absl::StatusOr<control::RunReport> report = absl::InternalError("the simulation did not run");
  Progress progress("simulating " + strategy.name);
  const absl::Status status = sim::with_backend(options.network, platform.spec(), [&](sim::NetworkBackend& backend) {
    control::Recorder recorder;
    sim::SimRuntime runtime(scenario.cluster, platform, backend, recorder);
    const auto show = [&](double at_s) {
      progress.update(scenario.until_s ? at_s / *scenario.until_s : 0, fmt::format("at {:.0f} s", at_s));
    };
    report = control::run(scenario, strategy, runtime, {.check_plans = options.check, .progress = show});
    runtime.close();
    if (report.ok()) report->recorder = std::move(recorder);
  });
  SCALAI_RETURN_IF_ERROR(status);
  SCALAI_RETURN_IF_ERROR(report.status());
  report->runtime = "sim";
  return report;
}

void print_summary(const std::string& summary, const std::string& label, const std::string& format) {
  if (format == "json") {
    print(summary);
  } else if (format == "csv") {
    print(control::compare_summaries({{label, summary}}, format).value());
  } else {
    print(control::summary_table(summary));
  }
}

int run_one(const control::Scenario& scenario, const std::string& strategy_name, const Options& options) {
  const auto started = std::chrono::steady_clock::now();
  control::Manifest manifest{
      .command_line = options.command_line, .revision = SCALAI_REVISION, .started_at = now_rfc3339()};
  const auto strategy = control::find_strategy(strategy_name, scenario.costs);
  if (!strategy.ok()) return report_error(strategy.status());
  const auto report = simulate(scenario, *strategy, options);
  if (!report.ok()) return report_error(report.status());
  manifest.wall_clock_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();

  const std::string summary = control::summary_json(*report);
  if (!options.out.empty()) {
    const absl::Status written = control::write_report(*report, manifest, options.out);
    if (!written.ok()) return report_error(written);
  }
  print_summary(summary, strategy_name, options.format);
  int code = 0;
  const std::string failures = control::failed_expectations(scenario, strategy_name, summary);
  if (!failures.empty()) {
    std::fputs(failures.c_str(), stderr);
    code = kExpectationFailed;
  }
  for (const std::string& event : report->unreached) {
    fmt::print(stderr, "scalai-sim: warning: {} never happened\n", event);
  }
  for (const control::JobRecord& job : report->jobs) {
    if (job.state != "failed") continue;
    fmt::print(stderr, "scalai-sim: error: job {}: {}\n", job.name, job.failure);
    code = kJobFailed;
  }
  return code;
}

// A folder of our own under TMPDIR, removed at the end, for a comparison whose reports nobody asked to keep.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-sim-XXXXXX").string();
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int run_several(const std::vector<std::string>& strategies, const Arguments& arguments, const Options& options) {
  const ScratchFolder scratch;
  const std::string folder = options.out.empty() ? scratch.path() : options.out;
  if (folder.empty()) return report_error(missing("cannot create a temporary folder; give one with --out=DIR"));
  std::vector<std::string> passed = {options.scenario, "--network=" + arguments.text("network")};
  if (options.check) passed.push_back("--check");
  if (!options.cluster.empty()) passed.push_back("--cluster=" + options.cluster);
  if (options.scale) passed.push_back("--scale-model=" + options.scale->str());
  const auto members = run_family(passed, strategies, folder);
  if (!members.ok()) return report_error(members.status());
  int code = 0;
  std::vector<std::pair<std::string, std::string>> summaries;
  for (const FamilyMember& member : *members) {
    code = std::max(code, member.exit_code);
    const auto summary = read_file(member.folder + "/summary.json");
    if (summary.ok()) summaries.emplace_back(member.strategy, *summary);
  }
  if (summaries.empty()) return code;
  const auto table = control::compare_summaries(summaries, options.format);
  if (!table.ok()) return report_error(table.status());
  print(*table);
  if (!options.out.empty()) fmt::print(stderr, "reports: {}/{{{}}}\n", folder, fmt::join(strategies, ","));
  return code;
}

// A run would only notice at its end that its report has no place.
absl::Status prepare_folder(const std::string& folder) {
  SCALAI_RETURN_IF_ERROR(make_folders(folder));
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return absl::OkStatus();
  return missing(fmt::format("{}: cannot write into this folder: {}", folder, std::strerror(errno)));
}

// Reports are kept by strategy, so each runs once. "" = no name comes twice.
std::string repeated(const std::vector<std::string>& names) {
  std::set<std::string> seen;
  const auto found =
      std::find_if(names.begin(), names.end(), [&](const auto& name) { return !seen.insert(name).second; });
  return found == names.end() ? "" : *found;
}

int simulate_command(const Arguments& arguments) {
  Options options{.scenario = arguments.positional().front(),
                  .cluster = arguments.text("cluster"),
                  .out = arguments.text("out"),
                  .format = arguments.text("format")};
  options.check = arguments.flag("check");
  std::vector<std::string> strategies = arguments.list("strategy");
  if (const std::string name = repeated(strategies); !name.empty()) {
    return usage_error("sim", fmt::format("--strategy names \"{}\" more than once", name));
  }
  if (options.scenario == "-") return usage_error("sim", kNoStandardInput);
  if (arguments.has("scale-model")) {
    const auto scale = model::parse_fraction(arguments.text("scale-model"));
    if (!scale.ok()) return usage_error("sim", "--scale-model: " + message_of(scale.status()));
    options.scale = *scale;
  }
  const auto scenario = control::load_scenario(options.scenario, options.cluster, options.scale);
  if (!scenario.ok()) {
    const std::string message = message_of(scenario.status());
    fmt::print(stderr, "{}{}", message, message.ends_with('\n') ? "" : "\n");
    return exit_code_of(scenario.status());
  }
  const std::string network = arguments.text("network");
  const bool large = scenario->cluster.device_count() > kSimGridDevices;
  options.network =
      network == "maxmin" || (network == "auto" && large) ? sim::BackendKind::kMaxMin : sim::BackendKind::kSimGrid;
  options.command_line = command_line();
  if (strategies.empty()) strategies = {scenario->strategy};
  if (!options.out.empty()) {
    const absl::Status prepared = prepare_folder(options.out);
    if (!prepared.ok()) return report_error(prepared);
  }
  if (strategies.size() == 1) return run_one(*scenario, strategies.front(), options);
  return run_several(strategies, arguments, options);
}

Command sim_command() {
  CommandSpec spec{
      .name = "scalai-sim",
      .summary = "run a scenario in virtual time on a modelled cluster",
      .usage = "scalai sim SCENARIO [--strategy=NAME,…] [--out=DIR]",
      .description =
          "Runs the scenario's jobs, events and reconfigurations in virtual time. State moves as flows that share GPU\n"
          "links, PCIe, NICs and the fabric. Same scenario, same seed: byte-identical reports.\n\nStrategies:\n\n",
      .options =
          {{.name = "strategy",
            .type = ValueType::kList,
            .value_name = "NAME,…",
            .help = "Strategies to run, each into DIR/NAME when there are several; without it the scenario's own.",
            .choices = control::strategy_names()},
           {.name = "out",
            .value_name = "DIR",
            .help = "Folder for the report (summary.json, CSV files, plans, trace)."},
           {.name = "cluster", .value_name = "FILE", .help = "Cluster file that replaces the scenario's own cluster."},
           {.name = "scale-model",
            .value_name = "PART",
            .help = "Narrower models of the same structure, like 1/8 or 0.125; the scenario's expectations are not "
                    "checked."},
           {.name = "network",
            .type = ValueType::kChoice,
            .value_name = "SOLVER",
            .help = "Flow solver: SimGrid, our exact max-min solver, or SimGrid up to 256 devices.",
            .default_value = "auto",
            .choices = {"auto", "simgrid", "maxmin"}},
           {.name = "check",
            .type = ValueType::kFlag,
            .help = "Run every plan through the interpreter before it is used."},
           {.name = "format",
            .type = ValueType::kChoice,
            .value_name = "FORMAT",
            .help = "How the result is printed.",
            .default_value = "table",
            .choices = {"table", "json", "csv"}}},
      .examples = {"scalai sim scenarios/elastic-gpt3-xl.textproto",
                   "scalai sim scenarios/elastic-gpt3-xl.textproto --strategy=reshard,tenplex,dp-only --out=out/demo"},
      .min_arguments = 1,
      .max_arguments = 1};
  for (const control::Strategy& strategy : control::strategies()) {
    const bool first = strategy.name == control::strategies().front().name;
    spec.description += fmt::format("{}  {:<20}{}", first ? "" : "\n", strategy.name, strategy.summary);
  }
  return {std::move(spec), simulate_command};
}

}  // namespace
}  // namespace scalai::apps

int main(int argc, char** argv) {
  const scalai::Program program{.name = "scalai-sim",
                                .summary = "Runs a scenario in virtual time on a modelled cluster.",
                                .commands = {scalai::apps::sim_command()},
                                .single = true};
  return scalai::run_program(program, argc, argv);
}
