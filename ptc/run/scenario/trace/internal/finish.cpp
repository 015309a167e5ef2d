#include "ptc/run/scenario/trace/internal/finish.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/run/policy/slices.h"

namespace scalai::trace {
namespace {

constexpr int64_t kMostGpus = 1000000;

std::string dropped_text(const ImportSummary& summary) {
  std::string text;
  for (const auto& [reason, rows] : summary.dropped) text += fmt::format("\n  dropped {} rows: {}", rows, reason);
  return text;
}

// Why a job is left out, or nullptr.
const char* left_out(const policy::Job& job, const Window& window) {
  if (job.submit_s < window.from_s) return "submitted before `from`";
  if (job.submit_s >= window.until_s) return "submitted at `until` or later";
  if (job.gpus < window.gpus_min) return "fewer GPUs than gpus-min";
  if (window.gpus_max > 0 && job.gpus > window.gpus_max) return "more GPUs than gpus-max";
  return nullptr;
}

// Times between submissions become as long as makes the jobs' GPU time this share of what the GPUs have meanwhile.
absl::Status scale_to_load(const Reading& reading, const Window& window, Imported& result) {
  std::vector<policy::Job>& jobs = result.workload.jobs;
  const double span_s = jobs.back().submit_s - jobs.front().submit_s;
  const auto unknown =
      std::count_if(jobs.begin(), jobs.end(), [](const policy::Job& job) { return job.duration_s < 0; });
  if (unknown > 0)
    return invalid(fmt::format("{}: load needs the duration of every job, which {} not have", reading.source,
                               counted(unknown, "job") + (unknown == 1 ? " does" : " do")));
  if (span_s <= 0)
    return invalid(fmt::format("{}: load needs jobs that are submitted at two times at least", reading.source));
  double gpu_s = 0;
  for (const policy::Job& job : jobs) {
    const double gpus = job.slices > 0 ? job.slices / static_cast<double>(policy::kSlicesOfGpu) : job.gpus;
    gpu_s += job.duration_s * gpus;
  }
  const double factor = gpu_s / (window.load * window.load_gpus * span_s), first_s = jobs.front().submit_s;
  for (policy::Job& job : jobs) {
    const double slack_s = job.deadline_s - job.submit_s;
    job.submit_s = first_s + (job.submit_s - first_s) * factor;
    job.deadline_s = job.submit_s + slack_s;
  }
  result.summary.notes.push_back(fmt::format(
      "submissions are {:.4g} times as far apart as in the trace: a load of {:g} on {} GPUs, before it was {:.3g}",
      factor, window.load, window.load_gpus, window.load * factor));
  return absl::OkStatus();
}

absl::Status finish_jobs(Reading& reading, const Window& window, Imported& result) {
  std::vector<policy::Job>& jobs = reading.jobs;
  double origin = reading.origin.value_or(0);
  if (window.from_first) {
    origin = policy::kNever;
    for (const policy::Job& job : jobs) origin = std::min(origin, job.submit_s);
  }
  for (policy::Job& job : jobs) {
    job.submit_s -= origin;
    job.deadline_s -= origin;
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const policy::Job& a, const policy::Job& b) { return a.submit_s < b.submit_s; });
  if (window.from_s <= 0 && !jobs.empty() && jobs.front().submit_s < 0) {
    return invalid(fmt::format("{}: job {} is submitted at {} s, before time 0\n  hint: set origin=first",
                               reading.source, in_quotes(jobs.front().name), shortest(jobs.front().submit_s)));
  }
  result.workload.name = reading.workload_name;
  for (policy::Job& job : jobs) {
    const char* reason = left_out(job, window);
    const auto kept = static_cast<int64_t>(result.workload.jobs.size());
    if (reason == nullptr && window.limit > 0 && kept >= window.limit) reason = "behind the first `limit` jobs";
    if (reason != nullptr) {
      ++result.summary.dropped[reason];
      continue;
    }
    job.submit_s -= window.from_s;
    job.deadline_s -= window.from_s;
    result.workload.jobs.push_back(std::move(job));
  }
  if (result.workload.jobs.empty()) {
    return invalid(fmt::format("{}: no job is left of {} rows{}", reading.source, result.summary.rows,
                               dropped_text(result.summary)));
  }
  return window.load > 0 ? scale_to_load(reading, window, result) : absl::OkStatus();
}

// Instances on places: one that comes takes the first free one.
void take_slots(Reading& reading) {
  std::set<int> free;
  std::vector<int> slot_of(reading.hosts.size(), -1);
  int slots = 0;
  for (HostChange& change : reading.changes) {
    int& slot = slot_of[static_cast<size_t>(change.host)];
    if (!change.up) {
      free.insert(slot);
      change.host = slot;
      continue;
    }
    if (free.empty()) free.insert(slots++);
    slot = *free.begin();
    free.erase(free.begin());
    change.host = slot;
  }
  reading.hosts.clear();
  for (int slot = 0; slot < slots; ++slot) reading.hosts.push_back(fmt::format("host-{}", slot));
}

// A notice so long before each removal; of a host that came later than that when it comes, for nobody hears of it
// before. One that comes and goes at one instant has none.
std::vector<policy::FleetEvent> notices_of(const std::vector<policy::FleetEvent>& events, double notice_s) {
  std::vector<policy::FleetEvent> notices;
  std::map<HostId, double> came_s;
  for (const policy::FleetEvent& event : events) {
    if (event.kind == policy::FleetEvent::Kind::kUp) {
      for (const HostId host : event.hosts) came_s[host] = event.at_s;
    }
    if (event.kind != policy::FleetEvent::Kind::kTaken || event.at_s <= 0) continue;
    std::map<double, policy::FleetEvent> by_time;
    for (const HostId host : event.hosts) {
      const auto came = came_s.find(host);
      const double at_s = std::max({0.0, event.at_s - notice_s, came == came_s.end() ? 0 : came->second});
      if (at_s >= event.at_s) continue;
      policy::FleetEvent& notice = by_time[at_s];
      notice = {.at_s = at_s,
                .kind = policy::FleetEvent::Kind::kNotice,
                .hosts = std::move(notice.hosts),
                .until_s = event.at_s,
                .cause = event.cause};
      notice.hosts.push_back(host);
    }
    for (auto& [at_s, notice] : by_time) notices.push_back(std::move(notice));
  }
  return notices;
}

// Removals and additions as events, those of one instant, kind and cause together.
std::vector<policy::FleetEvent> events_of(const Reading& reading, const Window& window, double origin) {
  std::vector<policy::FleetEvent> events;
  const auto removal =
      window.removed_hosts_failed ? policy::FleetEvent::Kind::kFailed : policy::FleetEvent::Kind::kTaken;
  for (const HostChange& change : reading.changes) {
    const auto kind = change.up ? policy::FleetEvent::Kind::kUp : removal;
    const double at_s = change.at_s - origin;
    std::string cause = change.cause;
    if (cause.empty() && !change.up) cause = window.removed_hosts_failed ? "failure" : "preemption";
    if (events.empty() || events.back().at_s != at_s || events.back().kind != kind || events.back().cause != cause)
      events.push_back({.at_s = at_s, .kind = kind, .cause = std::move(cause)});
    events.back().hosts.emplace_back(change.host);
  }
  if (window.notice_s <= 0 || window.removed_hosts_failed) return events;
  const std::vector<policy::FleetEvent> notices = notices_of(events, window.notice_s);
  events.insert(events.end(), notices.begin(), notices.end());  // behind the Up of the same instant
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.at_s < b.at_s; });
  return events;
}

// What happened until `from` is how things are at the start; what happens later counts from there.
// With `whole`, nothing lies before time 0 and what is at 0 stays an event.
void cut_events(std::vector<policy::FleetEvent> events, const Window& window, bool whole,
                policy::Availability& availability) {
  for (policy::FleetEvent& event : events) {
    if (event.at_s >= window.until_s) continue;
    const bool past = !whole && event.at_s <= window.from_s;
    event.at_s = std::max(0.0, event.at_s - window.from_s);
    event.until_s -= event.kind == policy::FleetEvent::Kind::kNotice ? window.from_s : 0;
    const bool pending = event.kind == policy::FleetEvent::Kind::kNotice && event.until_s > 0;
    if (past && !pending && event.kind != policy::FleetEvent::Kind::kPrice) {
      if (event.kind == policy::FleetEvent::Kind::kNotice) continue;
      for (const HostId host : event.hosts) {
        availability.up[static_cast<size_t>(host.value)] = event.kind == policy::FleetEvent::Kind::kUp;
      }
      continue;
    }
    availability.events.push_back(std::move(event));
  }
}

// The first hosts of the trace, as a cluster has that is smaller.
void keep_first(size_t most, Imported& result) {
  std::vector<std::string>& hosts = result.hosts.hosts;
  if (most == 0 || hosts.size() <= most) return;
  result.summary.notes.push_back(fmt::format("hosts beyond the first {} of {} are left out", most, hosts.size()));
  hosts.resize(most);
  result.hosts.availability.up.resize(most);
  std::vector<policy::FleetEvent>& events = result.hosts.availability.events;
  for (policy::FleetEvent& event : events)
    std::erase_if(event.hosts, [&](const HostId host) { return static_cast<size_t>(host.value) >= most; });
  std::erase_if(events, [](const policy::FleetEvent& event) {
    return event.hosts.empty() && event.kind != policy::FleetEvent::Kind::kPrice;
  });
}

absl::StatusOr<double> finish_hosts(Reading& reading, const Window& window, Imported& result) {
  if (reading.hosts.empty()) {
    return invalid(fmt::format("{}: no host is left of {} rows{}", reading.source, result.summary.rows,
                               dropped_text(result.summary)));
  }
  std::stable_sort(reading.changes.begin(), reading.changes.end(),
                   [](const HostChange& a, const HostChange& b) { return a.at_s < b.at_s; });
  if (window.host_slots) take_slots(reading);
  double origin = reading.origin.value_or(0);
  if (!reading.origin && !reading.changes.empty()) origin = reading.changes.front().at_s;
  double end_s = reading.host_end_s - origin;
  for (const HostChange& change : reading.changes) end_s = std::max(end_s, change.at_s - origin);
  for (const policy::FleetEvent& event : reading.events) end_s = std::max(end_s, event.at_s);

  const bool own_form = !reading.up_at_start.empty();
  result.hosts.hosts = std::move(reading.hosts);
  result.hosts.availability.up = reading.up_at_start;
  result.hosts.availability.up.resize(result.hosts.hosts.size(), 0);
  cut_events(own_form ? std::move(reading.events) : events_of(reading, window, origin), window,
             own_form && window.from_s <= 0, result.hosts.availability);
  keep_first(window.most_hosts, result);
  return std::max(0.0, std::min(end_s, window.until_s) - window.from_s);
}

absl::Status finish_prices(Reading& reading, const Window& window, Imported& result) {
  std::vector<PriceTrace::Point>& points = reading.prices;
  double origin = reading.origin.value_or(policy::kNever);
  if (!reading.origin) {
    for (const auto& point : points) origin = std::min(origin, point.at_s);
  }
  std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.at_s < b.at_s; });
  std::map<std::pair<std::string, std::string>, PriceTrace::Point> before;  // prices that hold when the window opens
  std::vector<PriceTrace::Point> kept;
  for (PriceTrace::Point& point : points) {
    point.at_s -= origin + window.from_s;
    if (point.at_s >= window.until_s - window.from_s) continue;
    if (point.at_s < 0) {
      point.at_s = 0;
      before[{point.market, point.instance}] = point;
    } else {
      kept.push_back(std::move(point));
    }
  }
  for (auto& [market, point] : before) result.prices.points.push_back(std::move(point));
  result.prices.points.insert(result.prices.points.end(), kept.begin(), kept.end());
  if (!result.prices.points.empty()) return absl::OkStatus();
  return invalid(fmt::format("{}: no price is left of {} rows{}", reading.source, result.summary.rows,
                             dropped_text(result.summary)));
}

void add_jobs(const policy::Workload& workload, Hasher& hasher) {
  hasher.add(static_cast<int64_t>(workload.jobs.size()));
  for (const policy::Job& job : workload.jobs) {
    hasher.add(job.name).add(job.type).add_double(job.submit_s);
    if (job.slices > 0) hasher.add(int64_t{job.slices});
    hasher.add(int64_t{job.gpus}).add(int64_t{job.min_gpus}).add(int64_t{job.max_gpus});
    hasher.add_double(job.work).add_double(job.duration_s).add_double(job.weight).add_double(job.deadline_s);
    hasher.add(job.entity).add(job.batch);
  }
}

void add_hosts(const HostTrace& trace, Hasher& hasher) {
  for (const std::string& host : trace.hosts) hasher.add(host);
  for (const uint8_t up : trace.availability.up) hasher.add(int64_t{up});
  for (const policy::FleetEvent& event : trace.availability.events) {
    hasher.add_double(event.at_s).add(static_cast<int64_t>(event.kind)).add_double(event.until_s);
    hasher.add(int64_t{event.type.value}).add_double(event.price).add(event.cause);
    for (const HostId host : event.hosts) hasher.add(int64_t{host.value});
  }
}

void add_prices(const PriceTrace& trace, Hasher& hasher) {
  for (const PriceTrace::Point& point : trace.points) {
    hasher.add_double(point.at_s).add(point.market).add(point.instance).add_double(point.usd_per_hour);
  }
}

// Seconds by number of hosts up.
std::map<int, int64_t> seconds_by_hosts(const HostTrace& trace, double end_s) {
  std::vector<uint8_t> up = trace.availability.up;
  int count = static_cast<int>(std::count(up.begin(), up.end(), 1));
  std::map<int, double> seconds;
  double last_s = 0;
  for (const policy::FleetEvent& event : trace.availability.events) {
    seconds[count] += event.at_s - last_s;
    last_s = event.at_s;
    if (event.kind == policy::FleetEvent::Kind::kNotice || event.kind == policy::FleetEvent::Kind::kPrice) continue;
    const uint8_t now = event.kind == policy::FleetEvent::Kind::kUp ? 1 : 0;
    for (const HostId host : event.hosts) {
      uint8_t& before = up[static_cast<size_t>(host.value)];
      count += now - before;
      before = now;
    }
  }
  if (end_s > last_s) seconds[count] += end_s - last_s;
  std::map<int, int64_t> rounded;
  for (const auto& [hosts, total] : seconds) rounded[hosts] = std::llround(total);
  return rounded;
}

}  // namespace

Window read_window(Reading& reading) {
  const OptionValues& options = reading.options;
  Window window;
  window.from_s = options.has("from") ? options.seconds("from", reading.problems) : 0;
  window.until_s = options.has("until") ? options.seconds("until", reading.problems) : policy::kNever;
  if (window.until_s <= window.from_s) reading.problems.add({reading.summary.format}, "until", "is not after `from`");
  if (options.has("limit")) {
    window.limit = options.count("limit", 0, int64_t{1} << 40, reading.problems);
    window.gpus_min = static_cast<int>(options.count("gpus-min", 1, kMostGpus, reading.problems));
    window.gpus_max = static_cast<int>(options.count("gpus-max", 0, kMostGpus, reading.problems));
    window.load = options.number("load", 0, 1000, reading.problems);
    if (window.load > 0 && window.load < 0.001)
      reading.problems.add({reading.summary.format}, "load", "is less than 0.001, at which nothing ever waits");
    window.load_gpus = static_cast<int>(options.count("load-gpus", 0, kMostGpus, reading.problems));
    if ((window.load > 0) != (window.load_gpus > 0))
      reading.problems.add({reading.summary.format}, window.load > 0 ? "load" : "load-gpus",
                           "load and load-gpus go together");
    window.from_first = options.choice("origin", {"first", "file"}, reading.problems) == "first";
  }
  if (options.has("removal")) {
    window.host_slots = options.choice("hosts", {"slots", "names"}, reading.problems) == "slots";
    window.most_hosts = static_cast<size_t>(options.count("most-hosts", 0, 100'000, reading.problems));
    window.removed_hosts_failed = options.choice("removal", {"taken", "failed"}, reading.problems) == "failed";
    window.notice_s = options.seconds("notice", reading.problems);
  }
  return window;
}

absl::StatusOr<Imported> finish(Reading reading, const Window& window) {
  Imported result;
  result.summary = std::move(reading.summary);
  double end_s = 0;
  switch (reading.content) {
    case TraceContent::kJobs: SCALAI_RETURN_IF_ERROR(finish_jobs(reading, window, result)); break;
    case TraceContent::kHosts: {
      SCALAI_ASSIGN_OR_RETURN(end_s, finish_hosts(reading, window, result));
      break;
    }
    case TraceContent::kPrices: SCALAI_RETURN_IF_ERROR(finish_prices(reading, window, result)); break;
  }
  summarize(result, end_s);
  return result;
}

void summarize(Imported& imported, double end_s) {
  ImportSummary& summary = imported.summary;
  Hasher hasher;
  summary.sizes.clear();
  if (!imported.hosts.hosts.empty()) {
    summary.span_s = end_s;
    summary.sizes = seconds_by_hosts(imported.hosts, end_s);
    add_hosts(imported.hosts, hasher);
  } else if (!imported.prices.points.empty()) {
    summary.span_s = imported.prices.points.back().at_s - imported.prices.points.front().at_s;
    add_prices(imported.prices, hasher);
  } else if (!imported.workload.jobs.empty()) {
    summary.span_s = imported.workload.jobs.back().submit_s - imported.workload.jobs.front().submit_s;
    for (const policy::Job& job : imported.workload.jobs) ++summary.sizes[job.gpus];
    add_jobs(imported.workload, hasher);
  }
  summary.checksum = hasher.hex();
}

}  // namespace scalai::trace
