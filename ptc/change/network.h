#pragma once
// NetworkBackend: fluid flows that share links, in virtual time. A flow goes from one endpoint to another, over the
// source's `up` links and the destination's `down` links; all flows on a link share it max-min fairly; latencies are
// zero here (the caller pays alpha terms with its own timer). Two implementations that tests hold equal to 1e-6:
// SimGrid (its CM02 model, settings in simgrid_backend.cpp) and our exact progressive-filling solver (maxmin.cpp).
// One thread; deterministic: the same calls give the same results, bit for bit.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace scalai::change {

struct LinkSpec {
  std::string name;                  // unique, e.g. "h0.nic0.up"
  double bandwidth_bytes_per_s = 0;  // > 0
};

struct EndpointSpec {
  std::string name;       // unique
  std::vector<int> up;    // links a flow from here takes, in order; indices into NetworkSpec::links
  std::vector<int> down;  // links a flow to here takes, in order
  // A flow from here uses so many times its rate on each of its up links: it stands for flows that have the same rate
  // for reasons of symmetry. Empty = once. Only our solver takes this.
  std::vector<int64_t> up_weights = {};
};

struct NetworkSpec {
  std::vector<LinkSpec> links;
  std::vector<EndpointSpec> endpoints;
};

using FlowId = int64_t;

struct FlowEnd {
  FlowId flow = 0;
  double at_s = 0;
  bool failed = false;  // a link on its route is down
};

struct LinkRate {
  int link = 0;
  double bytes_per_s = 0;
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

class NetworkBackend {
 public:
  virtual ~NetworkBackend() = default;
  virtual double now_s() const = 0;
  // Starts a flow of `bytes` >= 0 now. A flow of 0 bytes, or without any link, ends at once (at the next advance). A flow over a link
  // that is down fails at once. Ids count up from 0 in the order of calls.
  virtual FlowId start(int src_endpoint, int dst_endpoint, double bytes) = 0;
  // Forgets a flow that has not ended; it is not reported.
  virtual void cancel(FlowId flow) = 0;
  // Changes a link's capacity now; 0 takes it down: its flows fail (reported by the next advance).
  virtual void set_bandwidth(int link, double bytes_per_s) = 0;
  // Lets time pass until the first flow(s) end or until `until_s`, whichever comes first, and returns what ended at that
  // moment, by flow id. until_s may be infinity when flows are active; CHECK: until_s >= now_s().
  virtual std::vector<FlowEnd> advance_to(double until_s) = 0;
  // Total rate on each link now, bytes/s, indexed like NetworkSpec::links.
  virtual std::vector<double> link_rates() = 0;
  // Links whose total rate is another one than at the last call (0 before the first), with it; by index.
  virtual std::vector<LinkRate> changed_link_rates();

 private:
  std::vector<double> told_rates_;
};

// What is wrong with links and endpoints: names, rates, indices, weights.
absl::Status check_network(const NetworkSpec& spec);

// Exact max-min fair rates of flows, each a list of links, at fixed capacities (progressive filling; Bertsekas and
// Gallager, Data Networks, 6.5.2). A flow with no link gets infinity.
std::vector<double> maxmin_rates(std::span<const double> capacities, std::span<const std::vector<int>> routes);

}  // namespace scalai::change
