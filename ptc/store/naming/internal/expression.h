#pragma once
// Arithmetic over the sizes of a model, as family files write it: "(heads + 2*kv_heads)*head_dim". Whole numbers of 64
// bits; a division has to be exact and nothing may overflow. Values.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::store::internal {

class Expression {
 public:
  struct Problem {
    int position = 1;  // in characters, from 1
    int length = 1;
    std::string message;
    std::string hint;
  };
  // names: what may be used, by index. Nothing when there is a problem.
  static std::optional<Expression> parse(std::string_view text, std::span<const std::string> names, Problem& problem);

  // values[i] is that of names[i]. InvalidArgument: "hidden / heads": 768 is not a multiple of 13.
  absl::StatusOr<int64_t> evaluate(std::span<const int64_t> values) const;

  const std::string& text() const { return text_; }
  std::vector<size_t> names() const;  // that it uses, in order, each once

 private:
  friend class ExpressionParser;
  enum class Op : uint8_t { kNumber, kName, kAdd, kSubtract, kMultiply, kDivide };
  struct Step {
    Op op;
    int64_t number = 0;  // kName: its index
  };
  absl::Status apply(Op op, std::vector<int64_t>& stack) const;

  std::string text_;
  std::vector<Step> steps_;  // postfix
};

}  // namespace scalai::store::internal
