#include "labs/bounds/io_bound.h"

#include <algorithm>

#include "labs/bounds/wavefront.h"
#include "ptc/base/status.h"

namespace scalai::bounds {
namespace {

int64_t compulsory(const ComputationGraph& graph, const Machine& machine) {
  const int64_t kept = machine.repeated ? machine.capacity : 0;
  return std::max<int64_t>(0, graph.used_inputs() - kept) + std::max<int64_t>(0, graph.results() - kept);
}

}  // namespace

absl::StatusOr<IoBound> io_bound(const ComputationGraph& graph, const Machine& machine, int32_t moments) {
  IoBound bound;
  bound.compulsory = compulsory(graph, machine);
  bound.wavefront = wavefront_bound(graph, machine, moments_of(graph, moments)).transfers;
  if (graph.operations() <= kMostSpectral) {
    SCALAI_ASSIGN_OR_RETURN(const SpectralBound spectral, spectral_bound(graph, machine));
    bound.spectral = spectral.transfers;
  }
  bound.transfers = std::max({bound.compulsory, bound.spectral, bound.wavefront});
  if (bound.transfers > 0)
    bound.by = bound.transfers == bound.compulsory  ? "compulsory"
               : bound.transfers == bound.wavefront ? "wavefront"
                                                    : "spectral";
  return bound;
}

}  // namespace scalai::bounds
