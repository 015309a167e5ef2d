#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ptc/proto/scenario.pb.h"
#include "ptc/run/scenario/scenario_parts.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::scenario::internal {
namespace {

void check_strategy(Source& source, const std::string& path, const std::string& name) {
  if (!source.given(path)) return;
  const std::vector<std::string> known = strategy_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) source.error_unknown(path, "strategy", name, known);
}

void check_strategy_needs(Context& context, const Scenario& scenario) {
  const absl::StatusOr<Strategy> strategy = find_strategy(scenario.strategy, {});
  if (!strategy.ok()) return;  // unknown: that has been said
  const std::string storage = context.cluster_path == "cluster" ? "cluster.storage" : context.cluster_path;
  const cluster::Cluster* const cluster = context.cluster.has_value() ? &*context.cluster : nullptr;
  for (const UnmetNeed& need : unmet_needs(*strategy, cluster, scenario.jobs)) {
    const std::string path = need.job < 0 ? storage : fmt::format("jobs[{}].checkpoint.every_steps", need.job);
    context.source.error(path, need.problem, need.hint, {Note{"strategy", "the strategy is chosen here"}});
  }
}

void build_costs(Context& context, Scenario& scenario) {
  Source& source = context.source;
  std::map<std::string, int> first_use;
  for (int i = 0; i < context.message.costs_size(); ++i) {
    const proto::Costs& given = context.message.costs(i);
    const std::string path = fmt::format("costs[{}]", i);
    check_strategy(source, path + ".strategy", given.strategy());
    const auto [first, fresh] = first_use.emplace(given.strategy(), i);
    if (!fresh) {
      const std::string whose = given.strategy().empty() ? "all strategies" : fmt::format("\"{}\"", given.strategy());
      source.error(path, fmt::format("the costs of {} are given twice", whose), "",
                   {{fmt::format("costs[{}]", first->second), "the first is here"}});
    }
    const auto seconds = [&](const std::string& field, const std::string& text) -> std::optional<double> {
      if (!source.given(path + field)) return std::nullopt;
      return source.seconds(path + field, text);
    };
    CostOverride costs;
    costs.strategy = given.strategy();
    if (source.given(path + ".stack")) {
      const auto found = change::find_stack(given.stack());
      if (found.ok()) costs.stack = *found;
      if (!found.ok()) source.error_unknown(path + ".stack", "stack", given.stack(), change::stack_names());
    }
    costs.detect_s = seconds(".detect", given.detect());
    costs.hang_s = seconds(".hang", given.hang());
    costs.plan_s = seconds(".plan", given.plan());
    costs.restart_s = seconds(".restart", given.restart());
    costs.communicator_s = seconds(".communicator", given.communicator());
    costs.transfer_start_s = seconds(".transfer_start", given.transfer_start());
    costs.box_s = seconds(".box", given.box());
    costs.peer_s = seconds(".peer", given.peer());
    costs.compile_s = seconds(".compile", given.compile());
    const auto rate = [&](const std::string& field, const std::string& text, const char* what) {
      std::optional<double> bytes_per_s;
      if (source.given(path + field)) bytes_per_s = source.bandwidth(path + field, text);
      if (bytes_per_s == 0.0) source.error(path + field, fmt::format("at a rate of 0 {} would never end", what));
      return bytes_per_s;
    };
    costs.allocate_bytes_per_s = rate(".allocate_rate", given.allocate_rate(), "allocating");
    costs.verify_bytes_per_s = rate(".verify_rate", given.verify_rate(), "verifying");
    scenario.costs.push_back(std::move(costs));
  }
}

// RFC 6901: "/"-separated, "~" only as ~0 or ~1.
bool is_json_pointer(const std::string& text) {
  if (!text.starts_with('/')) return false;
  for (size_t at = text.find('~'); at != std::string::npos; at = text.find('~', at + 1)) {
    if (at + 1 >= text.size() || (text[at + 1] != '0' && text[at + 1] != '1')) return false;
  }
  return true;
}

Expectation build_expectation(Source& source, const proto::Expect& given, const std::string& path) {
  Expectation expect;
  expect.metric = given.metric();
  expect.strategy = given.strategy();
  if (given.has_at_least()) expect.at_least = given.at_least();
  if (given.has_at_most()) expect.at_most = given.at_most();
  if (given.has_equals()) expect.equals = given.equals();
  if (given.has_is()) expect.is = given.is();
  const std::string bound = given.has_at_least() ? ".at_least" : given.has_at_most() ? ".at_most" : ".equals";
  const bool numeric = given.has_at_least() || given.has_at_most() || given.has_equals();
  bool broken = false;
  for (const std::string field : {".at_least", ".at_most", ".equals", ".is"})
    broken = broken || source.broken(path + field);
  if (!source.given(path + ".metric")) {
    source.missing(path + ".metric", "write it like metric: \"/jobs/0/downtime_s\"");
  } else if (!is_json_pointer(given.metric())) {
    source.error(path + ".metric", "\"metric\" must be a JSON pointer",
                 "it starts with \"/\", like \"/jobs/0/downtime_s\"");
  }
  check_strategy(source, path + ".strategy", given.strategy());
  if (!numeric && !given.has_is() && !broken) {
    source.error(path, "this expectation has no bound", "give one of at_least, at_most, equals, is");
  }
  if (numeric && given.has_is()) {
    source.error(path + ".is", "\"is\" compares texts and excludes bounds on numbers", "",
                 {{path + bound, "the number is here"}});
  }
  if (given.has_equals() && (given.has_at_least() || given.has_at_most())) {
    source.error(path + ".equals", "\"equals\" excludes other bounds", "", {{path + bound, "the other bound is here"}});
  } else if (given.has_at_least() && given.has_at_most() && given.at_least() > given.at_most()) {
    source.error(path + ".at_least", "no number can be that large and that small", "",
                 {{path + ".at_most", "the upper bound is here"}});
  }
  return expect;
}

// A capped plan gives up old state before the new one is whole: a failure then must not be the end of the job.
void check_cover(Context& context, const Scenario& scenario) {
  for (const JobSpec& job : scenario.jobs) {
    if (job.checkpoint.every_steps > 0 || job.redundancy.copies > 0) continue;
    context.source.error("planner.memory_cap",
                         fmt::format("under a cap old state goes before the new state is whole, and job \"{}\" has "
                                     "nothing that covers a failure meanwhile",
                                     job.name),
                         "give it checkpoint { every_steps: … } or redundancy { copies: 1 … }");
  }
}

}  // namespace

void build_options(Context& context, Scenario& scenario) {
  Source& source = context.source;
  check_strategy(source, "strategy", context.message.strategy());
  if (source.given("strategy")) scenario.strategy = context.message.strategy();
  check_strategy_needs(context, scenario);
  build_costs(context, scenario);
  if (source.given("planner.round_bytes")) {
    scenario.round_bytes = source.bytes("planner.round_bytes", context.message.planner().round_bytes()).value_or(1);
    if (scenario.round_bytes == 0)
      source.error("planner.round_bytes", "a round of 0 bytes would move nothing", "leave the field out for one round");
  }
  if (source.given("planner.memory_cap")) {
    scenario.memory_cap = source.bytes("planner.memory_cap", context.message.planner().memory_cap()).value_or(0);
    if (scenario.round_bytes > 0)
      source.error("planner.memory_cap", "the cap makes rounds of its own", "leave round_bytes out");
    check_cover(context, scenario);
  }
  for (int i = 0; i < context.message.expect_size(); ++i) {
    scenario.expectations.push_back(build_expectation(source, context.message.expect(i), fmt::format("expect[{}]", i)));
  }
}

}  // namespace scalai::scenario::internal
