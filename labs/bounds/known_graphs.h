#pragma once
// Computation graphs with known answers, of values of size 1 without operands for inputs (Role::kComputed), and the
// spectra of their Laplacians in closed form. Pure functions; any thread may call them.

#include <cstdint>
#include <vector>

#include "labs/bounds/computation_graph.h"

namespace scalai::bounds {

// The unwrapped butterfly of a fast Fourier transform over 2^levels points: (levels + 1) · 2^levels values. Value j of
// level i > 0 has the operands j and j xor 2^(i−1) of the level above. CHECK: 0 <= levels <= 20.
ComputationGraph butterfly(int levels);
// The dynamic programme of Bellman, Held and Karp for the travelling salesman with `cities` cities: a value for each
// subset, computed from the subsets with one city less. A hypercube of 2^cities values. CHECK: 0 <= cities <= 20.
ComputationGraph bellman_held_karp(int cities);
// n × n matrix product, schoolbook: 2n² entries, n³ products, and n²·(n − 1) sums along chains. CHECK: 1 <= n <= 64.
ComputationGraph matrix_product(int n);
// Values in a row, each computed from earlier ones, each pair with the same probability (Erdős and Rényi's G(n, p),
// edges from the lower to the higher number); no value has more than `most_operands`. CHECK: values >= 1.
ComputationGraph random_graph(int values, double probability, int most_operands, uint64_t seed);

// Eigenvalues of the unweighted Laplacian, ascending, with multiplicity.
//
// Butterfly of l levels. Walsh functions of the column number diagonalise the edges between two levels: those of level
// i to i + 1 become an edge of weight 2, or of weight 0 where the function changes its sign with bit i. Degrees stay.
// So each of the 2^l functions leaves a path of l + 1 levels, broken where it changes sign; a break adds 2 to the
// diagonal of both of its ends (grounded). Pieces of m levels, their number and their eigenvalues:
//   both ends free      1, m = l + 1                       4 − 4·cos(πj / (l + 1)),         j = 0 … l
//   one end grounded    2^(l−m+1), m = 1 … l               4 − 4·cos(π(2j + 1) / (2m + 1)), j = 0 … m − 1
//   both grounded       (l − m)·2^(l−m−1), m = 1 … l − 1   4 − 4·cos(πj / (m + 1)),         j = 1 … m
// The same as in Jain and Zaharia (SPAA 2020), who cite it. CHECK as butterfly().
std::vector<double> butterfly_spectrum(int levels);
// Hypercube: 2i with multiplicity binomial(cities, i).
std::vector<double> hypercube_spectrum(int cities);

}  // namespace scalai::bounds
