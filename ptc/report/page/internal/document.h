#pragma once
// One HTML document: headings, paragraphs, figures with their numbers as a table, tables, and parts that open. Texts
// are escaped here and nowhere else. One thread.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace scalai::report {

struct LegendEntry {
  std::string css;  // class of the colour
  std::string text;
  bool line = false;  // a stroke in place of a square
};

// A header that ends in ">" makes a right-aligned column, as in ptc/base/table.h.
struct PageTable {
  std::vector<std::string> headers;
  std::vector<std::vector<std::string>> rows;
};

struct Figure {
  std::string title;
  std::string caption;  // what is to be seen, units, what was left out; "" = none
  std::vector<LegendEntry> legend;
  // The picture with this id, so many pixels wide; drawn once for windows and once for phones.
  std::function<std::string(const std::string& id, double width)> draw;
  PageTable numbers;  // the same as a table; no rows = none
};

// Figure::draw of a chart (ptc/report/chart), which is copied.
template <class Chart>
std::function<std::string(const std::string&, double)> drawing(Chart chart, std::string (*draw)(const Chart&, double)) {
  return [chart = std::move(chart), draw](const std::string& id, double width) {
    Chart picture = chart;
    picture.id = id;
    return draw(picture, width);
  };
}

class Document {
 public:
  void heading(int level, const std::string& text);
  void paragraph(const std::string& text, const std::string& css = "");
  void list(const std::vector<std::string>& items, const std::string& css = "");
  void figure(const Figure& figure);
  void table(const PageTable& table, const std::string& label);
  void folded(const std::string& summary, const PageTable& table);
  void folded_text(const std::string& summary, const std::string& text);  // fixed pitch
  std::string finish(const std::string& title) const;

 private:
  std::string body_;
  int figures_ = 0;
};

// The style sheet: colours for light, dark and print, and the classes of pictures.
const char* style_sheet();

}  // namespace scalai::report
