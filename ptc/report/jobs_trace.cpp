#include "ptc/report/jobs_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/report/internal/placement_devices.h"
#include "ptc/report/internal/trace_writer.h"

namespace scalai::report {
namespace {

using policy::FleetEvent;
using policy::JobId;
using Instants = std::vector<std::pair<uint64_t, std::string>>;

std::string host_list(const std::vector<HostId>& hosts) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < std::min(hosts.size(), kMost); ++i)
    text += fmt::format("{}h{}", i == 0 ? "" : " ", hosts[i].value);
  return hosts.size() > kMost ? fmt::format("{} and {} more", text, hosts.size() - kMost) : text;
}

// "" for prices, which have counters.
std::string words_of(const FleetEvent& event) {
  const std::string hosts = host_list(event.hosts);
  const std::string cause = event.cause.empty() ? "" : fmt::format(" ({})", event.cause);
  switch (event.kind) {
    case FleetEvent::Kind::kUp: return hosts + " up" + cause;
    case FleetEvent::Kind::kNotice:
      return fmt::format("{}: notice of {}{}", hosts, format_seconds(event.until_s - event.at_s), cause);
    case FleetEvent::Kind::kTaken: return hosts + " taken" + cause;
    case FleetEvent::Kind::kFailed: return hosts + " failed" + cause;
    case FleetEvent::Kind::kPrice: break;
  }
  return "";
}

void write_fleet_events(const policy::Availability& availability, double end_s, uint64_t group, TraceWriter& trace) {
  Instants instants;
  for (const FleetEvent& event : availability.events) {
    if (event.at_s > end_s) break;
    if (std::string text = words_of(event); !text.empty())
      instants.emplace_back(nanoseconds(event.at_s), std::move(text));
  }
  if (!instants.empty()) trace.instants(trace.track(group, "arrivals and losses"), std::move(instants));
}

using Times = std::vector<std::pair<double, double>>;

// When each host was up.
std::vector<Times> uptimes(size_t hosts, const policy::Availability& availability, double end_s) {
  std::vector<Times> times(hosts);
  std::vector<double> since_s(hosts, 0);  // −1: down
  for (size_t h = 0; h < availability.up.size(); ++h) {
    if (availability.up[h] == 0) since_s[h] = -1;
  }
  const auto down = [&](size_t host, double at_s) {
    if (since_s[host] >= 0 && at_s > since_s[host]) times[host].emplace_back(since_s[host], at_s);
    since_s[host] = -1;
  };
  for (const FleetEvent& event : availability.events) {
    if (event.at_s >= end_s) break;
    for (const HostId host : event.hosts) {
      const auto h = static_cast<size_t>(host.value);
      if (event.kind == FleetEvent::Kind::kTaken || event.kind == FleetEvent::Kind::kFailed) down(h, event.at_s);
      if (event.kind == FleetEvent::Kind::kUp && since_s[h] < 0) since_s[h] = event.at_s;
    }
  }
  for (size_t h = 0; h < hosts; ++h) down(h, end_s);
  return times;
}

// When each host was down, as slices.
std::vector<std::vector<Slice>> downtimes(size_t hosts, const policy::Availability& availability, double end_s) {
  std::vector<std::vector<Slice>> slices;
  for (const Times& up : uptimes(hosts, availability, end_s)) {
    std::vector<Slice>& own = slices.emplace_back();
    double at_s = 0;
    const auto until = [&](double to_s) {
      if (to_s > at_s) own.push_back({nanoseconds(at_s), nanoseconds(to_s), "down"});
    };
    for (const auto& [from_s, to_s] : up) {
      until(from_s);
      at_s = to_s;
    }
    until(end_s);
  }
  return slices;
}

void write_counter(TraceWriter& trace, uint64_t group, const std::string& name, const std::string& unit,
                   const std::vector<std::pair<double, double>>& values) {
  const uint64_t counter = trace.counter(group, name, unit);
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && values[i].second == values[i - 1].second) continue;
    trace.value(counter, values[i].first, values[i].second);
  }
}

template <class Samples, class Value>
void write_samples(TraceWriter& trace, uint64_t group, const std::string& name, const std::string& unit,
                   const Samples& samples, Value value) {
  std::vector<std::pair<double, double>> values;
  for (const auto& sample : samples) values.push_back(value(sample));
  write_counter(trace, group, name, unit, values);
}

std::string slices_text(const policy::Placement& placement) {
  std::string text;
  for (const policy::Slice& slice : placement.slices)
    text += fmt::format("{}h{}.g{}:{}g@{}", text.empty() ? "" : " ", slice.host.value, slice.gpu, slice.slices,
                        slice.start);
  return text;
}

}  // namespace

// The tracks of a run, of the stretches that are kept.
class JobsTrace::Writer {
 public:
  Writer(const JobsTrace& run, const policy::Outcome& outcome) : run_(run), outcome_(outcome) {}

  std::string write() {
    const uint64_t events = trace_.group("events");
    write_fleet_events(run_.availability_, outcome_.end_s, events, trace_);
    if (run_.left_out_ > 0) {
      trace_.instants(trace_.track(events, "left out"),
                      {{0, fmt::format("{} stretches with less GPU time", run_.left_out_)}});
    }
    write_cluster();
    write_jobs();
    write_hosts();
    return trace_.finish();
  }

 private:
  void write_cluster() {
    const uint64_t group = trace_.group("cluster");
    const double per_gpu = run_.fleet_.per_gpu;
    const auto count = [&](const std::string& name, const std::string& unit, int policy::UseSample::*member) {
      write_samples(trace_, group, name, unit, outcome_.use, [&](const policy::UseSample& use) {
        return std::pair<double, double>(use.at_s, use.*member / (unit == "GPUs" ? per_gpu : 1));
      });
    };
    count("waiting jobs", "jobs", &policy::UseSample::waiting_jobs);
    count("running jobs", "jobs", &policy::UseSample::running_jobs);
    count("GPUs up", "GPUs", &policy::UseSample::up);
    count("GPUs training", "GPUs", &policy::UseSample::training);
    count("GPUs changing", "GPUs", &policy::UseSample::changing);
    for (size_t t = 0; t < run_.fleet_.types.size(); ++t) write_price(group, t);
  }

  void write_price(uint64_t group, size_t type) {
    const policy::TypeSpec& spec = run_.fleet_.types[type];
    std::vector<std::pair<double, double>> prices = {{0, spec.price_per_gpu_hour}};
    for (const FleetEvent& event : run_.availability_.events) {
      const bool own = event.kind == FleetEvent::Kind::kPrice && static_cast<size_t>(event.type.value) == type;
      if (own && event.at_s <= outcome_.end_s) prices.emplace_back(event.at_s, event.price);
    }
    if (prices.size() > 1) write_counter(trace_, group, "price of " + spec.name, "USD per GPU-hour", prices);
  }

  std::string job_name(JobId job) const { return run_.workload_.jobs[static_cast<size_t>(job.value)].name; }

  std::vector<Note> notes_of(int64_t stretch) const {
    const Stretch& one = run_.stretches_[static_cast<size_t>(stretch)];
    if (one.placement.empty()) return {};
    const auto type = static_cast<size_t>(one.placement.type.value);
    std::vector<Note> notes = {{"GPUs", int64_t{one.placement.gpus() / run_.fleet_.per_gpu}},
                               {"type", run_.fleet_.types[type].name}};
    if (one.placement.gpus() % run_.fleet_.per_gpu != 0) notes.front() = {"slices of 7", int64_t{one.placement.gpus()}};
    return notes;
  }

  std::string what_of(const Stretch& stretch) const {
    if (stretch.what == Stretch::What::kWaits) return "waits";
    const char* what = stretch.what == Stretch::What::kTrains ? "trains" : "changes";
    const int per_gpu = run_.fleet_.per_gpu, gpus = stretch.placement.gpus() / per_gpu;
    if (gpus == 0) return fmt::format("{} on {}g", what, stretch.placement.gpus());
    return fmt::format("{} on {} {}", what, gpus, gpus == 1 ? "GPU" : "GPUs");
  }

  Slice slice_of(size_t stretch, std::string name) const {
    const Stretch& one = run_.stretches_[stretch];
    return {.begin = nanoseconds(one.from_s),
            .end = nanoseconds(one.to_s),
            .name = std::move(name),
            .about = static_cast<int64_t>(stretch)};
  }

  void write_jobs() {
    std::map<JobId, std::vector<Slice>> slices;
    for (size_t i = 0; i < run_.stretches_.size(); ++i)
      slices[run_.stretches_[i].job].push_back(slice_of(i, what_of(run_.stretches_[i])));
    const uint64_t group = trace_.group("jobs");
    for (auto& [job, own] : slices)
      trace_.slices(group, job_name(job), std::move(own), [this](int64_t about) { return notes_of(about); });
  }

  void write_hosts() {
    std::vector<std::vector<Slice>> slices = downtimes(run_.fleet_.hosts.size(), run_.availability_, outcome_.end_s);
    for (size_t i = 0; i < run_.stretches_.size(); ++i) {
      const Stretch& stretch = run_.stretches_[i];
      const std::string name = job_name(stretch.job) + (stretch.what == Stretch::What::kChanges ? ": changes" : "");
      for (const policy::HostShare& share : stretch.placement.hosts)
        slices[static_cast<size_t>(share.host.value)].push_back(slice_of(i, name));
    }
    const uint64_t group = trace_.group("hosts");
    for (size_t h = 0; h < slices.size(); ++h) {
      trace_.slices(group, fmt::format("h{}", h), std::move(slices[h]),
                    [this](int64_t about) { return notes_of(about); });
    }
  }

  const JobsTrace& run_;
  const policy::Outcome& outcome_;
  TraceWriter trace_;
};

JobsTrace::JobsTrace(const policy::Workload& workload, const policy::Fleet& fleet,
                     const policy::Availability& availability, size_t most_slices)
    : workload_(workload),
      fleet_(fleet),
      availability_(availability),
      most_slices_(most_slices),
      over_(workload.jobs.size(), false) {
  last_.assign(workload.jobs.size(), kNone);
  for (size_t j = 0; j < workload.jobs.size(); ++j)
    open_.push_back({.from_s = workload.jobs[j].submit_s, .job = JobId(static_cast<int64_t>(j))});
}

void JobsTrace::placed(double now_s, JobId job, const policy::Placement& placement, JobId beside) {
  begin({.from_s = now_s,
         .job = job,
         .what = placement.empty() ? Stretch::What::kWaits : Stretch::What::kChanges,
         .placement = placement,
         .given = true,
         .beside = beside});
}

// On the GPUs of its change, which may have taken no time.
void JobsTrace::training(double now_s, JobId job) {
  Stretch next = open_[static_cast<size_t>(job.value)];
  if (next.from_s < now_s) {
    next.given = false;
    next.beside = JobId();
  }
  next.from_s = now_s;
  next.what = Stretch::What::kTrains;
  begin(std::move(next));
}

void JobsTrace::ended(double now_s, JobId job) {
  const auto j = static_cast<size_t>(job.value);
  end(now_s, job);
  if (last_[j] != kNone) stretches_[last_[j]].reason = "completed";
  over_[j] = true;
}

// Of several changes at one moment the last one is what the job does next.
void JobsTrace::begin(Stretch stretch) {
  const auto j = static_cast<size_t>(stretch.job.value);
  end(stretch.from_s, stretch.job);
  if (last_[j] != kNone) stretches_[last_[j]].reason = reason_of(stretches_[last_[j]], stretch);
  open_[j] = std::move(stretch);
}

void JobsTrace::end(double now_s, JobId job) {
  Stretch& open = open_[static_cast<size_t>(job.value)];
  if (now_s <= open.from_s) return;
  open.to_s = now_s;
  slices_ += slices_of(open);
  last_[static_cast<size_t>(job.value)] = stretches_.size();
  stretches_.push_back(std::move(open));
  if (slices_ > 2 * most_slices_) prune();
}

bool JobsTrace::lost_a_host(const Stretch& ended) const {
  const std::vector<FleetEvent>& events = availability_.events;
  const auto first = std::lower_bound(events.begin(), events.end(), ended.to_s,
                                      [](const FleetEvent& event, double at_s) { return event.at_s < at_s; });
  for (auto event = first; event != events.end() && event->at_s == ended.to_s; ++event) {
    if (event->kind != FleetEvent::Kind::kTaken && event->kind != FleetEvent::Kind::kFailed) continue;
    for (const policy::HostShare& share : ended.placement.hosts)
      if (std::find(event->hosts.begin(), event->hosts.end(), share.host) != event->hosts.end()) return true;
  }
  return false;
}

const char* JobsTrace::reason_of(const Stretch& ended, const Stretch& next) const {
  if (ended.placement.empty()) return "started";
  if (!next.given) return "ready";
  if (lost_a_host(ended)) return "host lost";
  if (next.placement.empty()) return "preempted";
  if (next.placement.gpus() != ended.placement.gpus()) return "resized";
  return next.placement == ended.placement ? "changed" : "moved";
}

// Of a job that waits, of the GPUs that it asked for.
double JobsTrace::gpu_s(const Stretch& stretch) const {
  const int gpus = stretch.placement.empty() ? workload_.jobs[static_cast<size_t>(stretch.job.value)].gpus
                                             : stretch.placement.gpus();
  return (stretch.to_s - stretch.from_s) * gpus;
}

void JobsTrace::prune() {
  if (slices_ <= most_slices_) return;
  std::vector<size_t> order(stretches_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return gpu_s(stretches_[a]) > gpu_s(stretches_[b]); });
  slices_ = 0;
  size_t kept = 0;
  while (kept < order.size() && slices_ + slices_of(stretches_[order[kept]]) <= most_slices_)
    slices_ += slices_of(stretches_[order[kept++]]);
  left_out_ += order.size() - kept;
  order.resize(kept);
  std::sort(order.begin(), order.end());
  std::vector<Stretch> largest;
  std::vector<size_t> place(stretches_.size(), kNone);
  for (const size_t i : order) {
    place[i] = largest.size();
    largest.push_back(std::move(stretches_[i]));
  }
  for (size_t& last : last_) last = last == kNone ? kNone : place[last];
  stretches_ = std::move(largest);
}

std::string JobsTrace::placements_csv() const {
  constexpr const char* kWhat[] = {"waits", "changes", "trains"};
  const int per_gpu = fleet_.per_gpu;
  std::vector<std::string> devices;
  if (per_gpu > 1) {
    for (const Stretch& one : stretches_) devices.push_back(slices_text(one.placement));
  } else {
    std::vector<Seats> seats;
    for (const Stretch& one : stretches_)
      seats.push_back({one.from_s, one.to_s, one.job, &one.placement, one.given, one.beside});
    devices = devices_of(fleet_, seats);
  }
  std::string text = fmt::format("from_s,to_s,job,what,gpus,hosts,{},reason\n", per_gpu > 1 ? "slices" : "devices");
  for (size_t i = 0; i < stretches_.size(); ++i) {
    const Stretch& one = stretches_[i];
    std::string hosts;
    for (const policy::HostShare& share : one.placement.hosts)
      hosts += fmt::format("{}h{}:{}", hosts.empty() ? "" : " ", share.host.value, whole_gpus(share.gpus, per_gpu));
    text += fmt::format("{},{},{},{},{},{},{},{}\n", one.from_s, one.to_s,
                        csv_cell(workload_.jobs[static_cast<size_t>(one.job.value)].name),
                        kWhat[static_cast<size_t>(one.what)], whole_gpus(one.placement.gpus(), per_gpu), hosts,
                        devices[i], one.reason);
  }
  return text;
}

std::string hosts_csv(const policy::Fleet& fleet, const policy::Availability& availability, double end_s) {
  std::string text = "host,type,gpus,up_from_s,up_to_s\n";
  const std::vector<Times> times = uptimes(fleet.hosts.size(), availability, end_s);
  for (size_t h = 0; h < times.size(); ++h) {
    const policy::HostSpec& host = fleet.hosts[h];
    const std::string& type = fleet.types[static_cast<size_t>(host.type.value)].name;
    for (const auto& [from_s, to_s] : times[h])
      text += fmt::format("h{},{},{},{},{}\n", h, csv_cell(type), host.gpus / fleet.per_gpu, from_s, to_s);
  }
  return text;
}

std::string JobsTrace::finish(const policy::Outcome& outcome) {
  for (size_t j = 0; j < open_.size(); ++j) {
    const bool ran_on = !over_[j] || (j < outcome.jobs.size() && outcome.jobs[j].end == policy::JobEnd::kUnfinished);
    if (!over_[j]) ended(outcome.end_s, JobId(static_cast<int64_t>(j)));
    if (last_[j] == kNone) continue;
    const policy::JobEnd end = j < outcome.jobs.size() ? outcome.jobs[j].end : policy::JobEnd::kFinished;
    if (end == policy::JobEnd::kRefused) stretches_[last_[j]].reason = "refused";
    if (end == policy::JobEnd::kTooLarge) stretches_[last_[j]].reason = "too large";
    if (ran_on) stretches_[last_[j]].reason = "end of run";
  }
  prune();
  return Writer(*this, outcome).write();
}

std::string recovery_trace(const std::string& job, int hosts, const policy::Availability& availability,
                           const policy::RecoveryResult& result) {
  TraceWriter trace;
  const uint64_t events = trace.group("events");
  write_fleet_events(availability, result.to_s, events, trace);
  std::vector<Slice> slices;
  Instants changes;
  for (size_t i = 0; i < result.phases.size(); ++i) {
    const policy::RecoveryPhase& phase = result.phases[i];
    const double to_s = i + 1 < result.phases.size() ? result.phases[i + 1].from_s : result.to_s;
    const int before = i > 0 ? result.phases[i - 1].used : 0;
    if (phase.used != before)
      changes.emplace_back(nanoseconds(phase.from_s), fmt::format("{} hosts → {}", before, phase.used));
    if (to_s <= phase.from_s) continue;
    const std::string name = phase.samples_per_s > 0
                                 ? fmt::format("trains on {} {}", phase.used, phase.used == 1 ? "host" : "hosts")
                                 : "does not train";
    const bool goes_on =
        !slices.empty() && slices.back().name == name && slices.back().end == nanoseconds(phase.from_s);
    if (!goes_on) slices.push_back({.begin = nanoseconds(phase.from_s), .name = name});
    slices.back().end = nanoseconds(to_s);
  }
  if (!changes.empty()) trace.instants(trace.track(events, "changes"), std::move(changes));
  const uint64_t cluster = trace.group("cluster");
  using Pair = std::pair<double, double>;
  write_samples(trace, cluster, "hosts up", "hosts", result.phases,
                [](const policy::RecoveryPhase& phase) { return Pair(phase.from_s, phase.live); });
  write_samples(trace, cluster, "hosts in the job", "hosts", result.phases,
                [](const policy::RecoveryPhase& phase) { return Pair(phase.from_s, phase.used); });
  write_samples(trace, cluster, "throughput", "samples/s", result.phases,
                [](const policy::RecoveryPhase& phase) { return Pair(phase.from_s, phase.samples_per_s); });
  trace.slices(trace.group("jobs"), job, std::move(slices));
  const uint64_t group = trace.group("hosts");
  std::vector<std::vector<Slice>> down = downtimes(static_cast<size_t>(hosts), availability, result.to_s);
  for (size_t h = 0; h < down.size(); ++h) trace.slices(group, fmt::format("h{}", h), std::move(down[h]));
  return trace.finish();
}

}  // namespace scalai::report
