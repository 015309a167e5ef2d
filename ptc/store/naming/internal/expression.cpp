#include "ptc/store/naming/internal/expression.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "ptc/base/diagnostics.h"
#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

constexpr int kMaxDepth = 32;

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_letter(char c) { return c == '_' || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z'); }

}  // namespace

// sum := product (("+" | "-") product)*   product := value (("*" | "/") value)*   value := NUMBER | NAME | "(" sum ")"
class ExpressionParser {
 public:
  ExpressionParser(std::string_view text, std::span<const std::string> names, Expression::Problem& problem)
      : text_(text), names_(names), problem_(problem) {}

  std::optional<Expression> parse() {
    Expression expression;
    expression.text_ = std::string(text_);
    steps_ = &expression.steps_;
    if (!sum(0)) return std::nullopt;
    if (next() != '\0') return fail(1, fmt::format("\"{}\" is not expected here", text_[at_])), std::nullopt;
    return expression;
  }

 private:
  bool fail(size_t length, std::string message, std::string hint = "") {
    problem_ = {static_cast<int>(at_) + 1, static_cast<int>(std::max<size_t>(length, 1)), std::move(message),
                std::move(hint)};
    return false;
  }

  // The next character that is no blank; 0 at the end.
  char next() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool sum(int depth) {
    if (!product(depth)) return false;
    for (char c = next(); c == '+' || c == '-'; c = next()) {
      ++at_;
      if (!product(depth)) return false;
      steps_->push_back({c == '+' ? Expression::Op::kAdd : Expression::Op::kSubtract});
    }
    return true;
  }

  bool product(int depth) {
    if (!value(depth)) return false;
    for (char c = next(); c == '*' || c == '/'; c = next()) {
      ++at_;
      if (!value(depth)) return false;
      steps_->push_back({c == '*' ? Expression::Op::kMultiply : Expression::Op::kDivide});
    }
    return true;
  }

  bool value(int depth) {
    const char c = next();
    if (c == '(') {
      if (depth == kMaxDepth) return fail(1, fmt::format("more than {} brackets inside each other", kMaxDepth));
      ++at_;
      if (!sum(depth + 1)) return false;
      if (next() != ')') return fail(1, "a \")\" is missing");
      ++at_;
      return true;
    }
    if (is_digit(c)) return number();
    if (is_letter(c)) return name();
    return fail(1, "a number, the name of a size or \"(\" is expected here", "write it like \"(heads + 2*kv_heads)\"");
  }

  bool number() {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    const auto length = static_cast<size_t>(end - (text_.data() + at_));
    if (error != std::errc()) return fail(length, "the number is too large");
    at_ += length;
    steps_->push_back({Expression::Op::kNumber, number});
    return true;
  }

  bool name() {
    size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string name(text_.substr(at_, end - at_));
    const auto found = std::find(names_.begin(), names_.end(), name);
    if (found == names_.end()) {
      const std::string near = closest(name, {names_.begin(), names_.end()});
      return fail(name.size(), fmt::format("unknown size \"{}\"", name),
                  near.empty() ? fmt::format("sizes described before this are {}", fmt::join(names_, ", "))
                               : fmt::format("did you mean \"{}\"?", near));
    }
    at_ = end;
    steps_->push_back({Expression::Op::kName, found - names_.begin()});
    return true;
  }

  std::string_view text_;
  std::span<const std::string> names_;
  Expression::Problem& problem_;
  std::vector<Expression::Step>* steps_ = nullptr;
  size_t at_ = 0;
};

std::optional<Expression> Expression::parse(std::string_view text, std::span<const std::string> names,
                                            Problem& problem) {
  return ExpressionParser(text, names, problem).parse();
}

absl::Status Expression::apply(Op op, std::vector<int64_t>& stack) const {
  const int64_t right = stack.back();
  stack.pop_back();
  int64_t& left = stack.back();
  bool overflow = false;
  switch (op) {
    case Op::kAdd: overflow = __builtin_add_overflow(left, right, &left); break;
    case Op::kSubtract: overflow = __builtin_sub_overflow(left, right, &left); break;
    case Op::kMultiply: overflow = __builtin_mul_overflow(left, right, &left); break;
    default:
      // A divisor below 1 has no meaning among sizes; refusing it also keeps INT64_MIN / -1 out.
      if (right < 1 || left % right != 0)
        return invalid(fmt::format("\"{}\": {} is not a multiple of {}", text_, left, right));
      left /= right;
  }
  return overflow ? invalid(fmt::format("\"{}\" is beyond 64 bits", text_)) : absl::OkStatus();
}

absl::StatusOr<int64_t> Expression::evaluate(std::span<const int64_t> values) const {
  std::vector<int64_t> stack;
  for (const Step& step : steps_) {
    if (step.op == Op::kNumber) {
      stack.push_back(step.number);
    } else if (step.op == Op::kName) {
      SCALAI_CHECK(static_cast<size_t>(step.number) < values.size(), text_);
      stack.push_back(values[static_cast<size_t>(step.number)]);
    } else {
      SCALAI_RETURN_IF_ERROR(apply(step.op, stack));
    }
  }
  SCALAI_CHECK(stack.size() == 1, text_);
  return stack.front();
}

std::vector<size_t> Expression::names() const {
  std::vector<size_t> names;
  for (const Step& step : steps_) {
    const auto name = static_cast<size_t>(step.number);
    if (step.op == Op::kName && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace scalai::store::internal
