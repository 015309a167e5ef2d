#include "ptc/cost/step/internal/uplinks.h"

#include <algorithm>
#include <map>
#include <utility>

namespace scalai::step::internal {

Uplinks::Uplinks(const cluster::Cluster& cluster, std::vector<Seat> seats, double nic_bytes_per_s)
    : seats_(std::move(seats)), nic_bytes_per_s_(nic_bytes_per_s) {
  if (cluster.fabric == cluster::FabricKind::kStar && cluster.backbone_bytes_per_s > 0)
    levels_.push_back(
        {.bytes_per_s = {cluster.backbone_bytes_per_s}, .switch_of = [](HostId) { return 0; }, .top = true});
  for (const cluster::Tier& tier : cluster::tiers_of(cluster)) {
    if (tier.oversubscription <= 1) continue;
    // On rails traffic climbs between blocks of hosts, spread over the rails of a block.
    const int beside = std::max(1, tier.nics);
    std::vector<double> rates;
    const std::vector<double> below = cluster::nics_below(cluster, tier);
    for (size_t at = 0; at < below.size(); ++at) {
      const size_t block = at / static_cast<size_t>(beside);
      if (rates.size() <= block) rates.resize(block + 1);
      rates[block] += below[at] / tier.oversubscription;
    }
    levels_.push_back({.bytes_per_s = std::move(rates),
                       .switch_of = [tier, beside](HostId host) { return tier.switch_of(host, 0) / beside; }});
  }
}

double Uplinks::share(const std::function<void(const Level&, std::vector<double>&)>& load) const {
  double least = 1;
  for (const Level& level : levels_) {
    std::vector<double> sent(level.bytes_per_s.size());
    load(level, sent);
    for (size_t at = 0; at < sent.size(); ++at)
      if (sent[at] > 0 && level.bytes_per_s[at] > 0) least = std::min(least, level.bytes_per_s[at] / sent[at]);
  }
  return least;
}

double Uplinks::share_of_rings(const std::vector<std::vector<int>>& groups, int per_host) const {
  return share([&](const Level& level, std::vector<double>& sent) {
    for (const std::vector<int>& group : groups) {
      for (size_t i = 0; i < group.size(); ++i) {
        const Seat& from = seats_[static_cast<size_t>(group[i])];
        const Seat& to = seats_[static_cast<size_t>(group[(i + 1) % group.size()])];
        if (level.crosses(from, to))
          sent[static_cast<size_t>(level.switch_of(from.host))] += per_host * nic_bytes_per_s_;
      }
    }
  });
}

double Uplinks::share_of_direct(const std::vector<std::vector<int>>& groups) const {
  return share([&](const Level& level, std::vector<double>& sent) {
    for (const std::vector<int>& group : groups) {
      std::map<int64_t, int> in_domain;
      std::map<std::pair<int, int64_t>, int> ranks;  // by switch and domain
      std::map<int, int> below;                      // by switch
      for (const int rank : group) {
        const Seat& seat = seats_[static_cast<size_t>(rank)];
        const int at = level.switch_of(seat.host);
        ++in_domain[seat.domain], ++ranks[{at, seat.domain}], ++below[at];
      }
      const auto all = static_cast<double>(group.size());
      for (const auto& [where, count] : ranks) {
        const double others = all - in_domain[where.second];
        const double elsewhere = level.top ? others : all - below[where.first];
        if (others > 0)
          sent[static_cast<size_t>(where.first)] += count * nic_bytes_per_s_ * std::min(1.0, elsewhere / others);
      }
    }
  });
}

double Uplinks::rate_of_messages(const std::vector<std::pair<int, int>>& from_to) const {
  double least = 0;
  for (const Level& level : levels_) {
    std::vector<int> messages(level.bytes_per_s.size());
    for (const auto& [from, to] : from_to) {
      const Seat& seat = seats_[static_cast<size_t>(from)];
      if (level.crosses(seat, seats_[static_cast<size_t>(to)]))
        ++messages[static_cast<size_t>(level.switch_of(seat.host))];
    }
    for (size_t at = 0; at < messages.size(); ++at) {
      if (messages[at] == 0 || level.bytes_per_s[at] == 0) continue;
      const double rate = level.bytes_per_s[at] / messages[at];
      least = least == 0 ? rate : std::min(least, rate);
    }
  }
  return least;
}

}  // namespace scalai::step::internal
