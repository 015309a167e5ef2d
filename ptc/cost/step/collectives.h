#pragma once
// Time of NCCL's collectives and messages: latency + bytes / bandwidth. The fastest algorithm and protocol counts, with
// NCCL's own constants (src/graph/tuning.cc) and links reduced to measured rates. Pure functions; any thread may call
// them.
//
//   all-reduce   ring   base + (2(n−1) − i)·L_link + i·L_net, i = 2(hosts−1); each rank moves 2(n−1)/n of the bytes
//                tree   base + 2((n/hosts−1)·L_link + log2(hosts)·L_net), 0.92 of the ring's bandwidth; several hosts
//                NVLS   the switch reduces: all bytes cross the link once in each direction; one host, n > 2
//   reduce-scatter, all-gather   ring of n−1 steps, (n−1)/n of the bytes, i = hosts−1
//   broadcast    ring   base + n·L of the slowest link (Simple: the tree's), as each rank waits for whole chunks; each
//                rank moves all bytes
//   dispatch     tokens to k of E experts on n ranks of H hosts, once to each: of n (or H) that are hit at random
//                n(1 − (1 − 1/n)^k) are; the rank's and the host's own share stays
//   all-to-all   direct: (n−1)/n of the bytes that a rank sends; the part for other hosts uses the network; the slower
//                of link and network counts
// A ring over hosts runs at the lower of two rates: the link, and the NIC share of the group's ranks on the host with
// the fewest of them.

#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step {

enum class Collective : uint8_t { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kBroadcast };

// Rates of the links that a collective uses.
struct Links {
  double link_bytes_per_s = 0;     // nominal, per GPU and direction; 0 = unlimited
  double network_bytes_per_s = 0;  // nominal share of a GPU, per direction
  double link_efficiency = 0;      // share of link_bytes_per_s that large rings reach, 0 … 1
  double network_efficiency = 0;   // the same of network_bytes_per_s
  double ring_bytes_per_s = 0;     // measured, per GPU: Hardware::ring_bytes_per_s
  bool in_switch_reduction = false;
  bool simple_only = false;  // only the Simple protocol, without LL and LL128
};
// Rates and efficiencies (16-bit row of the GPU kind) of the first stage's GPU.
Links links_of(const Hardware& hardware);

// One collective. `bytes`: for all-reduce and broadcast the buffer; for reduce-scatter and all-gather the whole buffer
// of all ranks; for all-to-all the data that one rank sends, its own share included. All zero for one rank or 0 bytes.
Communication collective(const Links& links, Collective kind, const Group& group, double bytes);

// Tokens of one rank, `bytes` of them in all, each to `choices` experts of the group. All zero for one rank.
Communication dispatch_once(const Links& links, const Group& group, double bytes, double choices);

// One point-to-point message between two GPUs. All zero for 0 bytes.
Communication message(const Links& links, bool crosses_hosts, double bytes);

// times: `one`, repeated; a fraction gives that share of it. together: a, then b; the sum takes the link of the slower
// one, and the time on another link counts as latency.
Communication times(Communication one, double times);
Communication together(const Communication& a, const Communication& b);

}  // namespace scalai::step
