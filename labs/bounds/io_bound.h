#pragma once
// The highest of the lower bounds of transfers, by name. Pure function; any thread may call it.

#include <string_view>

#include "absl/status/statusor.h"
#include "labs/bounds/computation_graph.h"
#include "labs/bounds/spectral.h"

namespace scalai::bounds {

// Names in static storage: "compulsory" (inputs loaded, results stored), "spectral" (spectral.h), "wavefront"
// (wavefront.h), "none" if all are 0.
struct IoBound {
  int64_t transfers = 0;
  std::string_view by = "none";
  int64_t compulsory = 0, spectral = 0, wavefront = 0;
};

// For one processor. At most `moments` moments are tried for the wavefront. Above kMostSpectral operations the spectral
// bound is left out (0). Errors: those of spectral_bound().
inline constexpr int32_t kMostMoments = 256;
inline constexpr int32_t kMostSpectral = 20000;
absl::StatusOr<IoBound> io_bound(const ComputationGraph& graph, const Machine& machine, int32_t moments = kMostMoments);

}  // namespace scalai::bounds
