#pragma once
// What is wrong with tensors that were found in files: all of it, and hints.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::store::internal {

// Names come from files: printable, and not too long for a line.
inline std::string shown(const std::string& name) { return clipped(name, 120); }

class Problems {
 public:
  void add(std::string text) {
    if (++count_ <= kMaxProblems) lines_.push_back(std::move(text));
  }
  void headline(std::string text) { headlines_.push_back(std::move(text)); }
  void hint(std::string text) { hints_.push_back(std::move(text)); }
  size_t count() const { return count_ + headlines_.size(); }

  absl::Status status() const {
    if (count_ == 0 && headlines_.empty()) return absl::OkStatus();
    std::vector<std::string> lines = headlines_;
    lines.insert(lines.end(), lines_.begin(), lines_.end());
    if (count_ > kMaxProblems) lines.push_back(fmt::format("… and {} more", count_ - kMaxProblems));
    lines.insert(lines.end(), hints_.begin(), hints_.end());
    return invalid(fmt::format("{}", fmt::join(lines, "\n")));
  }

 private:
  static constexpr size_t kMaxProblems = 50;
  std::vector<std::string> headlines_;
  std::vector<std::string> lines_;
  std::vector<std::string> hints_;
  size_t count_ = 0;
};

// Tensors that nothing has a place for, and how --drop would name them.
struct Unexpected {
  std::span<const std::string> drop;
  int most_layers = 0;
  size_t count = 0;
  std::set<std::string> patterns;

  // Where all else is well, they may be left out.
  void add_hint(Problems& problems) const {
    constexpr size_t kMost = 3;
    if (count == 0 || problems.count() > count) return;
    std::vector<std::string> shown_patterns;
    for (const std::string& pattern : patterns) {
      if (shown_patterns.size() == kMost) break;
      shown_patterns.push_back(shown(pattern));
    }
    problems.hint(fmt::format("hint: a tensor is left out only if --drop names it: --drop='{}{}'",
                              fmt::join(shown_patterns, ","), patterns.size() > kMost ? ",…" : ""));
  }
};

}  // namespace scalai::store::internal
