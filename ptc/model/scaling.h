#pragma once
// A smaller model with the structure of a large one: the same layers, heads, key-value groups, experts and tensors, only
// narrower. What is planned for the small one moves the same tensors between the same ranks, with fewer bytes, so that
// a change of a large job can be run in the memory of a small machine.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/model/model.h"

namespace scalai::model {

// A part of a whole: 0 < numerator / denominator <= 1, in lowest terms.
struct Fraction {
  int64_t numerator = 1;
  int64_t denominator = 1;

  bool whole() const { return numerator == denominator; }
  std::string str() const;  // "1/8", "3/10", "1"; parse_fraction reads it back
  friend bool operator==(const Fraction&, const Fraction&) = default;
};

// "1/8", "3/10", or a decimal number above 0 and up to 1: "0.125", "1". Numerator, denominator and the power of ten of a
// decimal are at most 1,000,000. InvalidArgument says what was given and what is accepted.
absl::StatusOr<Fraction> parse_fraction(std::string_view text);

// Sizes of tensor and expert-tensor parallelism that the model is used with.
struct CutSizes {
  std::vector<int> tp, etp;
};

// The model with hidden, feed-forward, vocabulary and head sizes (of a ResNet: channels and classes) multiplied by
// `fraction`, each rounded to the nearest size that can be cut as before, at least 1:
//   hidden           keeps its common divisor with the heads (so hidden = heads x head size stays true)
//   head size        keeps its common divisor with the parts that `cuts.tp` cuts a query group into
//   feed-forward     keeps its common divisors with the heads and with `cuts.etp`
//   vocabulary       to any size; its padding belongs to the layout, as before
// Every tensor-parallel size up to the key-value heads that fitted still fits, larger ones (which cut inside a query
// group) and expert-tensor-parallel sizes when `cuts` lists them. Layers, heads, experts, sequence, tensor names, order, pipeline places and partition rules stay.
// A matrix shrinks by about fraction^2. Published counts are dropped unless the fraction is 1, which changes nothing.
Model scaled(const Model& model, const Fraction& fraction, const CutSizes& cuts = {});

}  // namespace scalai::model
