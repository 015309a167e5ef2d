#pragma once
// The spectral bound of transfers: Jain and Zaharia, "Spectral lower bounds on the I/O complexity of computation
// graphs", SPAA 2020, for values of any size, and sharpened at both ends of an execution. Pure functions; any thread
// may call them.
//
// Model: computation_graph.h. Cut any order of the n operations into k segments of n/k, sizes s_1 >= … >= s_k that
// differ by at most 1. R is what a segment uses and others made, W what it makes and others use. At most M of R is in
// fast memory when it begins, so it loads |R| − M; at most M of W stays there when it ends, so it stores |W| − M.
// Nothing is there before the first segment, nobody needs anything after the last one:
//   transfers >= Σ over segments (|R| + |W|) − 2M(k − 1)
// By laplacian.h, |R| + |W| is at least the weight of the edges that leave the segment, which is x'Lx for its indicator
// vector x and the Laplacian L. The trace of X'LX over vectors that are orthogonal and have the lengths s_1 … s_k is
// at least Σ s_i·λ_i (von Neumann's trace inequality), λ_1 <= λ_2 <= … the eigenvalues of L. So for every k
//   transfers >= Σ_{i<=k} s_i·λ_i − 2M(k − 1).
// The published form has floor(n/k) for every s_i and 2Mk; it is never larger.
//
// Other settings:
//   repeated      The execution is one of a sequence of equals. Fast memory may hold inputs before it and results
//                 behind it: 2Mk instead of 2M(k − 1).
//   p processors  Each has fast memory M. Some processor computes at least n/p values, and its k segments alone give
//                 transfers of that one >= Σ_{i<=k} s_i·λ_i − 2M(k − 1), with s_i of n/p operations.
//   even split    Each of p processors computes n/p values. All p·k segments count: the sum over all processors is at
//                 least Σ_{i<=pk} floor(n/(pk))·λ_i − 2Mp(k − 1). For any M, k = 1 is the bound of Donath and Hoffman
//                 for partitions of graphs (1973).
//   inputs, results  With one processor. Each input is loaded and each result stored at least once. A value that t > 1
//                 segments share costs t in the sum, one of which that is, and t − 1 >= t/2. So the sizes of inputs and
//                 results are added, and their weights in L halved (`share` of expand()).

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "labs/bounds/computation_graph.h"
#include "labs/bounds/laplacian.h"

namespace scalai::bounds {

struct Machine {
  int64_t capacity = 1;   // M, in units of the values' sizes; of each processor
  bool repeated = false;  // one processor only
  int processors = 1;
  bool even_split = false;  // with more than one processor: bound the sum, not the largest
};

// Eigenvalues in ascending order, none above the true one; all that are not listed are at least `rest`.
struct Spectrum {
  std::vector<double> lower;
  double rest = 0;
};

// Σ s_i·λ_i minus what fast memory saves, for the best k; below 0 if `repeated` and no k is worth it. `segments` is
// that k.
struct SpectralSum {
  double transfers = 0;
  int segments = 1;
};
// CHECK: capacity >= 0, processors >= 1, `repeated` with one processor.
SpectralSum best_sum(const Spectrum& spectrum, int64_t operations, const Machine& machine);

// The bound with both expansions, the larger. With one processor inputs and results are in it, as above. Never above
// the true one: rounding is towards 0. Errors: those of smallest_eigenvalues().
struct SpectralBound {
  int64_t transfers = 0;
  int segments = 1;
  Expansion expansion = Expansion::kStar;
};
absl::StatusOr<SpectralBound> spectral_bound(const ComputationGraph& graph, const Machine& machine);
// With one expansion, for comparison.
absl::StatusOr<SpectralBound> spectral_bound(const ComputationGraph& graph, const Machine& machine,
                                             Expansion expansion);

// So many eigenvalues are asked for.
inline constexpr int kEigenvalues = 100;

}  // namespace scalai::bounds
