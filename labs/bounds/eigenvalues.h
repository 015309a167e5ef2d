#pragma once
// The smallest eigenvalues of a weighted graph's Laplacian, each with a proof that it is not too large. The only user
// of Eigen and Spectra. Pure function; any thread may call it.
//
// Up to kDense vertices: a dense solver, whose backward error n·ε·‖L‖ is taken off.
//
// Larger graphs: Lanczos (Spectra) on the inverse of L + τI, which is factored once. A Lanczos run may miss copies of a
// multiple eigenvalue, and a later one in its place would be too large. So runs are repeated on the complement of what
// has been found until the count is proved: the factors of L − σI have as many negative pivots as there are eigenvalues
// below σ (Sylvester's law of inertia). The pairs found (θ_i, x_i), made an orthonormal basis, have as many eigenvalues
// within ‖LX − XΘ‖ of θ_i (Kahan 1967; Parlett, "The symmetric eigenvalue problem", theorem 11.5.1). If both numbers
// agree, these are all, and λ_i >= θ_i − ‖LX − XΘ‖; all further ones are at least σ less the backward error of the
// second factorisation, which is measured.
// What is not proved is not returned: the list may be shorter than asked for, even empty, and `rest` 0.

#include "absl/status/statusor.h"
#include "labs/bounds/laplacian.h"
#include "labs/bounds/spectral.h"

namespace scalai::bounds {

inline constexpr int32_t kDense = 1000;
inline constexpr int32_t kMostVertices = 65536;
inline constexpr int64_t kMostFactorEntries = int64_t{1} << 27;  // 1.5 GiB

// Errors: InvalidArgument if the graph or its factors are larger than that; Internal with Spectra's or Eigen's reason.
absl::StatusOr<Spectrum> smallest_eigenvalues(const WeightedGraph& graph, int count);

}  // namespace scalai::bounds
