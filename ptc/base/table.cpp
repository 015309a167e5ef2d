#include "ptc/base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr std::string_view kGap = "  ";
constexpr size_t kNarrowestName = 16;
constexpr size_t kNarrowestSentence = 32;
constexpr size_t kLeastName = 8;  // once no column can be left out

std::string padded(const std::string& text, size_t width, bool right) {
  const std::string blanks(width - std::min(width, columns_of(text)), ' ');
  return right ? blanks + text : text + blanks;
}

size_t sum_of(const std::vector<size_t>& shown, const std::vector<size_t>& widths) {
  size_t sum = kGap.size() * (shown.size() - 1);
  for (const size_t column : shown) sum += widths[column];
  return sum;
}

// Lines of a list joined, as a message has them: "lost: first; second".
std::string on_one_line(const std::string& text) {
  if (text.find('\n') == std::string::npos) return text;
  std::string line;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size()), begin = text.find_first_not_of(" \n", at);
    if (begin < end) line += (line.empty() ? "" : line.ends_with(':') ? " " : "; ") + text.substr(begin, end - begin);
    at = end + 1;
  }
  return line;
}

// A text that had one already gets another one, so that each text has one form.
std::string_view without_apostrophes(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\''), text.size()));
}

// A number, and a unit without signs: no function can be called in it.
bool is_number(std::string_view text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == ' ' || c == '%' || c == '/';
  };
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && std::all_of(end, text.data() + text.size(), plain);
}

bool is_formula(std::string_view text) {
  if (text.empty() || std::string_view("=+-@\t\r").find(text[0]) == std::string_view::npos) return false;
  const bool sign = text[0] == '+' || text[0] == '-';
  return !(sign && (text.size() == 1 || is_number(text.substr(1))));
}

std::string csv_line(const std::vector<std::string>& cells) {
  // A lone empty cell would read back as no record at all.
  if (cells.size() == 1 && cells[0].empty()) return "\"\"\n";
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_cell(cells[i]);
  }
  return line + "\n";
}

}  // namespace

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  SCALAI_CHECK(!headers_.empty());
  for (std::string& header : headers_) {
    kinds_.push_back(header.ends_with('>') ? Kind::kNumber : header.ends_with('~') ? Kind::kSentence : Kind::kName);
    if (kinds_.back() != Kind::kName) header.pop_back();
  }
}

void Table::leave_out_first(const std::vector<std::string>& headers) {
  for (const std::string& header : headers) {
    SCALAI_CHECK(std::find(headers_.begin(), headers_.end(), header) != headers_.end(), header);
    for (size_t i = headers_.size(); i-- > 0;) {
      if (headers_[i] == header) left_out_.push_back(i);
    }
  }
}

void Table::row(std::vector<std::string> cells) {
  SCALAI_CHECK(cells.size() == headers_.size());
  for (std::string& cell : cells) cell = on_one_line(cell);
  rows_.push_back(std::move(cells));
}

void Table::rule() { rows_.emplace_back(); }

std::vector<size_t> Table::widths() const {
  std::vector<size_t> widths;
  for (size_t i = 0; i < headers_.size(); ++i) {
    size_t width = columns_of(headers_[i]);
    for (const auto& cells : rows_) width = cells.empty() ? width : std::max(width, columns_of(cells[i]));
    widths.push_back(width);
  }
  return widths;
}

// Takes columns from sentences, then from names, always from the widest one. False: it is still too wide.
bool Table::narrowed(Fit& fit, size_t columns, size_t narrowest_name) const {
  for (const auto& [kind, narrowest] :
       {std::pair(Kind::kSentence, kNarrowestSentence), std::pair(Kind::kName, narrowest_name)}) {
    while (sum_of(fit.shown, fit.widths) > columns) {
      size_t* widest = nullptr;
      for (const size_t column : fit.shown) {
        const size_t least = std::max(narrowest, columns_of(headers_[column]));
        if (kinds_[column] != kind || fit.widths[column] <= least) continue;
        if (widest == nullptr || fit.widths[column] > *widest) widest = &fit.widths[column];
      }
      if (widest == nullptr) break;
      --*widest;
    }
  }
  return sum_of(fit.shown, fit.widths) <= columns;
}

Table::Fit Table::fit(size_t columns) const {
  const std::vector<size_t> whole = widths();
  Fit fit{.shown = {}, .widths = whole};
  for (size_t i = 0; i < headers_.size(); ++i) fit.shown.push_back(i);
  if (columns == 0) return fit;
  std::vector<size_t> order = left_out_;
  for (size_t i = headers_.size(); i-- > 1;) {
    if (std::find(order.begin(), order.end(), i) == order.end()) order.push_back(i);
  }
  for (const size_t next : order) {
    if (narrowed(fit, columns, kNarrowestName)) return fit;
    std::erase(fit.shown, next);
    fit.widths = whole;
  }
  narrowed(fit, columns, kLeastName);
  return fit;
}

std::string Table::line(const std::vector<std::string>& cells, const Fit& fit) const {
  std::vector<std::vector<std::string>> lines;  // by column
  size_t height = 1;
  for (const size_t column : fit.shown) {
    const bool sentence = kinds_[column] == Kind::kSentence;
    lines.push_back(sentence ? wrapped(cells[column], fit.widths[column])
                             : std::vector{clipped_middle(cells[column], fit.widths[column])});
    height = std::max(height, lines.back().size());
  }
  std::string text;
  for (size_t i = 0; i < height; ++i) {
    std::string line;
    for (size_t k = 0; k < fit.shown.size(); ++k) {
      const size_t column = fit.shown[k];
      if (k > 0) line += kGap;
      line += padded(i < lines[k].size() ? lines[k][i] : "", fit.widths[column], kinds_[column] == Kind::kNumber);
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

std::string Table::missing_text(const Fit& fit, const Screen& screen) const {
  const std::vector<size_t> whole = widths();
  std::vector<std::string> absent, shortened;
  for (size_t i = 0; i < headers_.size(); ++i) {
    const bool shown = std::find(fit.shown.begin(), fit.shown.end(), i) != fit.shown.end();
    const std::string name = printable_text(headers_[i]);
    if (!shown && std::find(absent.begin(), absent.end(), name) == absent.end()) absent.push_back(name);
    if (shown && kinds_[i] == Kind::kName && fit.widths[i] < whole[i])
      shortened.push_back(name.empty() ? "names" : name);
  }
  if (absent.empty() && shortened.empty()) return "";
  std::string text;
  if (!absent.empty()) text += fmt::format("not shown: {}; ", fmt::join(absent, ", "));
  if (!shortened.empty()) text += fmt::format("shortened: {}; ", fmt::join(shortened, ", "));
  std::string lines;
  for (const std::string& line : wrapped(text + "--wide shows all", screen.columns))
    lines += styled(screen, Style::kDim, line) + "\n";
  return lines;
}

std::string Table::text(const Screen& screen) const {
  const Fit fit = this->fit(screen.columns);
  std::vector<std::string> dashes;
  for (const size_t width : fit.widths) dashes.emplace_back(width, '-');
  std::string head = line(headers_, fit), rule = line(dashes, fit);
  head.pop_back();
  rule.pop_back();
  rule = styled(screen, Style::kDim, rule) + "\n";
  std::string out = styled(screen, Style::kBold, head) + "\n" + rule;
  for (const auto& cells : rows_) out += cells.empty() ? rule : line(cells, fit);
  return out + missing_text(fit, screen);
}

std::string Table::csv() const {
  std::string out = csv_line(headers_);
  for (const auto& cells : rows_) {
    if (!cells.empty()) out += csv_line(cells);
  }
  return out;
}

std::string csv_cell(const std::string& given) {
  const std::string text = is_formula(without_apostrophes(given)) ? "'" + given : given;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string_view csv_text(std::string_view cell) {
  const bool guarded = cell.starts_with('\'') && is_formula(without_apostrophes(cell));
  return guarded ? cell.substr(1) : cell;
}

}  // namespace scalai
