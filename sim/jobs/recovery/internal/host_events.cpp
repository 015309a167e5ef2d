#include "sim/jobs/recovery/internal/host_events.h"

#include <algorithm>

namespace scalai::jobs::recovery::internal {

std::vector<HostEvent> host_events(const policy::Availability& availability, int hosts, double ready_s) {
  std::vector<HostEvent> events;
  // A usable host counts only if it is the coming before that is still valid: that one's time goes with it.
  std::vector<double> came_s(static_cast<size_t>(hosts), policy::kNever);
  const auto come = [&events, &came_s](int host, double at_s, double ready) {
    if (came_s[static_cast<size_t>(host)] != policy::kNever) return;  // it is there
    came_s[static_cast<size_t>(host)] = at_s;
    events.push_back({at_s, HostEvent::Kind::kCome, host});
    events.push_back({at_s + ready, HostEvent::Kind::kUsable, host});
  };
  for (int host = 0; host < hosts; ++host) {
    const bool up = availability.up.empty() || availability.up[static_cast<size_t>(host)] != 0;
    if (up) come(host, 0, 0);
  }
  for (const policy::FleetEvent& event : availability.events) {
    for (const HostId id : event.hosts) {
      const int host = id.value;
      if (event.kind == policy::FleetEvent::Kind::kUp) come(host, event.at_s, ready_s);
      if (event.kind == policy::FleetEvent::Kind::kNotice)
        events.push_back({event.at_s, HostEvent::Kind::kNotice, host, event.until_s});
      if (event.kind != policy::FleetEvent::Kind::kTaken && event.kind != policy::FleetEvent::Kind::kFailed) continue;
      if (came_s[static_cast<size_t>(host)] == policy::kNever) continue;
      // Gone before it was usable: that moment never comes.
      if (event.at_s < came_s[static_cast<size_t>(host)] + ready_s) {
        const double usable_s = came_s[static_cast<size_t>(host)] + ready_s;
        std::erase_if(events, [host, usable_s, &event](const HostEvent& e) {
          return e.host == host && e.kind == HostEvent::Kind::kUsable && e.at_s > event.at_s && e.at_s <= usable_s;
        });
      }
      came_s[static_cast<size_t>(host)] = policy::kNever;
      events.push_back({event.at_s, HostEvent::Kind::kGone, host});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const HostEvent& a, const HostEvent& b) { return a.at_s < b.at_s; });
  return events;
}

double last_event_s(const policy::Availability& availability) {
  double last = 0;
  for (const policy::FleetEvent& event : availability.events) last = std::max(last, event.at_s);
  return last;
}

}  // namespace scalai::jobs::recovery::internal
