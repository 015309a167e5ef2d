#include "labs/near/merge.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <queue>
#include <tuple>

#include "ptc/base/file_descriptor.h"
#include "ptc/base/status.h"

namespace scalai::near {
namespace {

constexpr size_t kCopied = size_t{1} << 20;
constexpr int kStreamWidth = 7;  // of wc's columns where it knows no size, and of uniq's counts

absl::Status unexpected(const std::string& path, const std::string& line) {
  return absl::FailedPreconditionError(fmt::format("{}: \"{}\" is not what the command puts out", path, line));
}

absl::Status unreadable(const std::string& path) {
  return failed(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
}

// Whole numbers in front of a line, and what follows them.
struct Numbers {
  std::vector<int64_t> values;
  std::string rest;
};

std::optional<Numbers> numbers_of(const std::string& line, int columns) {
  Numbers numbers;
  size_t at = 0;
  for (int i = 0; i < columns; ++i) {
    while (at < line.size() && line[at] == ' ') ++at;
    int64_t value = 0;
    const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), value);
    if (error != std::errc() || value < 0) return std::nullopt;
    at = static_cast<size_t>(end - line.data());
    numbers.values.push_back(value);
  }
  numbers.rest = line.substr(at);
  return numbers;
}

// False: a sum that is no number of ours, so that no command has counted it.
[[nodiscard]] bool add_to(std::vector<int64_t>& sums, const std::vector<int64_t>& values) {
  sums.resize(values.size(), 0);
  bool good = true;
  for (size_t i = 0; i < values.size(); ++i) good = !__builtin_add_overflow(sums[i], values[i], &sums[i]) && good;
  return good;
}

// Whether a file is no longer than so many lines with numbers and a name: a line is read whole.
bool is_short(const std::string& path, size_t lines) {
  constexpr size_t kLongest = size_t{64} << 10;
  std::error_code ignored;
  return std::filesystem::file_size(path, ignored) <= lines * kLongest;
}

std::string columns_text(const std::vector<int64_t>& values, int width) {
  std::string text;
  for (const int64_t value : values) text += fmt::format("{}{:>{}}", text.empty() ? "" : " ", value, width);
  return text;
}

// Lines of uniq -c, one ahead.
class CountedLines {
 public:
  explicit CountedLines(const std::string& path) : path_(path), lines_(path, std::ios::binary) {
    if (!lines_.is_open()) problem_ = unreadable(path);
  }

  // False at the end, or at a line that is none of uniq -c: then problem() says it.
  bool next() {
    std::string line;
    if (!problem_.ok()) return false;
    if (!std::getline(lines_, line)) {
      if (lines_.bad()) problem_ = unreadable(path_);
      return false;
    }
    auto numbers = numbers_of(line, 1);
    if (!numbers || !numbers->rest.starts_with(' ')) {
      problem_ = unexpected(path_, line);
      return false;
    }
    count = numbers->values[0];
    text = numbers->rest.substr(1);
    return true;
  }
  const absl::Status& problem() const { return problem_; }
  absl::Status disordered() const { return unexpected(path_, text); }

  int64_t count = 0;
  std::string text;

 private:
  std::string path_;
  std::ifstream lines_;
  absl::Status problem_;
};

// Adds up equal lines that come one after the other.
class CountWriter {
 public:
  explicit CountWriter(const Sink& sink) : sink_(sink) {}
  absl::Status add(int64_t count, const std::string& text) {
    if (any_ && text == text_) {
      const bool is_number = !__builtin_add_overflow(count_, count, &count_);
      return is_number ? absl::OkStatus() : absl::FailedPreconditionError("counts that are no number together");
    }
    SCALAI_RETURN_IF_ERROR(flush());
    any_ = true;
    count_ = count;
    text_ = text;
    return absl::OkStatus();
  }
  absl::Status flush() {
    if (!any_) return absl::OkStatus();
    any_ = false;
    return sink_(fmt::format("{:>{}} {}\n", count_, kStreamWidth, text_));
  }

 private:
  const Sink& sink_;
  bool any_ = false;
  int64_t count_ = 0;
  std::string text_;
};

absl::Status merge_sorted_counts(std::vector<CountedLines>& parts, CountWriter& writer) {
  const auto later = [&](size_t a, size_t b) { return std::tie(parts[a].text, a) > std::tie(parts[b].text, b); };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> next(later);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].next()) next.push(i);
    SCALAI_RETURN_IF_ERROR(parts[i].problem());
  }
  while (!next.empty()) {
    const size_t part = next.top();
    next.pop();
    SCALAI_RETURN_IF_ERROR(writer.add(parts[part].count, parts[part].text));
    const std::string before = parts[part].text;
    if (parts[part].next()) {
      // A sort by another order than that of bytes: its merge would be another one.
      if (parts[part].text <= before) return parts[part].disordered();
      next.push(part);
    }
    SCALAI_RETURN_IF_ERROR(parts[part].problem());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status concatenate(const std::vector<std::string>& paths, const Sink& sink) {
  std::vector<char> buffer(kCopied);
  for (const std::string& path : paths) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0) return failed(fmt::format("{}: {}", path, std::strerror(errno)));
    for (;;) {
      const ssize_t n = ::read(file.get(), buffer.data(), buffer.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failed(fmt::format("{}: cannot read: {}", path, std::strerror(errno)));
      if (n == 0) break;
      SCALAI_RETURN_IF_ERROR(sink({buffer.data(), static_cast<size_t>(n)}));
    }
  }
  return absl::OkStatus();
}

absl::Status sum_columns(const std::vector<std::string>& paths, int columns, const Sink& sink) {
  std::vector<int64_t> sums(static_cast<size_t>(columns), 0);
  for (const std::string& path : paths) {
    std::ifstream lines(path, std::ios::binary);
    if (!lines.is_open()) return unreadable(path);
    std::string line, more;
    if (is_short(path, 1)) std::getline(lines, line);
    const auto numbers = numbers_of(line, columns);
    if (!numbers || !numbers->rest.empty() || std::getline(lines, more) || !add_to(sums, numbers->values))
      return unexpected(path, line);
  }
  return sink(columns_text(sums, columns == 1 ? 1 : kStreamWidth) + "\n");
}

absl::Status align_columns(const std::vector<CountedFiles>& parts, int columns, int64_t bytes_total, const Sink& sink) {
  const int width = static_cast<int>(fmt::format("{}", bytes_total).size());
  std::vector<int64_t> total(static_cast<size_t>(columns), 0);
  std::string text;
  for (const CountedFiles& part : parts) {
    std::ifstream lines(part.path, std::ios::binary);
    if (!lines.is_open()) return unreadable(part.path);
    std::string line;
    if (!is_short(part.path, part.files + 1)) return unexpected(part.path, "a line without an end");
    // Of several files there is a total, which does not count.
    for (size_t i = 0; i < part.files + (part.files > 1 ? 1 : 0); ++i) {
      std::getline(lines, line);
      const auto numbers = numbers_of(line, columns);
      if (!lines || !numbers || !numbers->rest.starts_with(' ')) return unexpected(part.path, line);
      if (i == part.files) continue;
      if (!add_to(total, numbers->values)) return unexpected(part.path, line);
      text += columns_text(numbers->values, width) + numbers->rest + "\n";
    }
    if (std::getline(lines, line)) return unexpected(part.path, line);
  }
  return sink(text + columns_text(total, width) + " total\n");
}

absl::Status add_counts(const std::vector<std::string>& paths, bool sorted, const Sink& sink) {
  // Twice: nothing is written of outputs that are not as they should be.
  for (const bool writes : {false, true}) {
    const Sink nowhere = [](std::string_view) { return absl::OkStatus(); };
    CountWriter writer(writes ? sink : nowhere);
    if (sorted) {  // all open at a time
      std::vector<CountedLines> parts(paths.begin(), paths.end());
      SCALAI_RETURN_IF_ERROR(merge_sorted_counts(parts, writer));
    }
    for (size_t i = 0; !sorted && i < paths.size(); ++i) {
      CountedLines part(paths[i]);
      while (part.next()) SCALAI_RETURN_IF_ERROR(writer.add(part.count, part.text));
      SCALAI_RETURN_IF_ERROR(part.problem());
    }
    SCALAI_RETURN_IF_ERROR(writer.flush());
  }
  return absl::OkStatus();
}

}  // namespace scalai::near
