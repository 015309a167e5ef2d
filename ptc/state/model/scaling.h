#pragma once
// A narrower model with the structure of a large one: the same layers, heads, key-value groups, experts and tensors. A
// plan for the narrow model moves the same tensors between the same ranks with fewer bytes, so that a small machine can
// execute a change of a large job. Any thread may call.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/model/model.h"

namespace scalai::model {

// A fraction of a whole: 0 < numerator / denominator <= 1, in lowest terms.
struct Fraction {
  int64_t numerator = 1;
  int64_t denominator = 1;

  bool whole() const { return numerator == denominator; }
  std::string str() const;  // "1/8", "3/10", "1"; parse_fraction reads it back
  friend bool operator==(const Fraction&, const Fraction&) = default;
};

// Parses "1/8", "3/10", or a decimal number above 0 and up to 1 with at most six decimals: "0.125", "1". Numerator and
// denominator are at most 1,000,000. InvalidArgument names the text and the accepted forms.
absl::StatusOr<Fraction> parse_fraction(std::string_view text);

// Sizes of tensor and expert-tensor parallelism that the narrow model has to fit.
struct CutSizes {
  std::vector<int> tp, etp;
};

// The model with hidden, feed-forward, vocabulary and head sizes (of a ResNet: channels and classes) times `fraction`.
// Each size is rounded to the nearest one, at least 1, that divides as before:
//
//   head size      keeps its common divisor with the number of parts of a query group under each size of `cuts.tp`
//   hidden         is heads x head size if it was; else keeps its common divisor with the heads
//   feed-forward   keeps its common divisors with the heads and with each size of `cuts.etp`
//   vocabulary     any size; the layout pads it, as before
//
// A tensor-parallel size that fits the large model and is at most the key-value heads fits the narrow one, too. Larger
// sizes, which cut inside a query group, and expert-tensor-parallel sizes fit if `cuts` lists them. Layers, heads,
// experts, sequence, tensor names, order, pipeline places and partition rules stay. A matrix shrinks by about
// fraction². Published counts are dropped. Fraction 1 returns the model unchanged. CHECK: 0 < fraction <= 1.
Model scaled(const Model& model, const Fraction& fraction, const CutSizes& cuts = {});

}  // namespace scalai::model
