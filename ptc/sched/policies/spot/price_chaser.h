#pragma once
// Follows the prices: a job runs where its work costs least ("Analysis and Exploitation of Dynamic Pricing in the
// Public Cloud for ML Training", DISPA'20), one GPU type of the fleet for each cloud, region and kind.
//
//   where       the type with room of most work per dollar
//   move        only if over the expected stay it saves more than it costs:
//                 stay' work saved = rate' x stay x (dollars per work here - there)
//                 cost = state x dollars per byte + restart on the new GPUs
//               and at most `moves_per_day` times in any 24 hours (the study: one keeps most of the gain)
//   taken away  the cheapest type with room; that move is not counted
//   deadline    a type is taken only if it alone would keep the deadline after two changes; when none would,
//               the fastest

#include <memory>

#include "ptc/sched/policy.h"

namespace scalai::sched::spot {

struct ChaserOptions {
  double state_gb = 0;  // moved between clouds or regions
  double egress_usd_per_gb = 0;
  double expected_stay_s = 86400;
  double moves_per_day = 1;  // 0 = never moves by itself
};

std::unique_ptr<Policy> make_price_chaser(const ChaserOptions& options);

}  // namespace scalai::sched::spot
