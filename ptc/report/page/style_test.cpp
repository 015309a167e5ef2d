#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "ptc/report/page/internal/document.h"

namespace scalai::report {
namespace {

using Colour = std::array<double, 3>;

// "--fg:#1b1f24" of the light scheme, or of the dark one, which comes second.
Colour colour(const std::string& name, bool dark) {
  const std::string css = style_sheet();
  const size_t from = dark ? css.find("prefers-color-scheme:dark") : 0;
  const size_t at = css.find("--" + name + ":#", from);
  EXPECT_NE(at, std::string::npos) << name;
  std::string digits = css.substr(at + name.size() + 4, css.find_first_of(";}", at) - at - name.size() - 4);
  if (digits.size() == 3) digits = {digits[0], digits[0], digits[1], digits[1], digits[2], digits[2]};
  Colour result{};
  for (size_t i = 0; i < 3; ++i) result[i] = std::stoi(digits.substr(2 * i, 2), nullptr, 16) / 255.0;
  return result;
}

// Relative luminance and contrast of WCAG 2.1.
double luminance(const Colour& c) {
  const auto linear = [](double v) { return v <= 0.03928 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4); };
  return 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
}
double contrast(const Colour& a, const Colour& b) {
  const double x = luminance(a) + 0.05, y = luminance(b) + 0.05;
  return std::max(x, y) / std::min(x, y);
}

TEST(Contrast, OfBlackOnWhiteIs21) { EXPECT_NEAR(contrast({0, 0, 0}, {1, 1, 1}), 21, 1e-9); }

TEST(StyleSheet, TextCanBeRead) {
  for (const bool dark : {false, true}) {
    const Colour ground = colour("bg", dark);
    for (const char* name : {"fg", "muted", "accent"})
      EXPECT_GE(contrast(colour(name, dark), ground), 4.5) << name << dark;
    EXPECT_GE(contrast(colour("on", dark), colour("blue", dark)), 4.5) << "layout names in bars";
    EXPECT_GE(contrast(colour("fg", dark), colour("soft", dark)), 4.5);
  }
}

TEST(StyleSheet, ShapesCanBeSeen) {
  for (const bool dark : {false, true}) {
    for (const char* name :
         {"blue", "orange", "green", "pink", "gold", "sky", "grey", "black", "indigo", "teal", "olive", "rose", "wine"})
      EXPECT_GE(contrast(colour(name, dark), colour("bg", dark)), 3) << name << dark;
  }
}

// Cells of matrices have their values in them.
TEST(StyleSheet, TextOnTheDarkestShadeCanBeRead) {
  const Colour light{0, 102 / 255.0, 168 / 255.0}, dark{70 / 255.0, 135 / 255.0, 190 / 255.0};
  const std::string css = style_sheet();
  ASSERT_NE(css.find("--heat:0,102,168"), std::string::npos);
  ASSERT_NE(css.find("--heat:70,135,190"), std::string::npos);
  ASSERT_NE(css.find(".h8{fill:rgba(var(--heat),.66)}"), std::string::npos);
  for (const bool night : {false, true}) {
    Colour cell = colour("bg", night);
    for (size_t i = 0; i < 3; ++i) cell[i] += 0.66 * ((night ? dark : light)[i] - cell[i]);
    EXPECT_GE(contrast(colour("fg", night), cell), 4.5) << night;
  }
}

}  // namespace
}  // namespace scalai::report
