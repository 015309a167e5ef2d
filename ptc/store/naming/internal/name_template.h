#pragma once
// Names with holes, as family files write them: "decoder.layers.{stage_layer}.mlp.experts.{expert}.weight". A hole is a
// number in decimal without leading zeros; in patterns "*" stands for any text. Values.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::store::internal {

enum class Hole : uint8_t { kLayer, kStageLayer, kExpert, kLocalExpert, kChunk, kAny };

struct NameValues {
  int layer = -1;
  int stage_layer = -1;
  int expert = -1;
  int local_expert = -1;
  int chunk = -1;
};

class NameTemplate {
 public:
  NameTemplate() = default;  // ""
  // InvalidArgument: an unknown hole, an open brace, a hole twice, a "*" outside of patterns or more than two of them.
  static absl::StatusOr<NameTemplate> parse(std::string_view text, bool pattern);

  const std::string& text() const { return text_; }
  bool has(Hole hole) const;
  // CHECK: no pattern, and every hole has a value.
  std::string fill(const NameValues& values) const;
  // Whether the name is this with some numbers; these are in `values`.
  bool matches(std::string_view name, NameValues& values) const;

 private:
  struct Piece {
    std::string before;
    bool is_end = false;  // no hole after the text
    Hole hole = Hole::kAny;
  };
  bool matches_from(size_t piece, std::string_view rest, NameValues& values) const;

  std::string text_;
  std::vector<Piece> pieces_;
};

}  // namespace scalai::store::internal
