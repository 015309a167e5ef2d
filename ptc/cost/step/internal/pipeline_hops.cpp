#include "ptc/cost/step/internal/pipeline_hops.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::step::internal {
namespace {

// 0 means unlimited.
double least(double a, double b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

struct End {
  int64_t host = 0;
  int nic = 0;
  bool enters = false;
  double nic_bytes_per_s = 0, limit_bytes_per_s = 0;
  std::tuple<int64_t, int, bool> key() const { return {host, nic, enters}; }
};

Hop hop_of(std::vector<End> ends) {
  Hop hop{.crosses_hosts = !ends.empty()};
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.key() < b.key(); });
  for (size_t first = 0, i = 1; i <= ends.size(); ++i) {
    hop.bytes_per_s = least(hop.bytes_per_s, ends[i - 1].limit_bytes_per_s);
    if (i < ends.size() && ends[i].key() == ends[first].key()) continue;
    hop.bytes_per_s = least(hop.bytes_per_s, ends[first].nic_bytes_per_s / static_cast<double>(i - first));
    first = i;
  }
  return hop;
}

}  // namespace

Port port_of(const cluster::Host& host, int64_t host_index, int local) {
  // More NICs than GPUs: each GPU has several.
  const double nics_bytes_per_s = host.nics * host.nic_bytes_per_s;
  return {.host = host_index,
          .nic = local * host.nics / host.gpus,
          .nic_bytes_per_s =
              host.nics > host.gpus ? nics_bytes_per_s / host.gpus : std::min(nics_bytes_per_s, host.nic_bytes_per_s),
          .limit_bytes_per_s = host.pcie_bytes_per_s};
}

std::vector<Hop> hops_of(const PipelineRanks& ranks, const std::function<Port(int)>& port_of_rank) {
  std::vector<Hop> hops;
  if (ranks.stages == 1) return hops;
  const int block = ranks.stages * ranks.stride;
  SCALAI_CHECK(ranks.world % block == 0);
  std::vector<End> ends;
  for (int stage = 0; stage < ranks.stages; ++stage) {
    ends.clear();
    const int next = (stage + 1) % ranks.stages;
    for (int first = 0; first < ranks.world; first += block) {
      for (int i = first; i < first + ranks.stride; ++i) {
        const Port from = port_of_rank(i + stage * ranks.stride), to = port_of_rank(i + next * ranks.stride);
        if (from.host == to.host) continue;
        ends.push_back({from.host, from.nic, false, from.nic_bytes_per_s, from.limit_bytes_per_s});
        ends.push_back({to.host, to.nic, true, to.nic_bytes_per_s, to.limit_bytes_per_s});
      }
    }
    hops.push_back(hop_of(ends));
  }
  return hops;
}

std::vector<Hop> uniform_hops(const PipelineRanks& ranks, const cluster::Host& host) {
  if (ranks.stages == 1) return {};
  const auto port = [&host](int rank) { return port_of(host, rank / host.gpus, rank % host.gpus); };
  const int block = ranks.stages * ranks.stride;
  if (ranks.world <= host.gpus || host.gpus % block == 0) return {Hop{}};
  // Stages of whole hosts: two hosts that all of a stage's GPUs send between.
  if (ranks.stride % host.gpus == 0) {
    return {hops_of({.stages = 2, .stride = host.gpus, .world = 2 * host.gpus}, port).front()};
  }
  // From then on ranks lie on hosts as before.
  const int64_t period = std::lcm(int64_t{block}, int64_t{host.gpus});
  return hops_of({ranks.stages, ranks.stride, static_cast<int>(std::min<int64_t>(period, ranks.world))}, port);
}

}  // namespace scalai::step::internal
