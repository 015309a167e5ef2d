#pragma once
// What a pipeline's messages get on their way from one stage to the next: whether they leave their hosts, and how many
// GPUs share the NICs they leave and enter through.

#include <cstdint>
#include <functional>
#include <vector>

#include "ptc/cost/step/hardware.h"

namespace scalai::step::internal {

// Where a rank's messages leave its host.
struct Port {
  int64_t host = 0;
  int nic = 0;                   // of the host
  double nic_bytes_per_s = 0;    // 0 = unlimited
  double limit_bytes_per_s = 0;  // of the GPU itself, its way to the NIC; 0 = unlimited
};
// Of the GPU with this index on such a host. GPUs are dealt out to the NICs in order.
Port port_of(const cluster::Host& host, int64_t host_index, int local);

// A rank's stage is rank / stride % stages.
struct PipelineRanks {
  int stages = 1;
  int stride = 1;
  int world = 1;
};

// Hardware::hops of these ranks: of each hop the slowest of its messages, when all ranks of a stage send at once.
std::vector<Hop> hops_of(const PipelineRanks& ranks, const std::function<Port(int)>& port_of_rank);

// The same where hosts of this kind hold the ranks one after the other, in a time that hardly grows with their number.
std::vector<Hop> uniform_hops(const PipelineRanks& ranks, const cluster::Host& host);

}  // namespace scalai::step::internal
