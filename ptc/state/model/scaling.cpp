#include "ptc/state/model/scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/state/model/internal/families.h"

namespace scalai::model {
namespace {

using tensor::Shape;

// With sizes below 2^41 (hugging_face.cpp bounds them far lower) no product below overflows.
constexpr int64_t kMaxTerm = 1'000'000;

std::optional<int64_t> term_of(std::string_view digits) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool all = error == std::errc() && end == digits.data() + digits.size();
  // from_chars takes a sign.
  return all && digits.front() != '-' && value <= kMaxTerm ? std::optional(value) : std::nullopt;
}

// The two terms of "a/b", or of "a.bcd" as abcd / 10^3; not checked further.
std::optional<Fraction> terms_of(std::string_view text) {
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    const auto over = term_of(text.substr(0, slash));
    const auto under = term_of(text.substr(slash + 1));
    return over && under ? std::optional(Fraction{*over, *under}) : std::nullopt;
  }
  const size_t point = std::min(text.find('.'), text.size());
  const auto units = term_of(text.substr(0, point));
  if (!units) return std::nullopt;
  if (point == text.size()) return Fraction{*units, 1};
  const std::string_view decimals = text.substr(point + 1);
  const auto rest = term_of(decimals);
  if (!rest || decimals.size() > 6) return std::nullopt;
  int64_t power = 1;
  for (size_t digit = 0; digit < decimals.size(); ++digit) power *= 10;
  return Fraction{*units * power + *rest, power};
}

// `size` times `fraction`, rounded to the nearest positive multiple of `unit`, which divides `size`; 0 stays 0.
int64_t part_of(int64_t size, const Fraction& fraction, int64_t unit = 1) {
  if (size == 0) return 0;
  SCALAI_CHECK(unit > 0 && size % unit == 0, fmt::format("{} does not divide {}", unit, size));
  const int64_t units = size / unit * fraction.numerator;
  return unit * std::max<int64_t>(1, (2 * units + fraction.denominator) / (2 * fraction.denominator));
}

const Param* find_param(const Model& model, std::string_view name) {
  const auto found =
      std::find_if(model.params.begin(), model.params.end(), [&](const Param& param) { return param.name == name; });
  return found == model.params.end() ? nullptr : &*found;
}

// 0 = no attention.
int64_t head_size_of(const Model& model) {
  const Param* qkv = find_param(model, "layers.0.attention.qkv.weight");
  return qkv == nullptr ? 0 : qkv->shape[0] / qkv_rows(model, 1);
}

// A tp of m times the key-value heads cuts each group's heads/kv_heads + 2 heads into m parts. It fits when m divides
// heads/kv_heads and twice the head size, and still does when the head size keeps what it has in common with all m.
int64_t part_of_head(const Model& model, const Fraction& fraction, const std::vector<int>& tp_sizes) {
  const int64_t size = head_size_of(model);
  if (size == 0) return 0;
  int64_t parts = 1;
  for (const int tp : tp_sizes) {
    if (tp > model.kv_heads && model.heads % tp == 0) parts = std::lcm(parts, int64_t{tp / model.kv_heads});
  }
  return part_of(size, fraction, std::gcd(size, parts));
}

int64_t part_of_ffn(const Model& model, const Fraction& fraction, const std::vector<int>& etp_sizes) {
  if (model.ffn == 0) return 0;
  int64_t unit = std::gcd(model.ffn, int64_t{model.heads});
  for (const int etp : etp_sizes) unit = std::lcm(unit, std::gcd(model.ffn, int64_t{etp}));
  return part_of(model.ffn, fraction, unit);
}

// Every dimension of a ResNet counts channels or classes, except those of the image and of the kernels.
int64_t narrow_channels(const Param& param, int dim, const Fraction& fraction) {
  const int64_t extent = param.shape[dim];
  const bool fixed = dim >= 2 || (dim == 1 && param.name == "stem.conv.weight");
  return fixed ? extent : part_of(extent, fraction);
}

// Rows that count something else than features: positions, token types, experts.
bool counts(const Param& param, int dim) {
  if (dim != 0) return false;
  const std::string_view name = param.name;
  return name == "embedding.position.weight" || name == "embedding.token_type.weight" ||
         name.starts_with("next_sentence.") || name.find(".router.") != std::string_view::npos;
}

// The widths of a transformer, whole and narrow.
struct Widths {
  const Model& whole;
  const Model& part;
  Fraction fraction;
  int64_t head = 0, narrow_head = 0;  // 0: no query, key and value in one tensor
  int64_t unit = 1;                   // that other dimensions keep in common with what they are cut by

  int64_t narrow(const Param& param, int dim) const {
    const int64_t extent = param.shape[dim];
    if (counts(param, dim)) return extent;
    const bool of_heads = param.name.find(".attention.") != std::string::npos &&
                          (dim == 0 ? param.rule == TpRule::kColumn || param.name.find("_norm.") != std::string::npos
                                    : param.rule == TpRule::kRow);
    if (of_heads && head > 0) return extent / head * narrow_head;
    if (param.rule == TpRule::kVocab && dim == 0) return part.vocab;
    const bool cut = param.rule == (dim == 0 ? TpRule::kColumn : TpRule::kRow);
    if (cut && extent == whole.ffn) return part.ffn;
    if (!cut && extent == whole.hidden) return part.hidden;
    return part_of(extent, fraction, std::gcd(extent, unit));
  }
};

void append_narrow(Model& part, const Model& whole, const Widths& widths) {
  for (Param param : whole.params) {
    std::array<int64_t, tensor::kMaxRank> extents{};
    const auto rank = static_cast<size_t>(param.shape.rank());
    for (size_t dim = 0; dim < rank; ++dim) {
      const auto at = static_cast<int>(dim);
      extents[dim] = whole.heads == 0 ? narrow_channels(param, at, widths.fraction) : widths.narrow(param, at);
    }
    param.shape = Shape(std::span<const int64_t>(extents.data(), rank));
    part.params.push_back(std::move(param));
  }
}

}  // namespace

std::string Fraction::str() const { return whole() ? std::string("1") : fmt::format("{}/{}", numerator, denominator); }

absl::StatusOr<Fraction> parse_fraction(std::string_view text) {
  const std::optional<Fraction> terms = terms_of(text);
  if (!terms || terms->numerator < 1 || terms->numerator > terms->denominator) {
    return invalid(
        fmt::format("\"{}\" is not a part of the whole: write a fraction like 1/8, or a decimal number "
                    "above 0 and up to 1 (terms up to {}, six decimals)",
                    text, kMaxTerm));
  }
  const int64_t common = std::gcd(terms->numerator, terms->denominator);
  return Fraction{terms->numerator / common, terms->denominator / common};
}

Model scaled(const Model& model, const Fraction& fraction, const CutSizes& cuts) {
  SCALAI_CHECK(0 < fraction.numerator && fraction.numerator <= fraction.denominator, fraction.str());
  if (fraction.whole()) return model;
  Model part = model;
  part.params.clear();
  part.published_params = 0;
  part.params_rounding = 1;
  const int64_t head_size = part_of_head(model, fraction, cuts.tp);
  const bool of_heads = model.hidden == model.heads * head_size_of(model);
  part.hidden = of_heads ? model.heads * head_size
                         : part_of(model.hidden, fraction, std::gcd(model.hidden, std::max(1, model.heads)));
  part.ffn = part_of_ffn(model, fraction, cuts.etp);
  part.vocab = part_of(model.vocab, fraction);
  int64_t unit = std::max(1, model.heads);
  for (const std::vector<int>* const sizes : {&cuts.tp, &cuts.etp}) {
    for (const int size : *sizes) unit = std::lcm(unit, int64_t{size});
  }
  append_narrow(part, model, {model, part, fraction, head_size_of(model), head_size, unit});
  SCALAI_CHECK(part.params.size() == model.params.size(), model.name);
  return part;
}

}  // namespace scalai::model
