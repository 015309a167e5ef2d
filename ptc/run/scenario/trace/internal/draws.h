#pragma once
// Random times. The logarithms of two machines may differ in the last bit, so what is drawn is rounded to milliseconds,
// which makes the same seed give the same trace on both (but for a chance of one in 10^9 a draw).

#include "ptc/base/random.h"

namespace scalai::trace {

double milliseconds(double seconds);                // rounded to the nearest
double exponential(Random& random, double mean_s);  // > 0
// Mean and shape k: scale = mean / Γ(1 + 1/k). k < 1: failures come in bursts, k = 1: exponential, k > 1: wear.
double weibull(Random& random, double mean_s, double shape);
double normal(Random& random);  // mean 0, deviation 1 (Box and Muller), not rounded

}  // namespace scalai::trace
