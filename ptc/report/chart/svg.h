#pragma once
// Texts of SVG pictures and HTML: escaping, numbers, and a writer of shapes. Colours are classes of the style sheet
// around the picture ("k-train"), so that one picture serves light, dark and print. Pure functions; any thread may
// call.

#include <string>
#include <string_view>

namespace scalai::report::chart {

// Text for HTML and XML content and attributes: & < > " ' are escaped, control characters and invalid UTF-8 are made
// printable; line ends stay.
std::string escaped(std::string_view text);

// A coordinate in pixels, with at most one decimal: "12", "12.3".
std::string pixels(double value);

// The columns that text of the pictures takes, in pixels (a mean: pictures have no font metrics).
double text_width(std::string_view text);
// The text, cut with "…" to so many pixels; "" where not even two characters fit.
std::string fitted(std::string_view text, double width);

struct Rectangle {
  double x = 0, y = 0, width = 0, height = 0;
};

// What a shape says to programs and under a pointer: data-v (full precision), data-s, <title>.
struct Note {
  std::string title;   // in words; "" = none
  std::string series;  // data-s
  double value = 0;    // data-v; written where `series` is not empty
};

enum class Anchor { kStart, kMiddle, kEnd };

// Writes one picture. One thread.
class Svg {
 public:
  Svg(double width, double height) : width_(width), height_(height) {}
  void rect(const Rectangle& r, std::string_view css, const Note& note = {});
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void text(double x, double y, std::string_view text, std::string_view css = "", Anchor anchor = Anchor::kStart);
  void circle(double x, double y, double radius, std::string_view css, const Note& note = {});
  // `d` as in SVG: "M0 0L1 1".
  void path(const std::string& d, std::string_view css, const Note& note = {});
  // The picture; `id` is unique in its page, title and description are read aloud.
  std::string finish(const std::string& id, const std::string& title, const std::string& description) const;

 private:
  void element(const std::string& name, const std::string& attributes, std::string_view css, const Note& note);
  double width_, height_;
  std::string body_;
};

}  // namespace scalai::report::chart
