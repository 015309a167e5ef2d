#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/internal/functions.h"
#include "ptc/state/transform/transform.h"

namespace scalai::transform {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"cast", "scale", "quantise", "lora", "average"};

struct Call {
  std::string name;
  std::vector<std::string> values;
  std::vector<std::pair<std::string, std::string>> named;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Cuts at commas outside of quotes.
absl::StatusOr<std::vector<std::string>> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (c == ',' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  if (quoted) return invalid("a quotation mark has no end");
  for (std::string& word : words) word = trimmed(word);
  if (words.size() == 1 && words.front().empty()) words.clear();
  return words;
}

std::string unquoted(std::string_view text) {
  std::string plain(trimmed(text));
  std::erase(plain, '"');
  return plain;
}

absl::StatusOr<Call> call_of(std::string_view given) {
  const std::string_view text = trimmed(given);
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') return invalid("is not NAME(…), as in cast(bf16)");
  Call call{.name = std::string(trimmed(text.substr(0, open))), .values = {}, .named = {}};
  const std::string_view inside = text.substr(open + 1);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> words, words_of(inside.substr(0, inside.size() - 1)));
  for (const std::string& word : words) {
    const size_t equals = word.front() == '"' ? std::string::npos : word.find('=');
    if (word.empty() || unquoted(word).empty()) return invalid("has a value that is empty");
    if (equals == std::string::npos) {
      call.values.push_back(unquoted(word));
    } else {
      call.named.emplace_back(trimmed(std::string_view(word).substr(0, equals)),
                              unquoted(std::string_view(word).substr(equals + 1)));
    }
  }
  return call;
}

absl::StatusOr<double> number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    return invalid(fmt::format("\"{}\" is not a number", clipped(text, 40)));
  return value;
}

absl::StatusOr<DType> float_of(const std::string& text) {
  static const std::map<std::string, DType, std::less<>> kKnown = {
      {"fp64", DType::kF64}, {"fp32", DType::kF32}, {"fp16", DType::kF16}, {"bf16", DType::kBF16}};
  if (const auto found = kKnown.find(text); found != kKnown.end()) return found->second;
  const absl::StatusOr<DType> dtype = tensor::parse_dtype(text);
  if (dtype.ok() && tensor::convertible(*dtype, DType::kF32) && tensor::size_of(*dtype) > 1) return *dtype;
  return invalid(fmt::format("\"{}\" is not fp32, bf16, fp16 or fp64", clipped(text, 40)));
}

absl::Status needs_values(const Call& call, size_t least, size_t most, const char* usage) {
  if (call.values.size() >= least && call.values.size() <= most) return absl::OkStatus();
  return invalid(fmt::format("has {} values; it is {}", call.values.size(), usage));
}

absl::StatusOr<Step> step_of(const std::string& text) {
  SCALAI_ASSIGN_OR_RETURN(const Call call, call_of(text));
  Step step{.text = text, .tensors = {}, .what = {}};
  std::optional<double> alpha;
  for (const auto& [key, value] : call.named) {
    if (key == "tensors") {
      step.tensors.push_back(value);
    } else if (key == "alpha" && call.name == "lora" && !alpha) {
      SCALAI_ASSIGN_OR_RETURN(alpha, number_of(value));
    } else {
      return invalid(fmt::format("has no \"{}={}\"", clipped(key, 40), clipped(value, 40)));
    }
  }
  if (call.name == "cast") {
    SCALAI_RETURN_IF_ERROR(needs_values(call, 1, 1, "cast(DTYPE)"));
    SCALAI_ASSIGN_OR_RETURN(const DType dtype, float_of(call.values[0]));
    step.what = internal::cast(dtype);
  } else if (call.name == "scale") {
    SCALAI_RETURN_IF_ERROR(needs_values(call, 1, 1, "scale(FACTOR)"));
    SCALAI_ASSIGN_OR_RETURN(const double factor, number_of(call.values[0]));
    step.what = internal::scale(factor);
  } else if (call.name == "quantise") {
    SCALAI_RETURN_IF_ERROR(needs_values(call, 1, 1, "quantise(i8)"));
    if (call.values[0] != "i8" && call.values[0] != "I8")
      return invalid(fmt::format("\"{}\" is not i8", clipped(call.values[0], 40)));
    step.what = internal::quantise_rows();
  } else if (call.name == "lora") {
    SCALAI_RETURN_IF_ERROR(needs_values(call, 1, 1, "lora(PATH, alpha=A)"));
    step.what = Lora{call.values[0], alpha};
  } else if (call.name == "average") {
    SCALAI_RETURN_IF_ERROR(needs_values(call, 1, 1 << 16, "average(PATH, …)"));
    step.what = Average{call.values};
  } else {
    return invalid(fmt::format("is not one of {}", fmt::join(kNames, ", ")));
  }
  return step;
}

}  // namespace

absl::StatusOr<std::vector<Step>> parse_steps(std::span<const std::string> texts) {
  std::vector<Step> steps;
  std::vector<std::string> problems;
  for (const std::string& text : texts) {
    absl::StatusOr<Step> step = step_of(text);
    if (step.ok()) {
      steps.push_back(*std::move(step));
    } else {
      problems.push_back(fmt::format("{}: {}", clipped(text, 80), message_of(step.status())));
    }
  }
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  return steps;
}

}  // namespace scalai::transform
