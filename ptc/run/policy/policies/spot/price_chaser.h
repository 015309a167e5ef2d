#pragma once
// Follows the prices: a job runs where its work costs least ("Analysis and Exploitation of Dynamic Pricing in the
// Public Cloud for ML Training", DISPA'20), with one GPU type of the fleet for each cloud, region and kind.
//
//   place       the type with room and the most work per dollar
//   move        only if it saves more over the expected stay than it costs:
//                 saved = rate' × stay × (dollars per work here - there)
//                 cost = state × dollars per byte + restart on the new GPUs
//               and at most `moves_per_day` times in any 24 hours (the study: one keeps most of the gain)
//   taken away  the cheapest type with room; this move is not counted
//   deadline    only types that alone would meet the deadline after two changes; if there is none, the fastest

#include <memory>

#include "ptc/run/policy/policy.h"

namespace scalai::policy::spot {

struct ChaserOptions {
  double state_gb = 0;  // state that moves between clouds or regions
  double egress_usd_per_gb = 0;
  double expected_stay_s = 86400;
  double moves_per_day = 1;  // 0 = no voluntary moves
};

std::unique_ptr<Policy> make_price_chaser(const ChaserOptions& options);

}  // namespace scalai::policy::spot
