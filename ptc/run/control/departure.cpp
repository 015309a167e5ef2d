#include "ptc/run/control/internal/departure.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace scalai::control {
namespace {

constexpr double kUnlimited = 1e15;  // bytes/s

std::vector<change::FlowRequest> requests_of(std::span<const change::BulkFlow> flows) {
  std::vector<change::FlowRequest> requests;
  for (const change::BulkFlow& flow : flows)
    requests.push_back({.src = flow.src, .dst = flow.dst, .bytes = flow.bytes});
  return requests;
}

}  // namespace

const change::Platform& Departure::platform() const {
  if (platform_ == nullptr)
    platform_ = std::make_unique<const change::Platform>(condition_.cluster(), change::LinkRates::kReached, stores_);
  return *platform_;
}

double Departure::play(std::span<const change::FlowRequest> flows) const {
  if (flows.empty()) return 0;
  change::MaxMinBackend network(platform().spec());
  for (const auto& [name, share] : condition_.links()) {
    const int link = platform().link(name);
    const double nominal = platform().spec().links[static_cast<size_t>(link)].bandwidth_bytes_per_s;
    network.set_bandwidth(link, nominal * share);
  }
  for (const change::FlowRequest& flow : flows) {
    const auto [src, dst] = platform().route(flow.src, flow.dst, flow.src_process, flow.dst_process, flow.lane);
    (void)network.start(src, dst, static_cast<double>(flow.bytes));
  }
  for (size_t left = flows.size(); left > 0;) {
    const std::vector<change::FlowEnd> ends = network.advance_to(network.next_end_s());
    if (std::any_of(ends.begin(), ends.end(), [](const change::FlowEnd& end) { return end.failed; }))
      return std::numeric_limits<double>::infinity();
    left -= ends.size();
  }
  return network.now_s();
}

double Departure::seconds(const std::vector<change::Stage>& stages, const std::set<DeviceId>& leaving) const {
  const auto leaves = [&](const plan::Location& place) {
    if (place.kind == plan::Location::Kind::kDevice) return leaving.contains(DeviceId(place.index));
    return place.kind == plan::Location::Kind::kHostMemory && condition_.memory_leaves(HostId(place.index));
  };
  const auto reads = [&](const change::Stage& stage) {
    return std::any_of(stage.flows.begin(), stage.flows.end(),
                       [&](const change::FlowRequest& flow) { return leaves(flow.src); });
  };
  auto end = std::find_if(stages.rbegin(), stages.rend(), reads).base();
  if (end == stages.begin()) return 0;
  while (end != stages.end() && std::prev(end)->mark < 0) ++end;
  double total_s = 0;
  std::for_each(stages.begin(), end, [&](const change::Stage& stage) { total_s += stage.wait_s + play(stage.flows); });
  return total_s;
}

double Departure::seconds(std::span<const change::BulkFlow> flows) const { return play(requests_of(flows)); }

Departure::HostRates Departure::rates_of(HostId host) const {
  HostRates rates;
  for (int nic = 0; nic < condition_.cluster().hosts[static_cast<size_t>(host.value)].nics; ++nic) {
    const auto rate_of = [&](const char* direction) {
      const std::string name = fmt::format("h{}.nic{}.{}", host.value, nic, direction);
      const int link = platform().link(name);
      const double nominal =
          link < 0 ? kUnlimited : platform().spec().links[static_cast<size_t>(link)].bandwidth_bytes_per_s;
      const auto share = condition_.links().find(name);
      return share == condition_.links().end() ? nominal : nominal * share->second;
    };
    rates.out_bytes_per_s += rate_of("up");
    rates.in_bytes_per_s += rate_of("down");
  }
  return rates;
}

}  // namespace scalai::control
