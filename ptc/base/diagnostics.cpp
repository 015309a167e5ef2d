#include "ptc/base/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "ptc/base/utf8.h"

namespace scalai {
namespace {

constexpr size_t kColumnsShown = 160;

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (true) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    if (end == std::string_view::npos) return lines;
    text.remove_prefix(end + 1);
  }
}

// "file:3:7", "file:3" without a column, "file" for the whole file.
std::string place_text(const std::string& file, const SourcePlace& place) {
  std::string text = printable_text(file);
  if (place.line > 0) text += fmt::format(":{}", place.line);
  if (place.line > 0 && place.column > 0) text += fmt::format(":{}", place.column);
  return text;
}

void add_line(std::string& out, std::string line) {
  while (line.ends_with(' ')) line.pop_back();
  out += line + "\n";
}

// The source line with a caret line under it; only a window around the caret when the line is long.
std::string excerpt(const std::vector<std::string>& lines, const SourcePlace& place) {
  if (place.line < 1 || static_cast<size_t>(place.line) > lines.size()) return "";
  const std::vector<std::string_view> line = characters(lines[static_cast<size_t>(place.line) - 1]);
  const size_t caret = std::min(static_cast<size_t>(std::max(place.column, 1)) - 1, line.size());
  size_t first = 0;
  size_t last = line.size();
  if (line.size() > kColumnsShown) {
    first = std::min(caret - std::min(caret, kColumnsShown / 2), line.size() - kColumnsShown);
    last = first + kColumnsShown;
  }
  std::string shown = fmt::format("{:5} | ", place.line);
  for (size_t i = first; i < last; ++i) {
    const bool cut = (i == first && first > 0) || (i + 1 == last && last < line.size());
    shown += cut ? "…" : printable(line[i]);
  }
  std::string out;
  add_line(out, shown);
  if (place.column < 1) return out;
  const size_t wanted = static_cast<size_t>(std::max(place.length, 1));
  const size_t tildes = std::min(wanted, std::max(last, caret + 1) - caret) - 1;
  add_line(out, fmt::format("      | {}^{}", std::string(caret - first, ' '), std::string(tildes, '~')));
  return out;
}

std::string hint_lines(const std::string& hint) {
  std::string out;
  for (const std::string& line : split_lines(hint)) {
    if (!line.empty()) out += fmt::format("hint: {}\n", printable_text(line));
  }
  return out;
}

// Damerau-Levenshtein distance in which no stretch is edited twice: insertions, deletions, substitutions and swaps of
// neighbours cost 1 each.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before;  // row i - 2
  std::vector<size_t> above(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    std::vector<size_t> row(b.size() + 1, i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::move(above);
    above = std::move(row);
  }
  return above.back();
}

}  // namespace

Diagnostics::Diagnostics(std::string file, const std::string& text)
    : file_(std::move(file)), lines_(split_lines(text)) {}

void Diagnostics::error(SourcePlace place, std::string message, std::string hint) {
  error(Diagnostic{place, std::move(message), std::move(hint), {}});
}

void Diagnostics::error(Diagnostic diagnostic) { problems_.push_back(std::move(diagnostic)); }

std::string Diagnostics::render() const {
  std::vector<const Diagnostic*> ordered;
  std::set<std::tuple<int, int, std::string>> seen;
  for (const Diagnostic& problem : problems_) {
    const bool fresh = seen.emplace(problem.place.line, problem.place.column, problem.message).second;
    if (fresh) ordered.push_back(&problem);
  }
  if (ordered.empty()) return "";
  std::stable_sort(ordered.begin(), ordered.end(), [](const Diagnostic* a, const Diagnostic* b) {
    return std::tie(a->place.line, a->place.column) < std::tie(b->place.line, b->place.column);
  });
  std::string out;
  for (const Diagnostic* problem : ordered) {
    out += fmt::format("{}: error: {}\n", place_text(file_, problem->place), printable_text(problem->message));
    out += excerpt(lines_, problem->place);
    out += hint_lines(problem->hint);
    for (const auto& [place, note] : problem->notes) {
      out += fmt::format("{}: note: {}\n", place_text(file_, place), printable_text(note));
      out += excerpt(lines_, place);
    }
  }
  return out + (ordered.size() == 1 ? "1 error\n" : fmt::format("{} errors\n", ordered.size()));
}

std::string closest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::string::npos;
  for (const std::string& candidate : candidates) {
    const size_t shorter = std::min(word.size(), candidate.size());
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t limit = std::max<size_t>(1, longer / 3);
    if (longer - shorter > limit) continue;  // hopeless, and spares the table for a huge word
    const size_t distance = edit_distance(word, candidate);
    if (distance > limit || distance >= shorter || distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

}  // namespace scalai
