#pragma once
// NetworkBackend: fluid flows over shared links, in virtual time. A flow goes from one endpoint to another, over the
// `up` links of the source and the `down` links of the destination. All flows on a link share it max-min fairly.
// Latencies are zero; the caller adds alpha terms with its own timer. Two implementations, equal to 1e-6 in tests:
// SimGrid (its CM02 model, settings in simgrid_backend.cpp) and an exact progressive-filling solver (maxmin.h). One
// thread. Deterministic: equal calls give equal results, bit for bit.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace scalai::change {

struct LinkSpec {
  std::string name;                  // unique, e.g. "h0.nic0.up"
  double bandwidth_bytes_per_s = 0;  // > 0
};

struct EndpointSpec {
  std::string name;       // unique
  std::vector<int> up;    // links of a flow from here, in order; indices into NetworkSpec::links
  std::vector<int> down;  // links of a flow to here, in order
  // A flow from here uses up_weights[i] times its rate on link up[i]: it stands for several flows with the same rate by
  // symmetry. Empty = once. Only MaxMinBackend accepts weights.
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
  bool failed = false;  // a link of its route is down
};

struct LinkRate {
  int link = 0;
  double bytes_per_s = 0;
  friend bool operator==(const LinkRate&, const LinkRate&) = default;
};

class NetworkBackend {
 public:
  virtual ~NetworkBackend() = default;
  // Virtual time, from 0.
  virtual double now_s() const = 0;
  // Starts a flow of `bytes` >= 0 now. A flow of 0 bytes or without links ends at once, and a flow over a link that is
  // down fails at once; the next advance reports them. Ids count from 0 in the order of calls.
  virtual FlowId start(int src_endpoint, int dst_endpoint, double bytes) = 0;
  // Removes a flow that has not ended; it is never reported.
  virtual void cancel(FlowId flow) = 0;
  // Changes the capacity of a link now; finite (CHECK). 0 takes the link down: its flows fail, and the next advance
  // reports them. A later rate > 0 repairs it.
  virtual void set_bandwidth(int link, double bytes_per_s) = 0;
  // Advances to the next end of flows or to `until_s`, whichever comes first. Returns the flows that ended at that
  // moment, sorted by id; empty if none did. CHECK: until_s >= now_s(), and until_s is finite if no flow is active.
  virtual std::vector<FlowEnd> advance_to(double until_s) = 0;
  // Total rate on each link now, bytes/s, indexed like NetworkSpec::links.
  virtual std::vector<double> link_rates() = 0;
  // Links whose total rate differs from the last call (before the first: 0), with the new rate, sorted by index.
  virtual std::vector<LinkRate> changed_link_rates();

 private:
  std::vector<double> told_rates_;
};

// InvalidArgument with the first problem of the links and endpoints: duplicate names, rates that are not positive and
// finite, link indices out of range, weights that do not match the links.
absl::Status check_network(const NetworkSpec& spec);

// Exact max-min fair rates in bytes/s of flows, each a list of links, at fixed capacities (progressive filling;
// Bertsekas and Gallager, Data Networks, 6.5.2). A flow without links gets infinity. The spans are used during the call
// only.
std::vector<double> maxmin_rates(std::span<const double> capacities, std::span<const std::vector<int>> routes);

}  // namespace scalai::change
