#include "ptc/run/control/event_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/base/utf8.h"

namespace scalai::control {
namespace {

// Each event fills the columns of its own fields and leaves the others empty. fields() below is the only list of them:
// writing and reading both go through it.

const std::vector<std::string>& event_columns() {
  static const std::vector<std::string> columns = {
      "at_s",      "event",      "job",         "step",     "round",     "tag",       "timer",
      "gpus",      "devices",    "failed_at_s", "detect_s", "stop_s",    "plan_s",    "restart_s",
      "prepare_s", "transfer_s", "verify_s",    "resume_s", "aborted_s", "from_step", "samples",
      "sums",      "bytes",      "decision",    "assumed",  "usable",    "cause",     "notice_s"};
  return columns;
}
// Logs from before jobs had datasets, from before there were policies, those that need none of the rest, and those from
// before requests had a notice end with these columns.
constexpr std::array<std::string_view, 4> kLastOldColumns = {"aborted_s", "bytes", "decision", "cause"};
constexpr size_t kOptionalColumns = 4;  // the last ones: only executed runs fill them

constexpr size_t kCauseColumns = 500;

// In the order of EventBody.
constexpr std::array kEventNames = {
    "started",     "step_reached", "round_done", "execution_done", "background_done", "timer_fired", "devices_lost",
    "user_resize", "user_drain",   "user_stop",  "samples_read",   "policy_decided",  "copy_lost",   "user_save"};
static_assert(kEventNames.size() == std::variant_size_v<EventBody>);

// Two columns of one list: samples by rank, and sums.
template <class Accounts>
struct Counts {
  Accounts& accounts;
};
template <class Accounts>
struct Sums {
  Accounts& accounts;
};

template <class Row, class E>
void fields(Row&& row, E& event) {
  using Body = std::remove_const_t<E>;
  if constexpr (requires { event.job; }) row("job", event.job);
  if constexpr (requires { event.step; }) row("step", event.step);
  if constexpr (requires { event.round; }) row("round", event.round);
  if constexpr (requires { event.tag; }) row("tag", event.tag);
  if constexpr (requires { event.timer; }) row("timer", event.timer);
  if constexpr (requires { event.gpus; }) row("gpus", event.gpus);
  if constexpr (requires { event.devices; }) row("devices", event.devices);
  if constexpr (requires { event.failed_at_s; }) row("failed_at_s", event.failed_at_s);
  if constexpr (requires { event.usable; }) row("usable", event.usable);
  if constexpr (std::is_same_v<Body, SamplesRead>) {
    row("from_step", event.from_step);
    row("samples", Counts<std::remove_reference_t<decltype((event.accounts))>>{event.accounts});
    row("sums", Sums<std::remove_reference_t<decltype((event.accounts))>>{event.accounts});
    row("bytes", event.bytes);
    row("assumed", event.assumed);
  }
  if constexpr (std::is_same_v<Body, PolicyDecided>) row("decision", event.decision);
  if constexpr (std::is_same_v<Body, DevicesLost>) row("cause", event.cause);
  if constexpr (requires { event.notice_s; }) row("notice_s", event.notice_s);
  if constexpr (std::is_same_v<Body, ExecutionDone>) {
    row("detect_s", event.phases.detect);
    row("stop_s", event.phases.stop);
    row("plan_s", event.phases.plan);
    row("restart_s", event.phases.restart);
    row("prepare_s", event.phases.prepare);
    row("transfer_s", event.phases.transfer);
    row("verify_s", event.phases.verify);
    row("resume_s", event.phases.resume);
    row("aborted_s", event.phases.aborted);
  }
}

size_t column_of(std::string_view name) {
  const std::vector<std::string>& columns = event_columns();
  const auto found = std::find(columns.begin(), columns.end(), name);
  SCALAI_CHECK(found != columns.end(), std::string(name));
  return static_cast<size_t>(found - columns.begin());
}

std::string cell_of(double value) { return shortest(value); }
std::string cell_of(const std::optional<double>& value) { return value ? shortest(*value) : ""; }
std::string cell_of(bool value) { return value ? "yes" : ""; }
std::string cell_of(int value) { return std::to_string(value); }
std::string cell_of(int64_t value) { return std::to_string(value); }
std::string cell_of(const std::string& text) { return text; }
std::string cell_of(const std::vector<DeviceId>& devices) {
  std::string text;
  for (const DeviceId device : devices) text += fmt::format("{}g{}", text.empty() ? "" : " ", device.value);
  return text;
}

template <class Accounts>
std::string cell_of(const Counts<Accounts>& counts) {
  std::string text;
  for (const datasets::SampleAccount& one : counts.accounts)
    text += fmt::format("{}{}", text.empty() ? "" : " ", one.samples);
  return text;
}
template <class Accounts>
std::string cell_of(const Sums<Accounts>& sums) {
  std::string text;
  for (const datasets::SampleAccount& one : sums.accounts)
    text += fmt::format("{}{:016x}{:016x}", text.empty() ? "" : " ", one.sum_high, one.sum_low);
  return text;
}

std::vector<std::string> cells_of(const Event& event) {
  std::vector<std::string> cells(event_columns().size());
  const auto write = [&](std::string_view column, const auto& value) { cells[column_of(column)] = cell_of(value); };
  write("at_s", event.at_s);
  cells[column_of("event")] = kEventNames.at(event.body.index());
  std::visit([&](const auto& body) { fields(write, body); }, event.body);
  return cells;
}

template <class Number>
requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>) bool parse_cell(std::string_view text,
                                                                                        Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_cell(std::string_view text, bool& value) {
  value = text == "yes";
  return value || text.empty();
}

bool parse_cell(std::string_view text, double& value) {
  return parse_cell<double>(text, value) && std::isfinite(value);
}

bool parse_cell(std::string_view text, std::optional<double>& value) {
  value.reset();
  return text.empty() || parse_cell(text, value.emplace());
}

std::string_view next_word(std::string_view& text) {
  const std::string_view word = text.substr(0, text.find(' '));
  text.remove_prefix(std::min(word.size() + 1, text.size()));
  return word;
}

using Accounts = std::vector<datasets::SampleAccount>;

bool parse_cell(std::string_view text, const Counts<Accounts>& counts) {
  counts.accounts.clear();
  while (!text.empty()) {
    const std::string_view word = next_word(text);
    if (!parse_cell(word, counts.accounts.emplace_back().samples)) return false;
  }
  return true;
}

// After the column before it: as many.
bool parse_cell(std::string_view text, const Sums<Accounts>& sums) {
  const auto half = [](std::string_view digits, uint64_t& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  for (datasets::SampleAccount& one : sums.accounts) {
    const std::string_view word = next_word(text);
    if (word.size() != 32 || !half(word.substr(0, 16), one.sum_high) || !half(word.substr(16), one.sum_low))
      return false;
  }
  return text.empty();
}

// A decision is read where it is used.
bool parse_cell(std::string_view text, std::string& value) {
  value = std::string(text);
  return true;
}

bool parse_cell(std::string_view text, std::vector<DeviceId>& devices) {
  devices.clear();
  while (!text.empty()) {
    const std::string_view name = next_word(text);
    int32_t index = 0;
    if (!name.starts_with('g') || !parse_cell(name.substr(1), index) || index < 0) return false;
    devices.emplace_back(index);
  }
  return true;
}

// One line of events.csv on its way back. Cells are blanked as they are read; what is left over is a mistake.
class RowReader {
 public:
  RowReader(size_t line, std::vector<std::string> cells) : line_(line), cells_(std::move(cells)) {}

  template <class Value>
  void operator()(std::string_view column, Value&& value) {
    std::string& cell = cells_[column_of(column)];
    if (!parse_cell(cell, value)) problem(column, cell, "does not fit this column");
    cell.clear();
  }

  void problem(std::string_view column, const std::string& cell, std::string_view what) {
    if (!status_.ok()) return;
    status_ = invalid(fmt::format("events.csv, line {}, column {}: \"{}\" {}", line_, column, clipped(cell, 40), what));
  }

  absl::StatusOr<Event> event() {
    Event result;
    (*this)("at_s", result.at_s);
    const std::string name = std::exchange(cells_[column_of("event")], "");
    if (!read_body<0>(name, result.body)) problem("event", name, "is no kind of event");
    for (size_t i = 0; i < cells_.size(); ++i) {
      if (!cells_[i].empty()) problem(event_columns()[i], cells_[i], "has no meaning for event " + name);
    }
    if (!status_.ok()) return status_;
    return result;
  }

 private:
  template <size_t kAlternative>
  bool read_body(const std::string& name, EventBody& body) {
    if constexpr (kAlternative < kEventNames.size()) {
      if (name != kEventNames[kAlternative]) return read_body<kAlternative + 1>(name, body);
      fields(*this, body.emplace<kAlternative>());
      return true;
    }
    return false;
  }

  size_t line_;
  std::vector<std::string> cells_;
  absl::Status status_;
};

// Our events need no quotes, so a line is split at its commas.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

// The optional columns are there where some event fills one: the log of a simulated run has none.
std::string events_csv(const std::vector<Event>& events) {
  std::vector<std::vector<std::string>> rows;
  bool all = false;
  for (const Event& event : events) {
    rows.push_back(cells_of(event));
    all = all || std::any_of(rows.back().end() - kOptionalColumns, rows.back().end(),
                             [](const std::string& cell) { return !cell.empty(); });
  }
  const auto shown = [&](std::vector<std::string> cells) {
    if (!all) cells.resize(cells.size() - kOptionalColumns);
    return cells;
  };
  Table table(shown(event_columns()));
  for (std::vector<std::string>& row : rows) table.row(shown(std::move(row)));
  return table.csv();
}

std::string as_cell(std::string_view text) {
  std::string cell = clipped(text, kCauseColumns);
  std::replace(cell.begin(), cell.end(), ',', ';');
  std::replace(cell.begin(), cell.end(), '"', '\'');
  return cell;
}

std::string event_line(const Event& event) { return fmt::format("{}", fmt::join(cells_of(event), ",")); }

absl::StatusOr<std::vector<Event>> parse_event_lines(const std::vector<std::string>& lines) {
  std::string csv = fmt::format("{}\n", fmt::join(event_columns(), ","));
  for (const std::string& line : lines) csv += line + "\n";
  return parse_events(csv);
}

absl::StatusOr<std::vector<Event>> parse_events(const std::string& csv) {
  std::vector<std::string> lines = split(csv, '\n');
  if (!lines.back().empty()) return invalid("events.csv does not end with a complete line: it was cut off");
  lines.pop_back();
  const auto old = [](size_t columns) {
    return std::any_of(kLastOldColumns.begin(), kLastOldColumns.end(),
                       [&](std::string_view last) { return columns == column_of(last) + 1; });
  };
  std::vector<std::string> header = lines.empty() ? std::vector<std::string>() : split(lines[0], ',');
  const size_t columns = header.size();
  if (old(columns))
    header.insert(header.end(), event_columns().begin() + static_cast<ptrdiff_t>(header.size()), event_columns().end());
  if (header != event_columns()) {
    return invalid("events.csv does not start with the columns of this version's log of events");
  }
  std::vector<Event> events;
  for (size_t i = 1; i < lines.size(); ++i) {
    std::vector<std::string> cells = split(lines[i], ',');
    // A journal goes on with the columns of this version where an earlier one had begun it.
    if (cells.size() != columns && !(cells.size() < columns && old(cells.size()))) {
      return invalid(
          fmt::format("events.csv, line {}: {} cells where there are {} columns", i + 1, cells.size(), columns));
    }
    cells.resize(event_columns().size());
    for (std::string& cell : cells) cell = csv_text(cell);
    SCALAI_ASSIGN_OR_RETURN(Event event, RowReader(i + 1, std::move(cells)).event());
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace scalai::control
