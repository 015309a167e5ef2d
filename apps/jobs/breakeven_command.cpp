#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common/output.h"
#include "apps/jobs/breakeven.h"
#include "apps/jobs/commands.h"
#include "apps/jobs/sim_workers.h"
#include "apps/jobs/sweep.h"
#include "ptc/base/file.h"
#include "ptc/base/process.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/scenario/scenario.h"
#include "ptc/scenario/scenario_set.h"
#include "ptc/sched/policies/catalogue.h"
#include "sim/jobs/scenario/scenario_sched.h"

namespace scalai::apps {
namespace {

struct Request {
  std::string scenario, what, metric, path;  // what: "policy" or "strategy"
  std::vector<std::string> names;            // A and B
  double low = 0, high = 0, tolerance = 0;
  std::vector<std::string> settings;  // for both
  bool own_costs = false;             // the path is changes.seconds: a preset or strategy of the scenario goes
};

// A setting for both must not undo what makes them two.
absl::Status check_settings(const Request& request) {
  for (const std::string& setting : request.settings) {
    const std::string path = setting.substr(0, setting.find('='));
    const bool compared = request.what == "policy" ? path == "policy" || path == "policy.name" || path == "policy.exec"
                                                   : path == "strategy";
    if (!compared && path != request.path) continue;
    return invalid(
        fmt::format("--set={}: {} cannot be set here: it is {}", setting, path, compared ? "compared" : "varied"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Request> request_of(const Arguments& arguments) {
  Request request{.scenario = arguments.positional().front(), .metric = arguments.text("metric")};
  const bool policies = arguments.has("policies"), strategies = arguments.has("strategies");
  if (policies == strategies) return invalid("give --policies=A,B or --strategies=A,B");
  request.what = policies ? "policy" : "strategy";
  request.names = arguments.list(policies ? "policies" : "strategies");
  if (request.names.size() != 2 || request.names[0] == request.names[1])
    return invalid("two different names are compared");
  request.path = arguments.has("path") ? arguments.text("path") : "changes.seconds";
  request.own_costs = request.path == "changes.seconds";
  request.settings = arguments.texts("set");
  SCALAI_RETURN_IF_ERROR(check_settings(request));
  const std::vector<std::string> range = arguments.list("range");
  if (range.size() != 2) return invalid("--range takes two durations, as in --range=0s,1h");
  for (size_t k = 0; k < 2; ++k) {
    const auto seconds = parse_seconds(range[k]);
    if (!seconds.ok()) return invalid("--range: " + message_of(seconds.status()));
    (k == 0 ? request.low : request.high) = *seconds;
  }
  if (request.low >= request.high) return invalid("--range: the second duration is to be the longer one");
  request.tolerance = arguments.has("tolerance") ? arguments.seconds("tolerance") : (request.high - request.low) / 1000;
  if (request.tolerance <= 0) return invalid("--tolerance is to be longer than 0 s");
  return request;
}

class Search {
 public:
  Search(Request request, std::string simulator, std::string own_policy)
      : request_(std::move(request)), simulator_(std::move(simulator)), own_policy_(std::move(own_policy)) {}

  absl::StatusOr<Breakeven> run() {
    Progress progress("looking for the break-even");
    int samples = 0;
    return find_breakeven(request_.low, request_.high, request_.tolerance, [&](double x) {
      progress.update(0, fmt::format("{} samples, at {}", samples++, format_seconds(x)));
      return at(x);
    });
  }

 private:
  std::vector<std::string> words_of(const std::string& name, double x) const {
    std::vector<std::string> words = {request_.scenario, "--format=json"};
    const auto set = [&](const std::string& setting) { words.push_back("--set=" + setting); };
    if (request_.what == "policy") {
      // The scenario's parameters are its own policy's; those of --set come after, and hold for both.
      if (name != own_policy_) set("policy.set=");
      set("policy.exec=");
      set("policy.timeout=");
      set("policy.name=" + name);
    } else {
      set("strategy=" + name);
    }
    if (request_.own_costs) {
      set("changes.preset=");
      set("changes.strategy=");
    }
    for (const std::string& setting : request_.settings) set(setting);
    set(fmt::format("{}={}s", request_.path, shortest(x)));
    return words;
  }

  absl::StatusOr<BreakevenSample> at(double x) const {
    BreakevenSample sample{.x = x};
    const auto done = [&](size_t run, const SimResult& result) -> absl::Status {
      if (result.exit_code != 0 && result.exit_code != 1) {
        return failed(fmt::format("{} {} at {}: exit code {}: {}", request_.what, request_.names[run],
                                  format_seconds(x), result.exit_code, result.error));
      }
      SCALAI_ASSIGN_OR_RETURN(const Numbers numbers, read_numbers(result.out, {request_.metric}));
      if (!numbers.front()) {
        return failed(fmt::format("{} {} at {} has no {}", request_.what, request_.names[run], format_seconds(x),
                                  request_.metric));
      }
      (run == 0 ? sample.a : sample.b) = *numbers.front();
      return absl::OkStatus();
    };
    SCALAI_RETURN_IF_ERROR(
        run_processes(simulator_, {words_of(request_.names[0], x), words_of(request_.names[1], x)}, 2, done));
    return sample;
  }

  Request request_;
  std::string simulator_, own_policy_;
};

std::string better(const Request& request, const BreakevenSample& sample) {
  if (sample.a == sample.b) return "equal";
  return (sample.a < sample.b) != more_is_better(request.metric) ? request.names[0] : request.names[1];
}

std::string verdict(const Request& request, const Breakeven& result) {
  if (!result.bracket) {
    const std::string winner = better(request, result.samples.front());
    return fmt::format("no break-even between {} and {}: {} is better at all {} costs tried",
                       format_seconds(request.low), format_seconds(request.high), winner, result.samples.size());
  }
  const auto [low, high] = *result.bracket;
  const auto at = [&](double x) {
    return *std::find_if(result.samples.begin(), result.samples.end(),
                         [&](const auto& sample) { return sample.x == x; });
  };
  if (low == high) return fmt::format("equal at {} = {} s", request.path, shortest(low));
  return fmt::format("{} is better below {} s, {} above {} s", better(request, at(low)), shortest(low),
                     better(request, at(high)), shortest(high));
}

void print_result(const Request& request, const Breakeven& result, const std::string& format) {
  if (format == "json") {
    nlohmann::ordered_json json = {
        {"path", request.path}, {"metric", request.metric}, {"a", request.names[0]}, {"b", request.names[1]}};
    json["bracket_s"] = nullptr;
    if (result.bracket) json["bracket_s"] = {result.bracket->first, result.bracket->second};
    json["verdict"] = verdict(request, result);
    for (const BreakevenSample& sample : result.samples) {
      json["samples"].push_back(
          {{"cost_s", sample.x}, {"a", sample.a}, {"b", sample.b}, {"better", better(request, sample)}});
    }
    return print(json.dump(2) + "\n");
  }
  Table table({"cost_s>", request.names[0] + ">", request.names[1] + ">", "better"});
  for (const BreakevenSample& sample : result.samples) {
    table.row({shortest(sample.x), shortest(sample.a), shortest(sample.b), better(request, sample)});
  }
  if (format == "csv") return print(table.csv());
  print("{} by {}\n{}{}\n", request.metric, request.path, table.text(stdout_screen()), verdict(request, result));
}

int breakeven(const Arguments& arguments) {
  const auto request = request_of(arguments);
  if (!request.ok()) return usage_error("breakeven", message_of(request.status()));
  const auto text = read_file(request->scenario);
  if (!text.ok()) return report_error(text.status());
  std::string own_policy;
  if (scenario::is_cluster_scenario(*text, request->scenario)) {
    const auto scenario = scenario::load_cluster_scenario(request->scenario);
    if (!scenario.ok()) return report_error(scenario.status());
    own_policy = (*scenario)->policy.name;
  } else if (request->own_costs) {
    return usage_error("breakeven",
                       "jobs of the control loop have costs[0].restart and the like: say which with --path");
  }
  const auto simulator = find_program("scalai-sim");
  if (!simulator.ok()) return report_error(simulator.status());
  const auto result = Search(*request, *simulator, own_policy).run();
  if (!result.ok()) return report_error(result.status());
  print_result(*request, *result, arguments.text("format"));
  return 0;
}

}  // namespace

Command breakeven_command() {
  std::vector<std::string> policies;
  for (const sched::PolicyInfo& policy : sched::policies()) policies.push_back(policy.name);
  return {
      {.name = "breakeven",
       .summary = "the restart cost at which two policies change places",
       .usage = "scalai breakeven SCENARIO --policies=A,B [--metric=NAME] [--range=0s,1h]",
       .description =
           R"(Runs the scenario under both policies with one restart cost after another (changes.seconds; a preset or a strategy
of the scenario is left out), until the cost at which they change places is known to --tolerance. Where they
cross more than once, one such place is found; when neither end differs from the other, seven costs in
between are tried, and it says that there is none. --strategies compares strategies of the control loop, for
which --path names the cost.)",
       .options = {suggesting(list_option("policies", "A,B", "Two policies (`scalai policies`)."), std::move(policies)),
                   suggesting(list_option("strategies", "A,B", "Or two strategies."), scenario::strategy_names()),
                   text_option(
                       "metric", "NAME",
                       "What is compared: a name as in `scalai sim --format=csv`, or a JSON pointer into summary.json.",
                       "avg_jct_s"),
                   list_option("range", "LOW,HIGH", "Costs that are searched.", {}, "0s,1h"),
                   seconds_option("tolerance", "", "Width of the answer (if not given: a thousandth of the range)."),
                   text_option("path", "PATH", "The field that is varied (if not given: changes.seconds)."),
                   texts_option(
                       "set", "PATH=VALUE",
                       "Another value for both, parameters of policies too (`scalai sim --help`); a policy that "
                       "is not the scenario's own has none of the scenario's."),
                   format_option()},
       .examples =
           {"scalai breakeven scenarios/busy-vc.textproto --policies=srtf,fifo-backfill",
            "scalai breakeven scenarios/elastic-gpt3-xl.textproto --strategies=reshard,tenplex --path=costs[0].restart "
            "--metric=/jobs/0/downtime_s --range=0s,5min"},
       .min_arguments = 1,
       .max_arguments = 1,
       .endings = kScenarioEndings},
      breakeven};
}

}  // namespace scalai::apps
