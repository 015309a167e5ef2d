#pragma once
// Which hosts still reach each other while links are down. Routes are static (tiers_of): traffic has one way through
// the switches, so hosts without it are apart. Pure function; any thread may call it.

#include <set>
#include <string>
#include <vector>

#include "ptc/cluster/cluster.h"

namespace scalai::cluster {

struct Islands {
  std::vector<int> of_host;         // hosts of one number reach each other; numbered from 0 by their first host
  std::vector<bool> reach_storage;  // by island
};

// `down`: names of links_of(). GPUs use all NICs of a host, so hosts reach each other if all their NICs do. Hosts of
// one NVLink domain need none. A link that is down in one direction is down.
Islands islands_of(const Cluster& cluster, const std::set<std::string>& down);

}  // namespace scalai::cluster
