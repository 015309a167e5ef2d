#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "ptc/base/status.h"
#include "ptc/report/internal/placement_devices.h"

namespace scalai::report {
namespace {

using policy::JobId;
using Devices = std::vector<int>;  // of one host, rising

// {0, 1, 3} → "0-1+3".
std::string ranges(const Devices& devices) {
  std::string text;
  for (size_t i = 0; i < devices.size();) {
    size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1] == devices[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : "+", devices[i]);
    if (last > i) text += fmt::format("-{}", devices[last]);
    i = last + 1;
  }
  return text;
}

class Seating {
 public:
  Seating(const policy::Fleet& fleet, const std::vector<Seats>& seats) : seats_(seats), texts_(seats.size()) {
    for (const policy::HostSpec& host : fleet.hosts) users_.emplace_back(static_cast<size_t>(host.gpus), 0);
  }

  std::vector<std::string> run() {
    std::vector<size_t> order(seats_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return seats_[a].from_s < seats_[b].from_s; });
    for (size_t first = 0, last = 0; first < order.size(); first = last) {
      while (last < order.size() && seats_[order[last]].from_s == seats_[order[first]].from_s) ++last;
      at_once({order.begin() + static_cast<std::ptrdiff_t>(first), order.begin() + static_cast<std::ptrdiff_t>(last)});
    }
    return std::move(texts_);
  }

 private:
  using OnHosts = std::map<HostId, Devices>;

  // All that begin at one moment: nobody takes devices that another one keeps.
  void at_once(const std::vector<size_t>& begun) {
    std::map<JobId, OnHosts> before = leave(seats_[begun.front()].from_s);
    for (const size_t i : begun) keep(i, before[seats_[i].job]);
    for (const bool beside : {false, true}) {
      for (const size_t i : begun)
        if (seats_[i].beside.valid() == beside) fill(i);
    }
    for (const size_t i : begun) {
      for (const auto& [host, devices] : has_[seats_[i].job])
        texts_[i] += fmt::format("{}h{}:{}", texts_[i].empty() ? "" : " ", host.value, ranges(devices));
      ends_.emplace(seats_[i].to_s, seats_[i].job);
    }
  }

  // What those had that end until then, by job.
  std::map<JobId, OnHosts> leave(double now_s) {
    std::map<JobId, OnHosts> left;
    while (!ends_.empty() && ends_.begin()->first <= now_s) {
      const auto [at_s, job] = *ends_.begin();
      ends_.erase(ends_.begin());
      for (const auto& [host, devices] : has_[job]) {
        for (const int device : devices) --users(host, device);
      }
      if (at_s == now_s) left[job] = std::move(has_[job]);
      has_.erase(job);
    }
    return left;
  }

  void keep(size_t seat, const OnHosts& before) {
    const Seats& one = seats_[seat];
    if (one.beside.valid()) return;
    for (const policy::HostShare& share : one.placement->hosts) {
      const auto old = before.find(share.host);
      if (old == before.end()) continue;
      for (const int device : old->second) {
        const bool mine = !one.given || users(share.host, device) == 0;
        if (mine && has_[one.job][share.host].size() < static_cast<size_t>(share.gpus))
          take(one.job, share.host, device);
      }
    }
  }

  void fill(size_t seat) {
    const Seats& one = seats_[seat];
    const auto leader = one.beside.valid() ? has_.find(one.beside) : has_.end();
    const OnHosts shared = leader == has_.end() ? OnHosts() : leader->second;
    for (const policy::HostShare& share : one.placement->hosts) {
      Devices& devices = has_[one.job][share.host];
      if (const auto there = shared.find(share.host); there != shared.end()) {
        for (const int device : there->second)
          if (devices.size() < static_cast<size_t>(share.gpus)) take(one.job, share.host, device);
      }
      while (devices.size() < static_cast<size_t>(share.gpus))
        take(one.job, share.host, least_used(share.host, devices));
      std::sort(devices.begin(), devices.end());
    }
  }

  int least_used(HostId host, const Devices& except) const {
    const std::vector<int>& all = users_[static_cast<size_t>(host.value)];
    int best = -1;
    for (int device = 0; device < static_cast<int>(all.size()); ++device) {
      if (std::find(except.begin(), except.end(), device) != except.end()) continue;
      if (best < 0 || all[static_cast<size_t>(device)] < all[static_cast<size_t>(best)]) best = device;
    }
    SCALAI_CHECK(best >= 0, "a job has more GPUs of a host than it has");
    return best;
  }

  void take(JobId job, HostId host, int device) {
    has_[job][host].push_back(device);
    ++users(host, device);
  }

  int& users(HostId host, int device) { return users_[static_cast<size_t>(host.value)][static_cast<size_t>(device)]; }

  const std::vector<Seats>& seats_;
  std::vector<std::string> texts_;
  std::vector<std::vector<int>> users_;  // jobs on a device, by host and device
  std::map<JobId, OnHosts> has_;
  std::set<std::pair<double, JobId>> ends_;
};

}  // namespace

std::vector<std::string> devices_of(const policy::Fleet& fleet, const std::vector<Seats>& seats) {
  return Seating(fleet, seats).run();
}

}  // namespace scalai::report
