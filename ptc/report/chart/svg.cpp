#include "ptc/report/chart/svg.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai::report::chart {
namespace {

constexpr double kCharacter = 7.2;  // pixels, of 12-pixel system fonts, wide ones included

std::string_view entity(std::string_view character) {
  if (character == "&") return "&amp;";
  if (character == "<") return "&lt;";
  if (character == ">") return "&gt;";
  if (character == "\"") return "&quot;";
  if (character == "'") return "&#39;";
  return character == "\n" ? character : printable(character);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const std::string_view character : characters(text)) result += entity(character);
  return result;
}

std::string pixels(double value) {
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

double text_width(std::string_view text) { return kCharacter * static_cast<double>(columns_of(text)); }

std::string fitted(std::string_view text, double width) {
  const auto columns = static_cast<size_t>(std::max(width, 0.0) / kCharacter);
  if (columns_of(text) <= columns) return std::string(text);
  return columns < 3 ? "" : clipped(text, columns);
}

void Svg::element(const std::string& name, const std::string& attributes, std::string_view css, const Note& note) {
  body_ += fmt::format("<{} {}", name, attributes);
  if (!css.empty()) body_ += fmt::format(" class=\"{}\"", css);
  if (!note.series.empty()) {
    body_ += fmt::format(" data-s=\"{}\" data-v=\"{}\"", escaped(note.series), shortest(note.value));
  }
  body_ += note.title.empty() ? "/>" : fmt::format("><title>{}</title></{}>", escaped(note.title), name);
}

void Svg::rect(const Rectangle& r, std::string_view css, const Note& note) {
  element("rect",
          fmt::format("x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", pixels(r.x), pixels(r.y), pixels(r.width),
                      pixels(r.height)),
          css, note);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css) {
  element("line",
          fmt::format("x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"", pixels(x1), pixels(y1), pixels(x2), pixels(y2)), css,
          {});
}

void Svg::circle(double x, double y, double radius, std::string_view css, const Note& note) {
  element("circle", fmt::format("cx=\"{}\" cy=\"{}\" r=\"{}\"", pixels(x), pixels(y), pixels(radius)), css, note);
}

void Svg::path(const std::string& d, std::string_view css, const Note& note) {
  element("path", fmt::format("d=\"{}\"", d), css, note);
}

void Svg::text(double x, double y, std::string_view text, std::string_view css, Anchor anchor) {
  if (text.empty()) return;
  const char* where = anchor == Anchor::kStart    ? ""
                      : anchor == Anchor::kMiddle ? " text-anchor=\"middle\""
                                                  : " text-anchor=\"end\"";
  const std::string names = css.empty() ? "" : fmt::format(" class=\"{}\"", css);
  body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>", pixels(x), pixels(y), where, names, escaped(text));
}

std::string Svg::finish(const std::string& id, const std::string& title, const std::string& description) const {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"{}-t {}-d\"><title id=\"{}-t\">{}</title>"
      "<desc id=\"{}-d\">{}</desc>{}</svg>\n",
      pixels(width_), pixels(height_), id, id, id, escaped(title), id, escaped(description), body_);
}

}  // namespace scalai::report::chart
