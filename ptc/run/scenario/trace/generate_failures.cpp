#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/run/scenario/trace/csv.h"
#include "ptc/run/scenario/trace/internal/draws.h"
#include "ptc/run/scenario/trace/internal/generators.h"

namespace scalai::trace {
namespace {

constexpr int64_t kMostEvents = 2000000;

enum class Scope : uint8_t { kGpu, kHost, kRack, kCluster };  // kCluster: one host of all of it

const char* name_of(Scope scope) {
  constexpr const char* kNames[] = {"GPU", "host", "rack", "cluster"};
  return kNames[static_cast<size_t>(scope)];
}

// What can fail at once, and what takes how long to repair.
struct Process {
  Scope scope = Scope::kHost;
  double mtbf_s = policy::kNever;  // of one unit
  double repair_s = 0;             // mean
  std::string cause;
};

// Host failures and repairs in time. A host that is down does not fail.
class Failures {
 public:
  explicit Failures(Making& making) : making_(making), down_(static_cast<size_t>(making.hosts), 0) {
    span_s_ = making.options.seconds("span", making.problems);
    rack_hosts_ = static_cast<int>(making.options.count("rack-hosts", 1, 1000000, making.problems));
    exponential_repair_ =
        making.options.choice("repair-spread", {"fixed", "exponential"}, making.problems) == "exponential";
    if (!(span_s_ > 0 && span_s_ < 1e11)) making.problems.add({}, "span", "is no time span");
  }

  double span_s() const { return span_s_; }
  int racks() const { return (making_.hosts + rack_hosts_ - 1) / rack_hosts_; }
  int units(Scope scope) const {
    switch (scope) {
      case Scope::kGpu: return making_.hosts * making_.gpus_per_host;
      case Scope::kHost: return making_.hosts;
      case Scope::kRack: return racks();
      case Scope::kCluster: return 1;
    }
    return 0;
  }

  // Repairs due until then, in order.
  void repair_until(double at_s) {
    while (!repairs_.empty() && repairs_.top().first <= at_s) {
      const auto [when, host] = repairs_.top();
      repairs_.pop();
      if (when >= span_s_) continue;
      down_[static_cast<size_t>(host)] = 0;
      emit(when, policy::FleetEvent::Kind::kUp, "", host);
    }
  }

  // A unit fails; the time at which all of it is back, or `at_s` when it was down already.
  double fail(double at_s, const Process& process, int unit) {
    repair_until(at_s);
    ++making_.made.summary.rows;
    const double back_s = at_s + repair_time(process.repair_s);
    const auto [first, last] = hosts_of(process.scope, unit);
    bool any = false;
    for (int host = first; host < last; ++host) {
      uint8_t& down = down_[static_cast<size_t>(host)];
      if (down != 0) continue;
      down = 1;
      any = true;
      emit(at_s, policy::FleetEvent::Kind::kFailed, process.cause, host);
      repairs_.emplace(back_s, host);
    }
    if (!any) ++making_.made.summary.dropped["hit what was down already"];
    return any ? back_s : at_s;
  }

  absl::Status finish() {
    repair_until(span_s_);
    Imported& made = making_.made;
    for (int host = 0; host < making_.hosts; ++host) made.hosts.hosts.push_back(fmt::format("host-{}", host));
    made.hosts.availability.up.assign(static_cast<size_t>(making_.hosts), 1);
    making_.end_s = span_s_;
    return absl::OkStatus();
  }

  bool too_many() const { return making_.made.summary.rows > kMostEvents; }

 private:
  // Half-open. A failure of a GPU takes its host down.
  std::pair<int, int> hosts_of(Scope scope, int unit) {
    switch (scope) {
      case Scope::kGpu: return {unit / making_.gpus_per_host, unit / making_.gpus_per_host + 1};
      case Scope::kHost: return {unit, unit + 1};
      case Scope::kRack: return {unit * rack_hosts_, std::min((unit + 1) * rack_hosts_, making_.hosts)};
      case Scope::kCluster: break;
    }
    const auto host = static_cast<int>(making_.random.below(making_.hosts));
    return {host, host + 1};
  }

  double repair_time(double mean_s) {
    if (mean_s <= 0) return 0;
    return exponential_repair_ ? exponential(making_.random, mean_s) : mean_s;
  }

  void emit(double at_s, policy::FleetEvent::Kind kind, const std::string& cause, int host) {
    std::vector<policy::FleetEvent>& events = making_.made.hosts.availability.events;
    const bool joins =
        !events.empty() && events.back().at_s == at_s && events.back().kind == kind && events.back().cause == cause;
    if (!joins)
      events.push_back({.at_s = at_s, .kind = kind, .hosts = {}, .until_s = 0, .type = {}, .price = 0, .cause = cause});
    events.back().hosts.emplace_back(host);
  }

  using Repair = std::pair<double, int>;  // when, host
  Making& making_;
  std::vector<uint8_t> down_;
  std::priority_queue<Repair, std::vector<Repair>, std::greater<>> repairs_;
  double span_s_ = 0;
  int rack_hosts_ = 1;
  bool exponential_repair_ = false;
};

// The processes the options mtbf, gpu-mtbf, host-mtbf and rack-mtbf ask for.
std::vector<Process> asked_processes(Making& making) {
  std::vector<Process> processes;
  const double repair_s = making.options.seconds("repair", making.problems);
  for (const auto& [option, scope] : {std::pair{"mtbf", Scope::kCluster},
                                      {"gpu-mtbf", Scope::kGpu},
                                      {"host-mtbf", Scope::kHost},
                                      {"rack-mtbf", Scope::kRack}}) {
    if (!making.options.given(option)) continue;
    const double mtbf_s = making.options.seconds(option, making.problems);
    if (mtbf_s < 1e-3) {
      making.problems.add({}, option, "is too short");
      continue;
    }
    processes.push_back(
        {scope, mtbf_s, repair_s, fmt::format("failure of a {}", scope == Scope::kCluster ? "host" : name_of(scope))});
  }
  if (processes.empty()) {
    making.problems.add({}, "", "needs a mean time between failures",
                        "mtbf=3h (of the whole cluster), gpu-mtbf, host-mtbf or rack-mtbf (of one)");
  }
  return processes;
}

absl::Status too_many_events() {
  return invalid(fmt::format("more than {} failures\n  hint: a longer mtbf or a shorter span", kMostEvents));
}

// Failures of constant rate: units of one scope together are one process with the sum of their rates.
absl::Status make_poisson(Making& making) {
  Failures failures(making);
  const std::vector<Process> processes = asked_processes(making);
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  std::vector<double> next_s;
  const auto gap = [&](const Process& process) {
    return exponential(making.random, process.mtbf_s / failures.units(process.scope));
  };
  for (const Process& process : processes) next_s.push_back(gap(process));
  for (;;) {
    const auto first = std::min_element(next_s.begin(), next_s.end());
    if (*first >= failures.span_s()) break;
    const Process& process = processes[static_cast<size_t>(first - next_s.begin())];
    failures.fail(*first, process, static_cast<int>(making.random.below(failures.units(process.scope))));
    if (failures.too_many()) return too_many_events();
    *first = milliseconds(*first + gap(process));
  }
  return failures.finish();
}

// Each unit is renewed by its repair: times between a return and the next failure are Weibull. All are new at time 0.
absl::Status make_weibull(Making& making) {
  Failures failures(making);
  const std::vector<Process> processes = asked_processes(making);
  const double shape = making.options.number("shape", 0.1, 20, making.problems);
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  struct Next {
    double at_s;
    size_t process;
    int unit;
    bool operator>(const Next& other) const {
      return std::tie(at_s, process, unit) > std::tie(other.at_s, other.process, other.unit);
    }
  };
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  for (size_t i = 0; i < processes.size(); ++i) {
    for (int unit = 0; unit < failures.units(processes[i].scope); ++unit) {
      queue.push({weibull(making.random, processes[i].mtbf_s, shape), i, unit});
    }
  }
  while (!queue.empty() && queue.top().at_s < failures.span_s()) {
    const Next now = queue.top();
    queue.pop();
    const Process& process = processes[now.process];
    double back_s = failures.fail(now.at_s, process, now.unit);
    if (process.scope == Scope::kCluster) back_s = now.at_s;  // the others go on
    if (failures.too_many()) return too_many_events();
    queue.push({milliseconds(back_s + weibull(making.random, process.mtbf_s, shape)), now.process, now.unit});
  }
  return failures.finish();
}

// "Network:rack+GPU:gpu" → by category.
std::map<std::string, std::string> by_category(const Making& making, const std::string& option, Problems& problems) {
  std::map<std::string, std::string> result;
  for (const std::string& item : making.options.list(option)) {
    const size_t colon = item.find(':');
    if (colon == std::string::npos || colon == 0 ||
        !result.emplace(item.substr(0, colon), item.substr(colon + 1)).second) {
      problems.add({}, option, in_quotes(item) + " is no CATEGORY:VALUE of its own");
    }
  }
  return result;
}

std::optional<Scope> scope_of(const std::string& text) {
  for (const auto& [name, scope] : {std::pair{"gpu", Scope::kGpu}, {"host", Scope::kHost}, {"rack", Scope::kRack}}) {
    if (text == name) return scope;
  }
  return std::nullopt;
}

// A table of causes: component, category, count; scope and repair_s where it has them.
class Causes {
 public:
  explicit Causes(Making& making) : making_(making) {
    repair_s_ = making.options.seconds("repair", making.problems);
    scopes_ = by_category(making, "scopes", making.problems);
    repairs_ = by_category(making, "repairs", making.problems);
  }

  absl::Status read(const std::string& path) {
    SCALAI_ASSIGN_OR_RETURN(Csv csv, Csv::open(path, making_.problems));
    if (!csv.read_header({"component", "category", "count"})) return csv.status();
    while (csv.next()) read_row(csv);
    SCALAI_RETURN_IF_ERROR(csv.status());
    for (const auto& [option, values] : {std::pair{"scopes", &scopes_}, {"repairs", &repairs_}}) {
      for (const auto& [category, value] : *values) {
        if (seen_.count(category) == 0)
          making_.problems.add({}, option, "no cause is of category " + in_quotes(category));
      }
    }
    if (total_ <= 0 && making_.problems.empty()) making_.problems.add({path}, "count", "adds up to nothing");
    return absl::OkStatus();
  }

  const Process& draw() {
    double left = making_.random.uniform() * total_;
    for (size_t i = 0; i < processes_.size(); ++i) {
      left -= counts_[i];
      if (left < 0) return processes_[i];
    }
    return processes_.back();
  }

 private:
  void read_row(Csv& csv) {
    const auto component = csv.name("component");
    const auto category = csv.name("category");
    const auto count = csv.count("count", {0, 1e12});
    if (!component || !category || !count) return;
    seen_[*category] = 1;
    Process process{Scope::kHost, policy::kNever, repair_s_, *component};
    std::string scope = csv.has("scope") ? std::string(csv.text("scope")) : "";
    if (const auto set = scopes_.find(*category); set != scopes_.end()) scope = set->second;
    if (!scope.empty()) {
      const std::optional<Scope> known = scope_of(scope);
      if (!known) csv.problem("scope", in_quotes(scope) + " is none of gpu, host, rack");
      process.scope = known.value_or(Scope::kHost);
    }
    if (csv.has("repair_s") && !csv.text("repair_s").empty()) {
      process.repair_s = csv.number("repair_s", kNotNegative).value_or(0);
    }
    if (const auto set = repairs_.find(*category); set != repairs_.end()) {
      const auto seconds = parse_seconds(set->second);
      if (!seconds.ok()) making_.problems.add({}, "repairs", message_of(seconds.status()));
      process.repair_s = seconds.value_or(0);
    }
    if (*count == 0) return;
    total_ += static_cast<double>(*count);
    counts_.push_back(static_cast<double>(*count));
    processes_.push_back(std::move(process));
  }

  Making& making_;
  double repair_s_ = 0, total_ = 0;
  std::map<std::string, std::string> scopes_, repairs_;
  std::map<std::string, int> seen_;
  std::vector<double> counts_;
  std::vector<Process> processes_;
};

absl::Status make_causes(Making& making) {
  Failures failures(making);
  Causes causes(making);
  const double mtbf_s = making.options.seconds("mtbf", making.problems);
  if (!(mtbf_s >= 1e-3 && mtbf_s < 1e11)) {
    making.problems.add({}, "mtbf", "is needed: the mean time between failures of the whole cluster");
  }
  if (!making.options.given("file")) making.problems.add({}, "file", "is needed: a CSV component,category,count");
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  SCALAI_RETURN_IF_ERROR(causes.read(making.options.text("file")));
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  double at_s = exponential(making.random, mtbf_s);
  while (at_s < failures.span_s()) {
    const Process& process = causes.draw();
    failures.fail(at_s, process, static_cast<int>(making.random.below(failures.units(process.scope))));
    if (failures.too_many()) return too_many_events();
    at_s = milliseconds(at_s + exponential(making.random, mtbf_s));
  }
  return failures.finish();
}

std::vector<TraceOption> failure_options(std::vector<TraceOption> own) {
  own.push_back({"span", "30d", "how long the trace is"});
  own.push_back({"repair", "30min", "mean time until a failed host is back; 0 = at once"});
  own.push_back({"repair-spread", "fixed", "fixed or exponential"});
  own.push_back({"rack-hosts", "8", "hosts of a rack (or under one switch)"});
  return own;
}

}  // namespace

std::vector<Generator> failure_generators() {
  constexpr TraceContent kHosts = TraceContent::kHosts;
  const std::vector<TraceOption> rates{
      {"mtbf", "", "mean time between failures of the whole cluster, each of one host"},
      {"gpu-mtbf", "", "of one GPU; takes its host down"},
      {"host-mtbf", "", "of one host"},
      {"rack-mtbf", "", "of one rack; takes its hosts down"}};
  std::vector<TraceOption> weibull_options = rates;
  weibull_options.push_back({"shape", "0.7", "k of the Weibull distribution; below 1 failures come in bursts"});
  return {
      {{"poisson", kHosts, "failures of constant rate by GPU, host, rack or cluster, and repairs", "",
        failure_options(rates)},
       make_poisson},
      {{"weibull", kHosts, "failures with Weibull times between repair and next failure; all units are new at time 0",
        "Schroeder and Gibson, DSN'06: shape 0.7 to 0.8 fits clusters", failure_options(weibull_options)},
       make_weibull},
      {{"causes", kHosts,
        "Poisson failures whose causes have the shares of a table, with scope and repair time by cause",
        "Llama 3 (arXiv:2407.21783), Table 5, is such a table",
        failure_options({{"file", "", "CSV: component, category, count; optional scope (gpu, host, rack), repair_s"},
                         {"mtbf", "", "mean time between failures of the whole cluster"},
                         {"scopes", "", "scope by category: Network:rack+GPU:gpu; default host"},
                         {"repairs", "", "repair time by category: GPU:4h+Network:1h; default `repair`"}})},
       make_causes},
  };
}

}  // namespace scalai::trace
