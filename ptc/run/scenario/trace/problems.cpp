#include "ptc/run/scenario/trace/problems.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::trace {

void Problems::add(const Place& place, std::string_view field, const std::string& reason, const std::string& hint) {
  ++count_;
  if (shown_.size() >= kShown) return;
  std::string text(place.file);
  if (!place.pointer.empty()) {
    text += fmt::format(":{}", printable_text(place.pointer));
  } else if (place.row > 0) {
    text += fmt::format(":{}", place.row);
  }
  if (!text.empty()) text += ": ";
  if (!field.empty()) text += fmt::format("{}: ", printable_text(field));
  text += reason;
  if (!hint.empty()) text += fmt::format("\n  hint: {}", hint);
  shown_.push_back(std::move(text));
}

absl::Status Problems::status() const {
  if (empty()) return absl::OkStatus();
  std::string text;
  for (const std::string& problem : shown_) text += problem + "\n";
  const int64_t more = count_ - static_cast<int64_t>(shown_.size());
  if (more > 0) text += fmt::format("… and {} more\n", more);
  return invalid(text + fmt::format("{} problem{}", count_, count_ == 1 ? "" : "s"));
}

std::string in_quotes(std::string_view value) { return fmt::format("\"{}\"", clipped(value.substr(0, 400), 60)); }

}  // namespace scalai::trace
