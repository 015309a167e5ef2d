#pragma once
// The machines that are known by name: GPU kinds, hosts built of them, and cloud instances with their prices. Constants
// of vendors' data sheets and price lists, each with its source. A cluster file overrides any of them; `scalai
// machines` prints them.

#include <string>
#include <string_view>
#include <vector>

#include "ptc/plan/cluster.h"

namespace scalai::plan {

// Null when the name is unknown. Names are in the order of the table, older kinds first.
const GpuKind* find_gpu_kind(std::string_view name);
std::vector<std::string> gpu_kind_names();
// The data sheet that the kind's constants are of; "" when the name is unknown.
std::string_view gpu_kind_source(std::string_view name);

// A host as sold or rented: its GPUs, links and cards are set, first_device is 0, `host.kind` is the name. A card's
// rate of 0 is one that the seller leaves open (an HGX board, "high" network): a cluster of several hosts has to give
// it.
struct HostKind {
  std::string name;    // "dgx-h100", "p4d.24xlarge"
  std::string source;  // data sheet, price list and its date
  Host host;
};
const HostKind* find_host_kind(std::string_view name);
std::vector<std::string> host_kind_names();

// What to say about a name that is none of `known`: those that it begins ("a100": "did you mean "a100-40g", …?"), the
// nearest one, or the command that lists them.
std::string hint_for_unknown(std::string_view name, const std::vector<std::string>& known);

}  // namespace scalai::plan
