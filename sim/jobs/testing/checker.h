#pragma once
// For tests: what a run may never do, checked from the log of placements and the trace of hosts alone, not from the
// engine's ledger. Hook it into a Watcher, run, then ask for the problems.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/jobs/engine.h"

namespace scalai::jobs::testing {

class PlacementLog {
 public:
  PlacementLog(const policy::Workload& workload, const policy::Fleet& fleet, const policy::Availability& availability)
      : workload_(workload), fleet_(fleet), availability_(availability) {}

  void watch(Watcher* watcher) {
    watcher->placed = [this](double now_s, policy::JobId job, const policy::Placement& placement,
                             policy::JobId beside) {
      entries_.push_back(Entry{.at_s = now_s, .job = job, .placement = placement, .beside = beside});
    };
    watcher->ended = [this](double, const policy::Job&, const policy::JobRecord& record) {
      if (record.end == policy::JobEnd::kFinished)
        entries_.push_back(Entry{.at_s = record.finish_s, .job = record.job});
      gone_at_[record.job] = record.end == policy::JobEnd::kFinished ? record.finish_s : -1;
    };
  }

  // All that is wrong, in order of time. `work_conserving`: also whoever waits although what it asks for is free.
  std::vector<std::string> problems(bool work_conserving) {
    reset();
    std::set<double> times;
    for (const Entry& entry : entries_) times.insert(entry.at_s);
    for (const policy::FleetEvent& event : availability_.events) times.insert(event.at_s);
    for (const policy::Job& job : workload_.jobs) times.insert(job.submit_s);
    size_t entry = 0, event = 0;
    for (const double now : times) {
      if (!entries_.empty() && now > entries_.back().at_s) break;  // the run is over
      for (; event < availability_.events.size() && availability_.events[event].at_s <= now; ++event) {
        take(availability_.events[event]);
      }
      for (; entry < entries_.size() && entries_[entry].at_s <= now; ++entry) take(entries_[entry]);
      check(now, work_conserving);
    }
    return problems_;
  }

  // GPUs x seconds each job held.
  std::map<policy::JobId, double> gpu_seconds() const {
    std::map<policy::JobId, double> held;
    std::map<policy::JobId, std::pair<double, int>> since;
    for (const Entry& entry : entries_) {
      const auto [at_s, gpus] = since[entry.job];
      held[entry.job] += (entry.at_s - at_s) * gpus;
      since[entry.job] = {entry.at_s, entry.placement.gpus()};
    }
    return held;
  }

 private:
  struct Entry {
    double at_s = 0;
    policy::JobId job;
    policy::Placement placement;
    policy::JobId beside;
  };

  void reset() {
    problems_.clear();
    now_.clear();
    up_ = availability_.up;
    if (up_.empty()) up_.assign(fleet_.hosts.size(), 1);
    noticed_.assign(fleet_.hosts.size(), 0);
  }

  void take(const policy::FleetEvent& event) {
    for (const HostId host : event.hosts) {
      const size_t k = static_cast<size_t>(host.value);
      if (event.kind == policy::FleetEvent::Kind::kUp) up_[k] = 1;
      if (event.kind == policy::FleetEvent::Kind::kFailed || event.kind == policy::FleetEvent::Kind::kTaken) up_[k] = 0;
      noticed_[k] = event.kind == policy::FleetEvent::Kind::kNotice ? up_[k] : 0;
    }
  }

  void take(const Entry& entry) {
    const auto was = now_.find(entry.job);
    if (was != now_.end() && was->second.beside.valid()) {
      const auto other = now_.find(was->second.beside);
      if (other != now_.end() && other->second.beside == entry.job) other->second.beside = policy::JobId();
    }
    if (entry.placement.empty()) {
      now_.erase(entry.job);
      return;
    }
    now_[entry.job] = entry;
    if (entry.beside.valid() && now_.count(entry.beside) > 0) now_[entry.beside].beside = entry.job;
  }

  void problem(double at_s, const std::string& what) { problems_.push_back(fmt::format("at {} s: {}", at_s, what)); }

  void check(double at_s, bool work_conserving) {
    std::vector<int> used(fleet_.hosts.size(), 0);
    for (const auto& [job, entry] : now_) {
      const auto other = now_.find(entry.beside);
      if (other != now_.end() && other->second.placement.hosts != entry.placement.hosts) {
        problem(at_s, fmt::format("jobs {} and {} share different GPUs", job.value, entry.beside.value));
      }
      if (other != now_.end() && entry.beside < job) continue;
      for (const policy::HostShare& share : entry.placement.hosts) {
        const size_t k = static_cast<size_t>(share.host.value);
        used[k] += share.gpus;
        if (up_[k] == 0) problem(at_s, fmt::format("job {} on host {}, which is down", job.value, k));
        if (fleet_.hosts[k].type != entry.placement.type) problem(at_s, fmt::format("job {} on two types", job.value));
      }
    }
    std::vector<int> free(fleet_.types.size(), 0);
    for (size_t k = 0; k < used.size(); ++k) {
      if (used[k] > fleet_.hosts[k].gpus) problem(at_s, fmt::format("{} GPUs of host {} in use", used[k], k));
      if (up_[k] != 0 && noticed_[k] == 0) {
        free[static_cast<size_t>(fleet_.hosts[k].type.value)] += std::max(0, fleet_.hosts[k].gpus - used[k]);
      }
    }
    if (!work_conserving) return;
    const int most = *std::max_element(free.begin(), free.end());
    for (size_t k = 0; k < workload_.jobs.size(); ++k) {
      const policy::Job& job = workload_.jobs[k];
      const policy::JobId id(static_cast<int64_t>(k));
      const auto gone = gone_at_.find(id);
      const bool waits = job.submit_s <= at_s && now_.count(id) == 0 &&
                         (gone == gone_at_.end() || (gone->second >= 0 && gone->second > at_s));
      if (waits && job.gpus <= most)
        problem(at_s, fmt::format("job {} waits for {} GPUs, {} are free", k, job.gpus, most));
    }
  }

  const policy::Workload& workload_;
  const policy::Fleet& fleet_;
  const policy::Availability& availability_;
  std::vector<Entry> entries_;
  std::map<policy::JobId, double> gone_at_;  // -1: refused, too large or unfinished
  std::map<policy::JobId, Entry> now_;
  std::vector<uint8_t> up_, noticed_;
  std::vector<std::string> problems_;
};

}  // namespace scalai::jobs::testing
