// A trace of a few hosts, stretched to a cluster of many: each host of the cluster lives the life of a host of the
// trace, from a time drawn. Rates and repair times of the trace stay, and so does the share of hosts that are down at
// the start. Losses that hosts of the trace have at one moment fall apart.

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/run/scenario/trace/internal/draws.h"
#include "ptc/run/scenario/trace/internal/generators.h"

namespace scalai::trace {
namespace {

using policy::FleetEvent;

struct Outage {
  double from_s = 0, to_s = 0;
  FleetEvent::Kind kind = FleetEvent::Kind::kFailed;
  std::string cause;
};

// By host of the trace, in order of time. An outage without a repair lasts until the trace ends.
std::vector<std::vector<Outage>> outages_of(const HostTrace& trace, double end_s) {
  std::vector<std::vector<Outage>> outages(trace.hosts.size());
  for (size_t host = 0; host < outages.size(); ++host) {
    if (trace.availability.up[host] == 0) outages[host].push_back({.to_s = end_s});
  }
  for (const FleetEvent& event : trace.availability.events) {
    for (const HostId id : event.hosts) {
      std::vector<Outage>& own = outages[static_cast<size_t>(id.value)];
      if (event.kind == FleetEvent::Kind::kUp) {
        if (!own.empty()) own.back().to_s = std::min(own.back().to_s, event.at_s);
      } else if (event.kind != FleetEvent::Kind::kNotice) {
        own.push_back({event.at_s, end_s, event.kind, event.cause});
      }
    }
  }
  return outages;
}

// What happens to one host of the cluster.
struct Change {
  double at_s = 0;
  int host = 0;
  FleetEvent::Kind kind = FleetEvent::Kind::kUp;
  std::string cause;
};

class Resampling {
 public:
  Resampling(Making& making, double span_s) : making_(making), span_s_(span_s) {}

  // `host` follows `outages`, which repeat every `period_s`, from `from_s` on.
  void follow(int host, const std::vector<Outage>& outages, double from_s, double period_s) {
    for (double shift_s = -from_s; shift_s < span_s_; shift_s += period_s) {
      for (const Outage& outage : outages)
        add(host, outage, milliseconds(outage.from_s + shift_s), milliseconds(outage.to_s + shift_s));
    }
  }

  void finish() {
    std::stable_sort(changes_.begin(), changes_.end(),
                     [](const Change& a, const Change& b) { return a.at_s < b.at_s; });
    std::vector<FleetEvent>& events = making_.made.hosts.availability.events;
    for (Change& change : changes_) {
      const auto same = [&](const FleetEvent& event) {
        return std::tie(event.at_s, event.kind, event.cause) == std::tie(change.at_s, change.kind, change.cause);
      };
      if (events.empty() || !same(events.back()))
        events.push_back({.at_s = change.at_s, .kind = change.kind, .cause = std::move(change.cause)});
      events.back().hosts.emplace_back(change.host);
    }
    making_.end_s = span_s_;
  }

 private:
  void add(int host, const Outage& outage, double from_s, double to_s) {
    if (from_s >= span_s_ || to_s < 0 || (to_s == 0 && from_s < 0)) return;
    if (from_s < 0) {
      making_.made.hosts.availability.up[static_cast<size_t>(host)] = 0;
    } else {
      ++making_.made.summary.rows;
      changes_.push_back({from_s, host, outage.kind, outage.cause});
    }
    if (to_s < span_s_) changes_.push_back({to_s, host, FleetEvent::Kind::kUp, ""});
  }

  Making& making_;
  double span_s_;
  std::vector<Change> changes_;
};

absl::Status make_resampled(Making& making) {
  const OptionValues& options = making.options;
  const double span_s = options.seconds("span", making.problems);
  if (!(span_s > 0 && span_s < 1e11)) making.problems.add({}, "span", "is no time span");
  if (!options.given("file")) making.problems.add({}, "file", "is needed: a trace of hosts");
  SCALAI_RETURN_IF_ERROR(making.problems.status());
  std::vector<std::string> set;
  if (options.given("without")) set.push_back("without=" + options.text("without"));
  SCALAI_ASSIGN_OR_RETURN(const Imported trace, import_trace(options.text("format"), options.text("file"), set));
  if (trace.hosts.hosts.empty() || !(trace.summary.span_s > 0))
    return invalid(options.text("file") + ": is no trace of hosts over a time");
  Imported& made = making.made;
  made.hosts.availability.up.assign(static_cast<size_t>(making.hosts), 1);
  const std::vector<std::vector<Outage>> outages = outages_of(trace.hosts, trace.summary.span_s);
  Resampling resampling(making, span_s);
  for (int host = 0; host < making.hosts; ++host) {
    made.hosts.hosts.push_back(fmt::format("host-{}", host));
    const auto drawn = static_cast<size_t>(making.random.below(std::ssize(outages)));
    resampling.follow(host, outages[drawn], making.random.uniform() * trace.summary.span_s, trace.summary.span_s);
  }
  resampling.finish();
  made.summary.notes.push_back(
      fmt::format("each of {} hosts follows one of {} of the trace, from a time drawn within {}", making.hosts,
                  trace.hosts.hosts.size(), format_seconds(trace.summary.span_s)));
  return absl::OkStatus();
}

}  // namespace

std::vector<Generator> resampling_generators() {
  return {{{"resampled",
            TraceContent::kHosts,
            "a trace of a few hosts for a cluster of many: each host follows one of the trace, from a time drawn",
            "",
            {{"file", "", "the trace"},
             {"format", "infinitehbd", "its format"},
             {"without", "", "classes of faults that are left out, of a format with classes"},
             {"span", "30d", "how long the result is; a trace that is shorter begins again"}}},
           make_resampled}};
}

}  // namespace scalai::trace
