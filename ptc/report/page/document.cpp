// internal/document.h

#include <fmt/format.h>

#include "ptc/base/utf8.h"
#include "ptc/base/version.h"
#include "ptc/report/chart/svg.h"
#include "ptc/report/page/internal/document.h"
#include "ptc/report/page/page.h"

namespace scalai::report {
namespace {

using chart::escaped;

constexpr double kWide = 940, kNarrow = 360;  // pixels
constexpr size_t kLongCell = 36;              // longer cells of tables wrap
constexpr const char* kMark = "<meta name=\"generator\" content=\"Scalai ";

// Patterns that pictures name.
constexpr const char* kPatterns =
    "<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" "
    "height=\"6\" "
    "patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\" "
    "class=\"hatchline\"/></pattern></defs></svg>\n";

// Parts of a sum begin with two blanks, as in tables for terminals.
std::string indented(const std::string& cell) {
  return cell.starts_with("  ") ? "\u2003" + escaped(cell.substr(2)) : escaped(cell);
}

std::string row_html(const std::vector<std::string>& cells, const std::vector<bool>& right, const char* tag) {
  std::string html = "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool wraps = scalai::columns_of(cells[i]) > kLongCell;
    html += fmt::format("<{}{}>{}</{}>", tag,
                        right[i] ? " class=\"r\""
                        : wraps  ? " class=\"w\""
                                 : "",
                        indented(cells[i]), tag);
  }
  return html + "</tr>\n";
}

std::string table_html(const PageTable& table, const std::string& label) {
  std::vector<std::string> headers = table.headers;
  std::vector<bool> right;
  for (std::string& header : headers) {
    right.push_back(header.ends_with('>'));
    if (right.back()) header.pop_back();
  }
  std::string html = fmt::format(
      "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table><thead>{}</thead><tbody>",
      escaped(label), row_html(headers, right, "th"));
  for (const auto& row : table.rows) html += row_html(row, right, "td");
  return html + "</tbody></table></div>\n";
}

std::string legend_html(const std::vector<LegendEntry>& legend) {
  if (legend.empty()) return "";
  std::string html = "<ul class=\"legend\">";
  for (const LegendEntry& entry : legend)
    html += fmt::format("<li><i class=\"{} {}\"></i>{}</li>", entry.line ? "stroke" : "swatch", entry.css,
                        escaped(entry.text));
  return html + "</ul>\n";
}

}  // namespace

void Document::heading(int level, const std::string& text) {
  body_ += fmt::format("<h{}>{}</h{}>\n", level, escaped(text), level);
}

void Document::paragraph(const std::string& text, const std::string& css) {
  body_ += fmt::format("<p{}>{}</p>\n", css.empty() ? "" : fmt::format(" class=\"{}\"", css), escaped(text));
}

void Document::list(const std::vector<std::string>& items, const std::string& css) {
  body_ += fmt::format("<ul class=\"{}\">", css);
  for (const std::string& item : items) body_ += "<li>" + escaped(item) + "</li>\n";
  body_ += "</ul>\n";
}

void Document::figure(const Figure& figure) {
  const std::string id = fmt::format("f{}", ++figures_);
  body_ += fmt::format("<figure id=\"{0}\" aria-labelledby=\"{0}-h\"><p class=\"title\" id=\"{0}-h\">{1}</p>\n{2}", id,
                       escaped(figure.title), legend_html(figure.legend));
  body_ += "<div class=\"wide\">" + figure.draw(id + "w", kWide) + "</div>\n";
  body_ += "<div class=\"narrow\">" + figure.draw(id + "n", kNarrow) + "</div>\n";
  if (!figure.caption.empty()) body_ += fmt::format("<figcaption>{}</figcaption>\n", escaped(figure.caption));
  if (!figure.numbers.rows.empty()) folded("Numbers", figure.numbers);
  body_ += "</figure>\n";
}

void Document::table(const PageTable& table, const std::string& label) { body_ += table_html(table, label); }

void Document::folded(const std::string& summary, const PageTable& table) {
  body_ += fmt::format("<details><summary>{}</summary>\n{}</details>\n", escaped(summary), table_html(table, summary));
}

void Document::folded_text(const std::string& summary, const std::string& text) {
  body_ += fmt::format("<details><summary>{0}</summary>\n<pre tabindex=\"0\" aria-label=\"{0}\">{1}</pre></details>\n",
                       escaped(summary), escaped(text));
}

std::string Document::finish(const std::string& title) const {
  std::string html = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  html += fmt::format("{}{}\">\n", kMark, kVersion);
  html +=
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src "
      "data:\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n";
  html += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n{}<main>\n", escaped(title),
                      style_sheet(), kPatterns);
  return html + body_ + "</main>\n</body>\n</html>\n";
}

bool is_html_page(const std::string& text) { return text.substr(0, 400).find(kMark) != std::string::npos; }

}  // namespace scalai::report
