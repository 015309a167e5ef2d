#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/goodput/elasticflow.h"
#include "ptc/run/policy/policies/goodput/pollux.h"
#include "ptc/run/policy/policies/goodput/sia.h"

namespace scalai::policy {
namespace {

const ParameterInfo kModel = {"model", "fitted", "fitted|oracle",
                              "what jobs are judged by: fitted = a step model of what each has shown, where the source "
                              "measures steps (pollux); oracle = the throughput source"};

std::unique_ptr<Policy> pollux(const Parameters& parameters, uint64_t seed) {
  PolluxSettings settings;
  settings.interval_s = parameters.seconds("interval");
  settings.exponent = parameters.number("p");
  settings.search.population = static_cast<int>(parameters.count("population"));
  settings.search.generations = static_cast<int>(parameters.count("generations"));
  settings.search.avoid_interference = parameters.flag("avoid-interference");
  settings.most_gpus = static_cast<int>(parameters.count("most-gpus"));
  settings.model = parameters.text("model");
  return make_pollux(settings, seed);
}

std::unique_ptr<Policy> sia(const Parameters& parameters, uint64_t /*seed*/) {
  SiaSettings settings;
  settings.interval_s = parameters.seconds("interval");
  settings.exponent = parameters.number("p");
  settings.lambda = parameters.number("lambda");
  settings.most_gpus = static_cast<int>(parameters.count("most-gpus"));
  settings.explore = parameters.flag("explore");
  settings.model = parameters.text("model");
  settings.gap = parameters.number("gap");
  settings.limit_s = parameters.seconds("time-limit");
  return make_sia(settings);
}

std::unique_ptr<Policy> elasticflow(const Parameters& parameters, uint64_t /*seed*/) {
  ElasticFlowSettings settings;
  settings.slot_s = parameters.seconds("slot");
  settings.admission = parameters.flag("admission");
  return make_elasticflow(settings);
}

PolicyInfo pollux_info() {
  return {.name = "pollux",
          .family = "goodput",
          .summary = "best power mean of speed-ups over a fair share, by a genetic search every interval",
          .source = "Pollux, OSDI'21",
          .parameters = {{"interval", "60s", "time", "between searches"},
                         {"p", "-1", "number", "exponent of the power mean; smaller = fairer, not 0"},
                         {"population", "100", "count", "allocations kept from generation to generation"},
                         {"generations", "100", "count", "of one search"},
                         {"most-gpus", "64", "count", "a job gets"},
                         {"avoid-interference", "true", "flag", "at most one job of several hosts on a host"},
                         kModel},
          .traits = make_pollux({}, 0)->traits(),
          .make = pollux};
}

PolicyInfo sia_info() {
  return {
      .name = "sia",
      .family = "goodput",
      .summary = "a configuration (GPU type, hosts, GPUs) for each job by an integer program every interval",
      .source = "Sia, SOSP'23",
      .parameters = {{"interval", "60s", "time", "between programs"},
                     {"p", "-0.5", "number", "exponent of normalised goodput; smaller = fairer, not 0"},
                     {"lambda", "1.1", "number", "cost of a job without GPUs, above 1"},
                     {"most-gpus", "64", "count", "a job gets"},
                     {"gap", "0.01", "number", "relative: a program ends so near to its optimum"},
                     {"time-limit", "10s", "time", "for one program; then the best that was found counts"},
                     {"explore", "true", "flag", "GPU types a job never ran on count as its worst, at its least size"},
                     kModel},
      .traits = make_sia({})->traits(),
      .make = sia};
}

PolicyInfo elasticflow_info() {
  return {.name = "elasticflow",
          .family = "deadline",
          .summary =
              "admits a job only if every deadline admitted is kept; least GPUs that do, the rest where it saves most",
          .source = "ElasticFlow, ASPLOS'23",
          .parameters = {{"slot", "60s", "time", "plans hold GPUs until a multiple of it"},
                         {"admission", "true", "flag",
                          "refuse jobs whose deadline cannot be kept; false: they run on what is left"}},
          .traits = make_elasticflow({})->traits(),
          .make = elasticflow};
}

}  // namespace

std::vector<PolicyInfo> goodput_policies() { return {pollux_info(), sia_info(), elasticflow_info()}; }

}  // namespace scalai::policy
