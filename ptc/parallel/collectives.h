#pragma once
// How long NCCL's collectives and messages take: time = latency + bytes / bandwidth, the best of its algorithms and
// protocols, with the constants of its own choice (src/graph/tuning.cc) and links derated to what is measured.
//
//   all-reduce   ring   base + (2(n−1) − i)·L_link + i·L_net, i = 2(hosts−1); each rank moves 2(n−1)/n of the bytes
//                tree   base + 2((n/hosts−1)·L_link + log2(hosts)·L_net), 0.92 of ring's bandwidth
//                NVLS   the switch adds up: all bytes over the link once each way; one host
//   reduce-scatter, all-gather   ring of n−1 steps, (n−1)/n of the bytes, i = hosts−1
//   all-to-all   directly (n−1)/n of what a rank sends; the part that leaves the host over the network
// A ring over hosts runs at the slower of the link and the cards that the group's ranks have on the host with the fewest.

#include "ptc/parallel/hardware.h"
#include "ptc/parallel/step_time.h"

namespace scalai::parallel {

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll };

// Links as a collective finds them.
struct Links {
  double link_bytes_per_s = 0;     // nominal, per GPU and direction; 0 = unlimited
  double network_bytes_per_s = 0;  // nominal share of a GPU
  double link_efficiency = 0;      // of link_bytes_per_s, large rings
  double network_efficiency = 0;
  double fabric_share = 1;  // of network_bytes_per_s
  bool in_switch_reduction = false;
  bool simple_only = false;  // without the protocols of low latency
};
Links links_of(const Hardware& hardware);

// One collective. `bytes`: all-reduce, the buffer; reduce-scatter and all-gather, the whole of all ranks; all-to-all,
// what one rank sends, its own share included. Nothing for one rank or 0 bytes.
Communication collective(const Links& links, Collective kind, const Group& group, double bytes);

// A message between two GPUs.
Communication message(const Links& links, bool crosses_hosts, double bytes);

// That `times` over; the share 0 … 1 of it; both after one another (of the slower one's link).
Communication times(Communication one, double times);
Communication together(const Communication& a, const Communication& b);

}  // namespace scalai::parallel
