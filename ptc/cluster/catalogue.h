#pragma once
// Machines with names: GPU kinds, hosts, and cloud instances with their prices. Constants come from vendors' data
// sheets and price lists, each with its source. A cluster file overrides any of them; `scalai machines` prints them.
// Any thread may call. Returned pointers and views are valid for the life of the program.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/cluster/cluster.h"

namespace scalai::cluster {

// Null: the name is unknown. Names come in the order of the table, older kinds first.
const GpuKind* find_gpu_kind(std::string_view name);
std::vector<std::string> gpu_kind_names();
// The data sheet behind the constants of a kind; "" if the name is unknown.
std::string_view gpu_kind_source(std::string_view name);

// A host as sold or rented, with its GPUs, links and NICs; first_device is 0 and `host.kind` is the name. A NIC rate of
// 0 means that the seller does not state it (an HGX board, "high" network): a cluster of several such hosts has to give
// it.
struct HostKind {
  std::string name;    // "dgx-h100", "p4d.24xlarge"
  std::string source;  // data sheet, or price list with its date
  Host host;
};
// Null: the name is unknown.
const HostKind* find_host_kind(std::string_view name);
std::vector<std::string> host_kind_names();

// All of them: GPU kinds, then hosts and instances.
std::vector<std::string> machine_names();

// Hint for a name that is not in `known`: the names that continue it ("a100": "did you mean "a100-40g" or …?"), else
// the nearest name, else the command that lists them.
std::string hint_for_unknown(std::string_view name, const std::vector<std::string>& known);

}  // namespace scalai::cluster
