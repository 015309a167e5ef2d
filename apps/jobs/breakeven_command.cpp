#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/common/output.h"
#include "apps/common/sim_workers.h"
#include "apps/jobs/breakeven.h"
#include "apps/jobs/commands.h"
#include "apps/jobs/sweep.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/run/scenario/scenario_set.h"
#include "ptc/run/scenario/scenario_vary.h"
#include "sim/jobs/scenario/engine_parts.h"

namespace scalai::apps {
namespace {

std::optional<double> number_of(const std::string& text) {
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = result.ec == std::errc{} && result.ptr == text.data() + text.size() && std::isfinite(number);
  return whole ? std::optional(number) : std::nullopt;
}

std::string for_people(double value) {
  return std::fabs(value) < 1000 ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
}

std::string two_digits(double percent) {
  return percent < 9.95 ? fmt::format("{:.1f}", percent) : fmt::format("{:.0f}", percent);
}

struct Request {
  std::string scenario, text;  // the file and what it holds
  bool many_jobs = false;
  scenario::Axis compared;   // two values: A and B
  std::string metric, path;  // path: the field that is varied
  bool times = true;         // the varied field takes durations; else numbers
  bool whole = false;        // whole ones
  double low = 0, high = 0, tolerance = 0;
  std::vector<std::string> settings;  // for both

  std::string value(double x) const { return times ? shortest(x) + "s" : shortest(x); }
  std::string shown(double x) const { return times ? format_seconds(x) : shortest(x); }
  // Without the settings of both.
  std::vector<std::string> settings_of(size_t which, double x) const {
    return {compared.path + "=" + compared.values[which], path + "=" + value(x)};
  }
  std::vector<std::string> all_settings_of(size_t which, double x) const {
    std::vector<std::string> all = settings;
    for (std::string& setting : settings_of(which, x)) all.push_back(std::move(setting));
    return all;
  }
};

// A setting for both must not undo what makes them two.
absl::Status check_settings(const Request& request) {
  for (const std::string& setting : request.settings) {
    const std::string path = setting.substr(0, setting.find('='));
    const bool policy = request.compared.path == "policy.name" && (path == "policy" || path == "policy.exec");
    if (!policy && path != request.compared.path && path != request.path) continue;
    return invalid(fmt::format("--set={}: {} cannot be set here: it is {}", setting, path,
                               path == request.path ? "varied" : "compared"));
  }
  return absl::OkStatus();
}

// --policies=A,B is short for --vary.
absl::StatusOr<scenario::Axis> compared_of(const Arguments& arguments) {
  std::vector<std::string> texts = arguments.texts("vary");
  if (arguments.has("policies"))
    texts.push_back(fmt::format("policy.name={}", fmt::join(arguments.list("policies"), ",")));
  if (texts.size() != 1) return invalid("give one of --policies=A,B and --vary=PATH=A,B");
  SCALAI_ASSIGN_OR_RETURN(scenario::Axis axis, scenario::parse_axis(texts.front()));
  if (axis.values.size() != 2) return invalid("two different values are compared");
  return axis;
}

// Two durations, or two numbers.
absl::Status take_range(const Arguments& arguments, Request& request) {
  const std::vector<std::string> range = arguments.list("range");
  if (range.size() != 2) return invalid("--range takes two durations or two numbers, as in --range=0s,1h");
  const auto first = number_of(range[0]), second = number_of(range[1]);
  request.times = !first || !second;
  for (size_t k = 0; k < 2 && request.times; ++k) {
    const auto seconds = parse_seconds(range[k]);
    if (!seconds.ok()) return invalid("--range: " + message_of(seconds.status()));
    (k == 0 ? request.low : request.high) = *seconds;
  }
  if (!request.times) request.low = *first, request.high = *second;
  if (request.low >= request.high) return invalid("--range: the second value is to be the larger one");
  request.tolerance = (request.high - request.low) / 1000;
  return absl::OkStatus();
}

absl::StatusOr<Request> request_of(const Arguments& arguments) {
  Request request{.scenario = arguments.positional().front(),
                  .metric = arguments.text("metric"),
                  .path = arguments.has("path") ? arguments.text("path") : "changes.seconds"};
  SCALAI_ASSIGN_OR_RETURN(request.compared, compared_of(arguments));
  request.settings = arguments.texts("set");
  SCALAI_RETURN_IF_ERROR(check_settings(request));
  SCALAI_RETURN_IF_ERROR(take_range(arguments, request));
  return request;
}

// Both alternatives at both ends are scenarios that run; what the metric is and whether the field takes whole numbers
// follows from the kind of scenario.
absl::Status check_scenarios(Request& request) {
  const auto takes = [&](const std::string& value) {
    std::vector<std::string> settings = request.settings;
    settings.push_back(request.path + "=" + value);
    return scenario::with_settings(request.text, request.scenario, settings).status();
  };
  request.whole = !request.times && !takes("0.5").ok() && takes("1").ok();
  if (request.whole) {
    request.low = std::ceil(request.low);
    request.high = std::floor(request.high);
    request.tolerance = std::max(1.0, request.tolerance);
    if (request.low >= request.high) return invalid(fmt::format("--range: {} takes whole numbers", request.path));
  }
  bool recovery = false;
  for (const double x : {request.low, request.high}) {
    for (size_t which = 0; which < 2; ++which) {
      const std::vector<std::string> settings = request.all_settings_of(which, x);
      scenario::EngineParts parts;
      SCALAI_RETURN_IF_ERROR(
          scenario::load(request.scenario, {.settings = settings, .engine = &parts, .text = &request.text}).status());
      recovery = parts.recovery.has_value();
    }
  }
  if (request.metric.empty())
    request.metric = !request.many_jobs ? "/jobs/0/downtime_s" : recovery ? "samples_per_s" : "avg_jct_s";
  return absl::OkStatus();
}

class Search {
 public:
  Search(const Request& request, std::string simulator) : request_(request), simulator_(std::move(simulator)) {}

  absl::StatusOr<Breakeven> run() {
    Progress progress("looking for the break-even");
    int samples = 0;
    return find_breakeven(
        request_.low, request_.high, request_.tolerance,
        [&](double x) {
          progress.update(0, fmt::format("{} samples, at {}", samples++, request_.shown(x)));
          return at(x);
        },
        request_.whole);
  }

 private:
  std::vector<std::string> words_of(size_t which, double x) const {
    std::vector<std::string> words = {"sim", request_.scenario, "--format=json"};
    for (const std::string& setting : request_.all_settings_of(which, x)) words.push_back("--set=" + setting);
    return words;
  }

  absl::StatusOr<BreakevenSample> at(double x) const {
    BreakevenSample sample{.x = x};
    const auto done = [&](size_t run, const SimResult& result) -> absl::Status {
      const std::string which = fmt::format("{}", fmt::join(request_.settings_of(run, x), " "));
      if (result.exit_code != 0 && result.exit_code != kExpectationFailed)
        return failed(fmt::format("{}: exit code {}: {}", which, result.exit_code, result.error));
      SCALAI_ASSIGN_OR_RETURN(const Numbers numbers, read_numbers(result.out, {request_.metric}));
      if (!numbers.front()) return failed(fmt::format("{} has no {}", which, request_.metric));
      (run == 0 ? sample.a : sample.b) = *numbers.front();
      return absl::OkStatus();
    };
    SCALAI_RETURN_IF_ERROR(run_processes(simulator_, {words_of(0, x), words_of(1, x)}, 2, done));
    return sample;
  }

  const Request& request_;
  std::string simulator_;
};

std::string better(const Request& request, const BreakevenSample& sample) {
  if (sample.a == sample.b) return "equal";
  return request.compared.values[(sample.a < sample.b) != more_is_better(request.metric) ? 0 : 1];
}

// "by 12 %", "by 3 to 12 %": of the other's value; "" where that is 0 or less somewhere.
std::string margin(const Request& request, const Breakeven& result) {
  double least = 0, most = 0;
  for (const BreakevenSample& sample : result.samples) {
    const double other = better(request, sample) == request.compared.values[0] ? sample.b : sample.a;
    if (other <= 0) return "";
    const double percent = 100 * std::fabs(sample.a - sample.b) / other;
    least = &sample == &result.samples.front() ? percent : std::min(least, percent);
    most = std::max(most, percent);
  }
  const std::string low = two_digits(least), high = two_digits(most);
  return low == high ? fmt::format(", by {} %", low) : fmt::format(", by {} to {} %", low, high);
}

std::string verdict(const Request& request, const Breakeven& result) {
  if (!result.bracket) {
    return fmt::format("no crossing between {} and {}: {} is better at all {} values tried{}",
                       request.shown(request.low), request.shown(request.high), better(request, result.samples.front()),
                       result.samples.size(), margin(request, result));
  }
  const auto [low, high] = *result.bracket;
  const auto at = [&](double x) {
    return *std::find_if(result.samples.begin(), result.samples.end(),
                         [&](const auto& sample) { return sample.x == x; });
  };
  const auto shown = [&](double x) { return request.times ? shortest(x) + " s" : shortest(x); };
  if (low == high) return fmt::format("equal at {} = {}", request.path, shown(low));
  return fmt::format("{} is better up to {}, {} from {} on", better(request, at(low)), shown(low),
                     better(request, at(high)), shown(high));
}

void print_result(const Request& request, const Breakeven& result, const std::string& format) {
  const std::vector<std::string>& names = request.compared.values;
  if (format == "json") {
    nlohmann::ordered_json json = {{"path", request.path},
                                   {"unit", request.times ? "s" : ""},
                                   {"metric", request.metric},
                                   {"compared", request.compared.path},
                                   {"a", names[0]},
                                   {"b", names[1]}};
    json["bracket"] = nullptr;
    if (result.bracket) json["bracket"] = {result.bracket->first, result.bracket->second};
    json["verdict"] = verdict(request, result);
    for (const BreakevenSample& sample : result.samples) {
      json["samples"].push_back(
          {{"value", sample.x}, {"a", sample.a}, {"b", sample.b}, {"better", better(request, sample)}});
    }
    return print(json_text(json, {.indent = 2}) + "\n");
  }
  Table table({request.path + (request.times ? " (s)>" : ">"), names[0] + ">", names[1] + ">", "better"});
  for (const BreakevenSample& sample : result.samples) {
    table.row({shortest(sample.x), format == "csv" ? shortest(sample.a) : for_people(sample.a),
               format == "csv" ? shortest(sample.b) : for_people(sample.b), better(request, sample)});
  }
  if (format == "csv") return print(table.csv());
  print("{} by {}\n{}{}\n", request.metric, request.path, table.text(stdout_screen()), verdict(request, result));
}

int breakeven(const Arguments& arguments) {
  auto request = request_of(arguments);
  if (!request.ok()) return usage_error("breakeven", message_of(request.status()));
  const auto text = read_file(request->scenario);
  if (!text.ok()) return report_error(text.status());
  request->text = *text;
  request->many_jobs = scenario::head_of(*text, request->scenario).many_jobs;
  if (!arguments.has("path") && !request->many_jobs) {
    return usage_error("breakeven",
                       "jobs of the control loop have costs[0].restart and the like: say which with --path");
  }
  if (const absl::Status checked = check_scenarios(*request); !checked.ok()) {
    return report_error(checked);
  }
  const auto simulator = find_program("scalai");
  if (!simulator.ok()) return report_error(simulator.status());
  const auto result = Search(*request, *simulator).run();
  if (!result.ok()) return report_error(result.status());
  print_result(*request, *result, arguments.text("format"));
  return 0;
}

}  // namespace

Command breakeven_command() {
  std::vector<std::string> policies;
  for (const policy::PolicyInfo& policy : policy::policies()) policies.push_back(policy.name);
  return {
      {.name = "breakeven",
       .summary = "the cost, rate or size at which two alternatives change places",
       .usage = "scalai breakeven SCENARIO --policies=A,B [--metric=NAME] [--range=0s,1h]",
       .description =
           R"(Runs the scenario with both alternatives, with one value of a field after another (of many jobs the restart
cost, changes.seconds, unless --path says another), until the value at which they change places is known to a
thousandth of the range. Where they cross more than once, one such place is found; when the same one is better at both
ends, seven values in between are tried, and it says that there is none, and by how much that one is better.
Alternatives are policies, or values of any field, like strategy (--vary); parameters that only the other policy
or design knows are left out.)",
       .options = {suggesting(list_option("policies", "A,B",
                                          "Two policies (`scalai policies`); short for --vary=policy.name=A,B."),
                              std::move(policies)),
                   texts_option("vary", "PATH=A,B",
                                "Or two values of another field, like strategy or recovery.design."),
                   text_option("metric", "NAME",
                               "What is compared: a name as in `scalai sim --format=csv` (cost_usd where hosts have "
                               "prices), or a JSON pointer into summary.json. If not given: avg_jct_s of many jobs, "
                               "samples_per_s of recovery designs, /jobs/0/downtime_s of one job."),
                   list_option("range", "LOW,HIGH", "Durations or numbers that are searched.", {}, "0s,1h"),
                   text_option("path", "PATH", "The field that is varied (if not given: changes.seconds)."),
                   texts_option("set", "PATH=VALUE", "Another value for both (`scalai sim --help`)."), format_option()},
       .examples =
           {"scalai breakeven scenarios/busy-vc.textproto --policies=srtf,fifo-backfill",
            "scalai breakeven scenarios/elastic-gpt3-xl.textproto --vary=strategy=reshard,tenplex "
            "--path=costs[0].restart --range=0s,5min",
            "scalai breakeven scenarios/failure-rate-sweep.textproto --vary=recovery.design=reshard,checkpoint-restart "
            "--path=availability.set.mtbf --range=1h,1d"},
       .min_arguments = 1,
       .max_arguments = 1,
       .endings = kScenarioEndings},
      breakeven};
}

}  // namespace scalai::apps
