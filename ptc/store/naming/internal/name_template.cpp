#include "ptc/store/naming/internal/name_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "ptc/base/status.h"

namespace scalai::store::internal {
namespace {

constexpr std::array<std::string_view, 5> kHoles = {"layer", "stage_layer", "expert", "local_expert", "chunk"};
constexpr int kMaxStars = 2;
constexpr size_t kMaxDigits = 9;  // fits an int

int& value_of(NameValues& values, Hole hole) {
  switch (hole) {
    case Hole::kLayer: return values.layer;
    case Hole::kStageLayer: return values.stage_layer;
    case Hole::kExpert: return values.expert;
    case Hole::kLocalExpert: return values.local_expert;
    default: break;
  }
  SCALAI_CHECK(hole == Hole::kChunk);
  return values.chunk;
}

}  // namespace

absl::StatusOr<NameTemplate> NameTemplate::parse(std::string_view text, bool pattern) {
  NameTemplate result;
  result.text_ = std::string(text);
  Piece piece;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '}') return invalid("a \"}\" without a \"{\" before it");
    if (text[at] == '*') {
      if (!pattern) return invalid("\"*\" is for names that are ignored");
      piece.hole = Hole::kAny;
    } else if (text[at] == '{') {
      const size_t close = text.find('}', at);
      if (close == std::string_view::npos) return invalid("a \"{\" without a \"}\" after it");
      const std::string_view name = text.substr(at + 1, close - at - 1);
      const auto* const found = std::find(kHoles.begin(), kHoles.end(), name);
      if (found == kHoles.end())
        return invalid(fmt::format(
            "there is no {{{}}}; use {{layer}}, {{stage_layer}}, {{expert}}, {{local_expert}} or {{chunk}}", name));
      piece.hole = static_cast<Hole>(found - kHoles.begin());
      if (result.has(piece.hole)) return invalid(fmt::format("{{{}}} is there twice", name));
      at = close;
    } else {
      piece.before += text[at];
      continue;
    }
    result.pieces_.push_back(std::move(piece));
    piece = {};
  }
  const auto is_star = [](const Piece& each) { return each.hole == Hole::kAny; };
  if (std::count_if(result.pieces_.begin(), result.pieces_.end(), is_star) > kMaxStars)
    return invalid(fmt::format("more than {} \"*\"", kMaxStars));
  piece.is_end = true;
  result.pieces_.push_back(std::move(piece));
  return result;
}

bool NameTemplate::has(Hole hole) const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [&](const Piece& piece) { return !piece.is_end && piece.hole == hole; });
}

std::string NameTemplate::fill(const NameValues& values) const {
  NameValues given = values;
  std::string name;
  for (const Piece& piece : pieces_) {
    name += piece.before;
    if (piece.is_end) break;
    const int value = value_of(given, piece.hole);
    SCALAI_CHECK(value >= 0, text_);
    name += std::to_string(value);
  }
  return name;
}

bool NameTemplate::matches(std::string_view name, NameValues& values) const {
  return pieces_.empty() ? name.empty() : matches_from(0, name, values);
}

bool NameTemplate::matches_from(size_t index, std::string_view rest, NameValues& values) const {
  const Piece& piece = pieces_[index];
  if (!rest.starts_with(piece.before)) return false;
  rest.remove_prefix(piece.before.size());
  if (piece.is_end) return rest.empty();
  if (piece.hole == Hole::kAny) {
    for (size_t length = 0; length <= rest.size(); ++length) {
      if (matches_from(index + 1, rest.substr(length), values)) return true;
    }
    return false;
  }
  size_t digits = 0;
  while (digits < rest.size() && '0' <= rest[digits] && rest[digits] <= '9') ++digits;
  if (digits == 0 || digits > kMaxDigits || (rest[0] == '0' && digits > 1)) return false;
  std::from_chars(rest.data(), rest.data() + digits, value_of(values, piece.hole));
  return matches_from(index + 1, rest.substr(digits), values);
}

}  // namespace scalai::store::internal
