#include "ptc/cost/step/collectives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace scalai::step {
namespace {

using Link = Communication::Link;

// NCCL's latencies in seconds and shares of bandwidth, by protocol: LL, LL128, Simple (tuning.cc, 2.26).
struct Protocol {
  double ring_base, tree_base;
  double ring_link, tree_link;
  double ring_network, tree_network;
  double bandwidth;  // share
};
constexpr std::array<Protocol, 3> kProtocols = {{
    {6.6e-6, 6.8e-6, 0.6e-6, 0.6e-6, 2.7e-6, 5e-6, 0.5},
    {14e-6, 14e-6, 1.9e-6, 1.25e-6, 4e-6, 8.5e-6, 0.92},
    {8.4e-6, 8.4e-6, 3.4e-6, 4e-6, 14e-6, 14e-6, 1},
}};
constexpr double kTreeShare = 0.92;
// Each is launched as a kernel of its own (kernels.cpp).
constexpr double kLaunch = 6e-6;
// Rings over hosts: a step within a host takes at least this, three times as long with the Simple protocol (tuning.cc,
// Intel hosts; twice as long on AMD's).
constexpr double kHostFloor = 1e-6;
// Reduction in the switch: 33 µs by NCCL's table; 613 µs for 128 MiB on eight H100 (nccl-tests #290) say 75.
constexpr double kSwitchLatency = 75e-6;
// Of the link, that a large all-reduce in the switch reaches: 474 GB/s bus bandwidth of 450 · 1.75 (nccl-tests #290).
constexpr double kSwitchShare = 0.602;
// Point to point, through a proxy thread when it leaves the host.
constexpr double kMessageLink = 8e-6, kMessageNetwork = 20e-6;

// What a group's rings get of a link, and what its bytes are counted at: nominal, but with all hosts sending at once.
struct Path {
  Link link = Link::kGpuLink;
  double nominal = 0, achieved = 0;  // bytes per second and rank; 0 = unlimited
};

Path path_of(const Links& links, const Group& group) {
  const double link = links.link_bytes_per_s * links.link_efficiency;
  if (group.hosts() == 1) return {Link::kGpuLink, links.link_bytes_per_s, link};
  // A ring enters and leaves a host once; with k ranks there, k rings use k ranks' share of the NICs.
  const double share = links.network_bytes_per_s * group.fabric_share;
  const double reached = share * links.network_efficiency;
  const double network =
      (links.ring_bytes_per_s > 0 ? std::min(reached, links.ring_bytes_per_s) : reached) * group.per_host;
  if (network > 0 && (link == 0 || network <= link)) return {Link::kNetwork, share, network};
  if (link > 0) return {Link::kGpuLink, links.link_bytes_per_s, link};
  return {Link::kNone, 0, 0};
}

Communication made(const Path& path, double latency, double seconds_of_bytes) {
  Communication made{.link = path.link, .latency_s = latency, .seconds = latency + seconds_of_bytes};
  made.bytes = seconds_of_bytes * path.nominal;
  return made;
}

void keep_faster(Communication& best, const Communication& other) {
  if (other.seconds < best.seconds) best = other;
}

// `moved`: bytes through each rank's link. `rounds`: 2 for all-reduce, 1 for half of it.
Communication ring(const Links& links, const Path& path, const Group& group, double moved, int rounds) {
  Communication best{.seconds = std::numeric_limits<double>::infinity()};
  const double between = rounds * (group.hosts() - 1), steps = rounds * (group.ranks - 1);
  for (const Protocol& p : kProtocols) {
    if (links.simple_only && p.bandwidth < 1) continue;
    const double floor = group.hosts() > 1 ? kHostFloor * (p.bandwidth == 1 ? 3 : 1) : 0;
    const double latency =
        kLaunch + p.ring_base + (steps - between) * std::max(p.ring_link, floor) + between * p.ring_network;
    keep_faster(best, made(path, latency, path.achieved > 0 ? moved / (path.achieved * p.bandwidth) : 0));
  }
  return best;
}

Communication broadcast(const Path& path, const Group& group, double bytes) {
  Communication best{.seconds = std::numeric_limits<double>::infinity()};
  for (const Protocol& p : kProtocols) {
    const bool simple = p.bandwidth == 1, inside = group.hosts() == 1;
    const double chunk = inside ? (simple ? p.tree_link : p.ring_link) : (simple ? p.tree_network : p.ring_network);
    const double latency = kLaunch + p.ring_base + group.ranks * chunk;
    keep_faster(best, made(path, latency, path.achieved > 0 ? bytes / (path.achieved * p.bandwidth) : 0));
  }
  return best;
}

Communication tree(const Path& path, const Group& group, double moved) {
  Communication best{.seconds = std::numeric_limits<double>::infinity()};
  const double chain = static_cast<double>(group.ranks) / group.hosts() - 1;  // in a host, uneven ones on average
  for (const Protocol& p : kProtocols) {
    const double latency = kLaunch + p.tree_base +
                           2 * (chain * p.tree_link + std::log2(static_cast<double>(group.hosts())) * p.tree_network);
    const double share = kTreeShare * p.bandwidth;
    keep_faster(best, made(path, latency, path.achieved > 0 ? moved / (path.achieved * share) : 0));
  }
  return best;
}

// What a rank sends within its host and to others.
Communication direct(const Links& links, const Group& group, double within, double between) {
  const Protocol& p = kProtocols.back();
  const Path link{Link::kGpuLink, links.link_bytes_per_s, links.link_bytes_per_s * links.link_efficiency};
  const double share = links.network_bytes_per_s * group.fabric_share;
  const Path network{Link::kNetwork, share, share * links.network_efficiency};
  const auto over = [&](const Path& path, double bytes, double latency) {
    return made(path, latency, path.achieved > 0 ? bytes / path.achieved : 0);
  };
  // Both at once: the slower one counts.
  Communication slower = over(link, within, kLaunch + p.ring_base + p.ring_link);
  if (between > 0) {
    const Communication out = over(network, between, kLaunch + p.ring_base + p.ring_network);
    if (out.seconds > slower.seconds) slower = out;
  }
  return slower;
}

Communication all_to_all(const Links& links, const Group& group, double bytes) {
  const double n = group.ranks, inside = std::min(group.per_host, group.ranks) - 1, outside = n - 1 - inside;
  return direct(links, group, bytes * inside / n, bytes * outside / n);
}

// Of n equal ones, those that k random choices hit.
double hit(double n, double k) { return n * (1 - std::pow(1 - 1 / n, k)); }

}  // namespace

Links links_of(const Hardware& hardware) {
  const cluster::GpuKind& gpu = hardware.stage(0).gpu;
  const Efficiency efficiency = efficiency_of(gpu, Math::kBF16);
  return {.link_bytes_per_s = hardware.link_bytes_per_s,
          .network_bytes_per_s = hardware.nic_bytes_per_s,
          .link_efficiency = efficiency.link,
          .network_efficiency = efficiency.network,
          .ring_bytes_per_s = hardware.ring_bytes_per_s,
          .in_switch_reduction = gpu.in_switch_reduction};
}

Communication collective(const Links& links, Collective kind, const Group& group, double bytes) {
  if (group.ranks <= 1 || bytes <= 0) return {};
  if (kind == Collective::kAllToAll) return all_to_all(links, group, bytes);
  const Path path = path_of(links, group);
  if (kind == Collective::kBroadcast) return broadcast(path, group, bytes);
  const double share = static_cast<double>(group.ranks - 1) / group.ranks;
  if (kind != Collective::kAllReduce) return ring(links, path, group, share * bytes, 1);
  Communication best = ring(links, path, group, 2 * share * bytes, 2);
  if (group.hosts() > 1) keep_faster(best, tree(path, group, 2 * share * bytes));
  if (group.hosts() == 1 && links.in_switch_reduction && group.ranks > 2) {
    keep_faster(best, made(path, kSwitchLatency, path.nominal > 0 ? bytes / (path.nominal * kSwitchShare) : 0));
  }
  return best;
}

Communication dispatch_once(const Links& links, const Group& group, double bytes, double choices) {
  if (group.ranks <= 1 || bytes <= 0) return {};
  const double n = std::min(group.per_host, group.ranks), hosts = group.hosts();
  return direct(links, group, bytes * hit(group.ranks, choices) * (n - 1) / n,
                bytes * hit(hosts, choices) * (hosts - 1) / hosts);
}

Communication message(const Links& links, bool crosses_hosts, double bytes) {
  if (bytes <= 0) return {};
  const double nominal = crosses_hosts ? links.network_bytes_per_s : links.link_bytes_per_s;
  const double efficiency = crosses_hosts ? links.network_efficiency : links.link_efficiency;
  const Path path{crosses_hosts ? Link::kNetwork : Link::kGpuLink, nominal, nominal * efficiency};
  return made(path, crosses_hosts ? kMessageNetwork : kMessageLink, nominal > 0 ? bytes / path.achieved : 0);
}

Communication times(Communication one, double times) {
  one.latency_s *= times;
  one.bytes *= times;
  one.seconds *= times;
  return one;
}

Communication together(const Communication& a, const Communication& b) {
  Communication sum = a.seconds >= b.seconds ? a : b;
  const Communication& other = a.seconds >= b.seconds ? b : a;
  if (other.link == sum.link) {
    sum.latency_s += other.latency_s;
    sum.bytes += other.bytes;
  } else {
    sum.latency_s += other.seconds;  // through another link
  }
  sum.seconds += other.seconds;
  return sum;
}

}  // namespace scalai::step
