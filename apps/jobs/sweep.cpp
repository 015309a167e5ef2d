#include "apps/jobs/sweep.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

#include "ptc/base/destination.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"

namespace scalai::apps {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "scalai-sweep 1 ";

// Not Json::at(pointer), which throws: walks by hand.
const Json* find(const Json& root, const std::string& pointer) {
  const Json* at = &root;
  size_t from = 1;
  while (from <= pointer.size()) {
    const size_t end = std::min(pointer.find('/', from), pointer.size());
    const std::string name = pointer.substr(from, end - from);
    if (at->is_object() && at->contains(name)) {
      at = &at->at(name);
    } else if (const auto index = parse_count(name);
               at->is_array() && index.ok() && static_cast<size_t>(*index) < at->size()) {
      at = &at->at(static_cast<size_t>(*index));
    } else {
      return nullptr;
    }
    from = end + 1;
  }
  return at;
}

std::string cell(const std::optional<double>& value) { return value ? shortest(*value) : ""; }

std::string row_of(size_t point, size_t seed, const Numbers& numbers) {
  std::string row = fmt::format("{},{}", point, seed);
  for (const auto& number : numbers) row += "," + cell(number);
  return row + "\n";
}

std::optional<double> number_of(std::string_view text, bool& good) {
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  good = good && result.ec == std::errc{} && result.ptr == text.data() + text.size();
  return value;
}

// "3,0,1.5,,2" → (3, 0) and the numbers.
bool parse_row(std::string_view line, size_t columns, std::pair<size_t, size_t>& key, Numbers& numbers) {
  std::vector<std::string_view> cells;
  for (size_t from = 0; from <= line.size();) {
    const size_t end = std::min(line.find(',', from), line.size());
    cells.push_back(line.substr(from, end - from));
    from = end + 1;
  }
  if (cells.size() != columns + 2) return false;
  const auto point = parse_count(cells[0]), seed = parse_count(cells[1]);
  if (!point.ok() || !seed.ok()) return false;
  key = {static_cast<size_t>(*point), static_cast<size_t>(*seed)};
  bool good = true;
  for (size_t c = 2; c < cells.size(); ++c) numbers.push_back(number_of(cells[c], good));
  return good;
}

// "/jobs/0/interval/wall_s/" of "/jobs/0/wall_s"; "" of a metric without an interval.
std::string interval_of(const std::string& metric) {
  const size_t last = metric.rfind('/');
  if (!metric.starts_with("/jobs/") || last == std::string::npos) return "";
  const std::string name = metric.substr(last);
  const bool digits = metric.find_first_not_of("0123456789", 6) == last;
  return digits && (name == "/wall_s" || name == "/downtime_s") ? metric.substr(0, last) + "/interval" + name + "/"
                                                                : "";
}

// Of each metric the place of its interval among with_intervals(metrics), if some run has it.
std::vector<std::optional<size_t>> interval_places(const SweepTable& table, const SweepJournal& journal) {
  std::vector<std::optional<size_t>> places(table.metrics.size());
  if (table.seeds > 1) return places;
  size_t place = table.metrics.size();
  for (size_t m = 0; m < table.metrics.size(); ++m) {
    if (interval_of(table.metrics[m]).empty()) continue;
    for (size_t point = 0; point < scenario::point_count(table.axes); ++point) {
      const Numbers* numbers = journal.find(point, 0);
      if (numbers != nullptr && (*numbers)[place]) places[m] = place;
    }
    place += 2;
  }
  return places;
}

// Whether some point is compared with another one.
bool any_compared(const std::vector<scenario::Axis>& axes) {
  for (size_t point = 0; point < scenario::point_count(axes); ++point)
    if (compared_with(axes, point)) return true;
  return false;
}

// Of a metric at `point` to that at `from`, seed by seed; nothing with fewer than two seeds that both have.
std::optional<Spread> paired_differences(const SweepJournal& journal, size_t seeds, size_t point, size_t from,
                                         size_t metric) {
  std::vector<double> differences;
  for (size_t seed = 0; seed < seeds; ++seed) {
    const Numbers *own = journal.find(point, seed), *other = journal.find(from, seed);
    if (own == nullptr || other == nullptr || !(*own)[metric] || !(*other)[metric]) continue;
    differences.push_back(*(*own)[metric] - *(*other)[metric]);
  }
  if (differences.size() < 2) return std::nullopt;
  return spread_of(std::move(differences));
}

}  // namespace

absl::Status check_sweep(const std::vector<scenario::Axis>& axes, size_t seeds, size_t most) {
  const bool varied =
      std::any_of(axes.begin(), axes.end(), [](const scenario::Axis& axis) { return axis.path == "seed"; });
  if (seeds > 1 && varied) return invalid("--vary=seed=… and --seeds exclude each other");
  const bool few = seeds <= most / scenario::point_count(axes);
  return few ? absl::OkStatus() : invalid(fmt::format("that would be more than {} runs", most));
}

absl::StatusOr<Numbers> read_numbers(const std::string& summary, const std::vector<std::string>& metrics) {
  const Json json = read_json(summary).value_or(nullptr);
  if (!json.is_object()) return failed("its summary is no JSON object");
  Numbers numbers;
  for (const std::string& metric : metrics) {
    const Json* value = find(json, metric.starts_with('/') ? metric : "/metrics/" + metric);
    if (value == nullptr && metric.find("/interval/") != std::string::npos) {
      numbers.emplace_back();
      continue;
    }
    if (value == nullptr) return failed(fmt::format("its summary has no \"{}\"", metric));
    if (!value->is_number() && !value->is_null() && !value->is_boolean()) {
      return failed(fmt::format("\"{}\" of its summary is no number", metric));
    }
    numbers.push_back(value->is_null()      ? std::nullopt
                      : value->is_boolean() ? std::optional(value->get<bool>() ? 1.0 : 0.0)
                                            : std::optional(value->get<double>()));
  }
  return numbers;
}

std::vector<std::string> with_intervals(std::vector<std::string> metrics) {
  const size_t given = metrics.size();
  for (size_t m = 0; m < given; ++m) {
    const std::string interval = interval_of(metrics[m]);
    if (!interval.empty()) metrics.insert(metrics.end(), {interval + "low", interval + "high"});
  }
  return metrics;
}

SweepJournal::~SweepJournal() {
  if (file_ >= 0) ::close(file_);
}

absl::Status SweepJournal::open(const std::string& path, const std::string& digest, size_t columns) {
  path_ = path;
  SCALAI_ASSIGN_OR_RETURN(const Destination place, destination_of(path));
  file_ = ::openat(place.folder.get(), place.name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (file_ < 0) return missing(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) return failed(fmt::format("{}: another sweep is at work on it", path));
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  size_t whole = 0;
  SCALAI_RETURN_IF_ERROR(read(text, digest, columns, whole));
  if (::ftruncate(file_, static_cast<off_t>(whole)) != 0 || ::lseek(file_, 0, SEEK_END) < 0) {
    return failed(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
  }
  if (whole > 0) return absl::OkStatus();
  const std::string head = fmt::format("{}{}\n", kMagic, digest);
  if (::write(file_, head.data(), head.size()) == static_cast<ssize_t>(head.size())) return absl::OkStatus();
  return failed(fmt::format("{}: cannot write: {}", path, std::strerror(errno)));
}

absl::Status SweepJournal::read(const std::string& text, const std::string& digest, size_t columns, size_t& whole) {
  const std::string head = fmt::format("{}{}", kMagic, digest);
  bool first = true;
  for (size_t end = 0; (end = text.find('\n', whole)) != std::string::npos; whole = end + 1) {
    const std::string line = text.substr(whole, end - whole);
    // A loss of power may leave zeros for what was not on disk: the journal ends there.
    const size_t zero = line.find('\0');
    if (zero != std::string::npos && (!first || head.starts_with(line.substr(0, zero)))) break;
    if (first) {
      if (line != head) {
        return invalid(
            fmt::format("{}: these are rows of another scenario, or of another sweep of it\nhint: remove the "
                        "file to begin anew, or name another one with --out",
                        path_));
      }
      first = false;
      continue;
    }
    std::pair<size_t, size_t> key;
    Numbers numbers;
    if (!parse_row(line, columns, key, numbers))
      return invalid(fmt::format("{}: \"{}\" is no row of a sweep", path_, line));
    runs_[key] = std::move(numbers);
  }
  return absl::OkStatus();
}

const Numbers* SweepJournal::find(size_t point, size_t seed) const {
  const auto found = runs_.find({point, seed});
  return found == runs_.end() ? nullptr : &found->second;
}

absl::Status SweepJournal::add(size_t point, size_t seed, const Numbers& numbers) {
  const std::string row = row_of(point, seed, numbers);
  if (::write(file_, row.data(), row.size()) != static_cast<ssize_t>(row.size())) {
    return failed(fmt::format("{}: cannot write: {}", path_, std::strerror(errno)));
  }
  runs_[{point, seed}] = numbers;
  return absl::OkStatus();
}

void SweepJournal::remove() { ::unlink(path_.c_str()); }

std::optional<size_t> compared_with(const std::vector<scenario::Axis>& axes, size_t point) {
  size_t stride = 1;  // of the last axis: it is the fastest
  for (size_t a = axes.size(); a-- > 0;) {
    const size_t place = point / stride % axes[a].values.size();
    const std::string& path = axes[a].path;
    if (path == "policy.name" || path == "recovery.design" || path == "strategy") {
      if (place == 0) return std::nullopt;
      return point - place * stride;
    }
    stride *= axes[a].values.size();
  }
  return std::nullopt;
}

std::string sweep_csv(const SweepTable& table, const SweepJournal& journal,
                      const std::map<size_t, std::string>& failures) {
  std::string csv;
  const bool compares = table.seeds > 1 && any_compared(table.axes);
  const std::vector<std::optional<size_t>> intervals = interval_places(table, journal);
  const auto put = [&](const std::string& text) {
    csv += (csv.empty() || csv.back() == '\n' ? "" : ",") + csv_cell(text);
  };
  for (const scenario::Axis& axis : table.axes) put(axis.path);
  for (size_t m = 0; m < table.metrics.size(); ++m) {
    const std::string& metric = table.metrics[m];
    put(metric);
    if (table.seeds > 1) put(metric + "_low");
    if (table.seeds > 1) put(metric + "_high");
    if (intervals[m]) put(metric + "_model_low");
    if (intervals[m]) put(metric + "_model_high");
    if (!compares) continue;
    for (const char* part : {"_diff", "_diff_low", "_diff_high"}) put(metric + part);
  }
  put("status");
  csv += "\n";
  for (size_t point = 0; point < scenario::point_count(table.axes); ++point) {
    bool begun = false;
    const auto next = [&](const std::string& text) {
      csv += (begun ? "," : "") + csv_cell(text);
      begun = true;
    };
    for (const std::string& value : scenario::values_at(table.axes, point)) next(value);
    const auto failure = failures.find(point);
    for (size_t m = 0; m < table.metrics.size(); ++m) {
      std::vector<double> values;
      for (size_t seed = 0; seed < table.seeds && failure == failures.end(); ++seed) {
        const Numbers* numbers = journal.find(point, seed);
        if (numbers != nullptr && (*numbers)[m]) values.push_back(*(*numbers)[m]);
      }
      const Spread spread = values.empty() ? Spread{} : spread_of(values);
      next(values.empty() ? "" : shortest(spread.median));
      if (intervals[m]) {
        const Numbers* numbers = values.empty() ? nullptr : journal.find(point, 0);
        next(numbers == nullptr ? "" : cell((*numbers)[*intervals[m]]));
        next(numbers == nullptr ? "" : cell((*numbers)[*intervals[m] + 1]));
      }
      if (table.seeds == 1) continue;
      next(values.empty() ? "" : shortest(spread.low));
      next(values.empty() ? "" : shortest(spread.high));
      if (!compares) continue;
      const auto from = compared_with(table.axes, point);
      const bool failed = failure != failures.end() || !from || failures.contains(*from);
      const std::optional<Spread> differences =
          failed ? std::nullopt : paired_differences(journal, table.seeds, point, *from, m);
      next(differences ? shortest(differences->median) : "");
      next(differences ? shortest(differences->low) : "");
      next(differences ? shortest(differences->high) : "");
    }
    next(failure == failures.end() ? "ok" : failure->second);
    csv += "\n";
  }
  return csv;
}

}  // namespace scalai::apps
