#include "ptc/run/policy/host_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::policy {

HostLedger::HostLedger(const Fleet& fleet, const Availability* availability) {
  if (fleet.per_gpu > 1) slices_.emplace(fleet);
  const size_t types = fleet.types.size();
  std::vector<int> widest(types, 0), ever(types, 0);
  std::vector<uint8_t> comes(fleet.hosts.size(), 1);
  const bool some_down = availability != nullptr && !availability->up.empty();
  if (some_down) comes = availability->up;
  if (availability != nullptr) {
    for (const FleetEvent& event : availability->events) {
      if (event.kind != FleetEvent::Kind::kUp) continue;
      for (const HostId host : event.hosts) comes[index(host)] = 1;
    }
  }
  for (size_t k = 0; k < fleet.hosts.size(); ++k) {
    const HostSpec& spec = fleet.hosts[k];
    widest[index(spec.type)] = std::max(widest[index(spec.type)], spec.gpus);
    widest_ = std::max(widest_, spec.gpus);
    if (comes[k] != 0) ever[index(spec.type)] += spec.gpus;
  }
  for (size_t type = 0; type < types; ++type) {
    by_free_.emplace_back(static_cast<size_t>(widest[type]) + 1, Bitmap(fleet.hosts.size()));
    largest_ever_ = std::max(largest_ever_, ever[type]);
  }
  capacity_.assign(types, 0);
  free_in_type_.assign(types, 0);
  up_in_type_.assign(types, 0);
  for (const HostSpec& spec : fleet.hosts) {
    hosts_.push_back(Host{.type = spec.type, .gpus = spec.gpus, .free = spec.gpus, .up = false});
  }
  for (size_t k = 0; k < hosts_.size(); ++k) {
    if (!some_down || availability->up[k] != 0) set_up(HostId(static_cast<int64_t>(k)));
  }
}

int HostLedger::capacity(HostId host) const {
  const Host& entry = hosts_[index(host)];
  return open(entry) ? entry.gpus : 0;
}

void HostLedger::count_free(const Host& host, int sign) {
  free_ += sign * host.free;
  if (host.free == 0 || host.free == host.gpus) return;
  const auto at = scattered_.try_emplace(host.free, 0).first;
  at->second += sign * host.free;
  if (at->second == 0) scattered_.erase(at);
}

void HostLedger::enlist(HostId host) {
  const Host& entry = hosts_[index(host)];
  if (!open(entry)) return;
  if (slices_) slices_->open(host);
  capacity_[index(entry.type)] += entry.gpus;
  free_in_type_[index(entry.type)] += entry.free;
  count_free(entry, 1);
  if (entry.free > 0) by_free_[index(entry.type)][static_cast<size_t>(entry.free)].insert(index(host));
}

void HostLedger::delist(HostId host) {
  const Host& entry = hosts_[index(host)];
  if (!open(entry)) return;
  if (slices_) slices_->close(host);
  capacity_[index(entry.type)] -= entry.gpus;
  free_in_type_[index(entry.type)] -= entry.free;
  count_free(entry, -1);
  if (entry.free > 0) by_free_[index(entry.type)][static_cast<size_t>(entry.free)].erase(index(host));
}

void HostLedger::set_up(HostId host) {
  Host& entry = hosts_[index(host)];
  if (open(entry)) return;
  if (!entry.up) {
    up_gpus_ += entry.gpus;
    up_in_type_[index(entry.type)] += entry.gpus;
  }
  entry.up = true;
  entry.noticed = false;
  enlist(host);
}

void HostLedger::set_noticed(HostId host) {
  Host& entry = hosts_[index(host)];
  if (!open(entry)) return;
  delist(host);
  entry.noticed = true;
}

void HostLedger::set_down(HostId host, double now_s) {
  Host& entry = hosts_[index(host)];
  if (!entry.up) return;
  SCALAI_CHECK(entry.free == entry.gpus,
               fmt::format("host {} goes down with {} GPUs in use", host.value, entry.gpus - entry.free));
  delist(host);
  entry.up = false;
  entry.noticed = false;
  entry.last_down_s = now_s;
  up_gpus_ -= entry.gpus;
  up_in_type_[index(entry.type)] -= entry.gpus;
}

void HostLedger::set_free(HostId host, int free) {
  Host& entry = hosts_[index(host)];
  SCALAI_CHECK(free >= 0 && free <= entry.gpus && entry.up, fmt::format("host {}: {} free", host.value, free));
  if (open(entry)) {
    std::vector<Bitmap>& sets = by_free_[index(entry.type)];
    if (entry.free > 0) sets[static_cast<size_t>(entry.free)].erase(index(host));
    if (free > 0) sets[static_cast<size_t>(free)].insert(index(host));
    free_in_type_[index(entry.type)] += free - entry.free;
    count_free(entry, -1);
  }
  entry.free = free;
  if (open(entry)) count_free(entry, 1);
}

// The open host with the least room that holds `gpus`, one of `own` if any holds them.
HostId HostLedger::best_fit(GpuType type, int gpus, const Placement& own) const {
  HostId best;
  if (own.type == type) {
    for (const HostShare& share : own.hosts) {
      const Host& entry = hosts_[index(share.host)];
      if (!open(entry) || entry.free < gpus) continue;
      if (!best.valid() || entry.free < hosts_[index(best)].free) best = share.host;
    }
  }
  const std::vector<Bitmap>& sets = by_free_[index(type)];
  for (size_t free = static_cast<size_t>(gpus); free < sets.size() && !best.valid(); ++free) {
    if (!sets[free].empty()) best = HostId(sets[free].next(0));
  }
  return best;
}

HostId HostLedger::emptiest(GpuType type, const Placement& own) const {
  const std::vector<Bitmap>& sets = by_free_[index(type)];
  size_t free = sets.size() - 1;
  while (free > 0 && sets[free].empty()) --free;
  SCALAI_CHECK(free > 0, "a placement was asked for that free() does not cover");
  if (own.type == type) {
    for (const HostShare& share : own.hosts) {
      if (sets[free].contains(index(share.host))) return share.host;
    }
  }
  return HostId(sets[free].next(0));
}

Placement HostLedger::place_slices(GpuType type, int gpus) {
  Placement placement{.type = type, .hosts = {}, .slices = slices_->place(gpus)};
  for (const Slice& slice : placement.slices) {
    if (placement.hosts.empty() || placement.hosts.back().host != slice.host)
      placement.hosts.push_back({slice.host, 0});
    placement.hosts.back().gpus += slice.slices;
    set_free(slice.host, hosts_[index(slice.host)].free - slice.slices);
  }
  return placement;
}

Placement HostLedger::place(GpuType type, int gpus, const Placement& own) {
  SCALAI_CHECK(gpus > 0 && fits(type, gpus));
  if (slices_) return place_slices(type, gpus);
  Placement placement{.type = type, .hosts = {}};
  while (gpus > 0) {
    HostId host = best_fit(type, gpus, own);
    if (!host.valid()) host = emptiest(type, own);
    const int taken = std::min(gpus, hosts_[index(host)].free);
    set_free(host, hosts_[index(host)].free - taken);
    placement.hosts.push_back(HostShare{host, taken});
    gpus -= taken;
  }
  std::sort(placement.hosts.begin(), placement.hosts.end());
  return placement;
}

absl::Status HostLedger::take(const Placement& placement) {
  SCALAI_CHECK(!slices_);
  for (const HostShare& share : placement.hosts) {
    const Host& entry = hosts_[index(share.host)];
    if (entry.up && entry.free >= share.gpus) continue;
    return absl::InternalError(
        entry.up ? fmt::format("{} GPUs of host {}, which has {} free", share.gpus, share.host.value, entry.free)
                 : fmt::format("GPUs of host {}, which is down", share.host.value));
  }
  for (const HostShare& share : placement.hosts) set_free(share.host, hosts_[index(share.host)].free - share.gpus);
  return absl::OkStatus();
}

void HostLedger::give(const Placement& placement) {
  if (slices_) slices_->give(placement.slices);
  for (const HostShare& share : placement.hosts) set_free(share.host, hosts_[index(share.host)].free + share.gpus);
}

}  // namespace scalai::policy
