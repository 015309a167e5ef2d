#include "ptc/run/scenario/scenario_vary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"

namespace scalai::scenario {
namespace {

constexpr size_t kLongestLabel = 60;

// Letters beyond ASCII stay; whatever a shell or a path would take for its own does not.
std::string as_folder_name(const std::string& value) {
  std::string name;
  for (const char c : value) {
    const auto letter = static_cast<unsigned char>(c);
    const bool plain =
        letter >= 0x80 || std::isalnum(letter) != 0 || std::string_view("._=,:").find(c) != std::string::npos;
    name += plain ? c : '-';
  }
  while (name.starts_with('.') || name.starts_with('-')) name.erase(0, 1);
  return name.empty() ? "none" : name.substr(0, kLongestLabel);
}

}  // namespace

absl::StatusOr<Axis> parse_axis(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid(fmt::format("--vary={}: write it like --vary=policy.name=fifo,srtf", text));
  }
  Axis axis{.path = text.substr(0, equals), .values = {""}};
  for (size_t at = equals + 1; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == ',') {
      axis.values.back() += text[++at];
    } else if (text[at] == ',') {
      axis.values.emplace_back();
    } else {
      axis.values.back() += text[at];
    }
  }
  std::vector<std::string> sorted = axis.values;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) return invalid(fmt::format("--vary={}: \"{}\" is there twice", text, *twice));
  return axis;
}

absl::StatusOr<std::vector<Axis>> parse_axes(const std::vector<std::string>& texts, size_t most) {
  std::vector<Axis> axes;
  std::vector<std::string> problems;
  size_t points = 1;  // never above most + 1, so that no product overflows
  for (const std::string& text : texts) {
    absl::StatusOr<Axis> axis = parse_axis(text);
    if (!axis.ok()) {
      problems.push_back(message_of(axis.status()));
      continue;
    }
    const std::string& path = axis->path;
    if (std::any_of(axes.begin(), axes.end(), [&](const Axis& other) { return other.path == path; })) {
      problems.push_back(
          fmt::format("--vary={}=… is there twice; write all its values in one: --vary={}=A,B", path, path));
      continue;
    }
    points = points > most / axis->values.size() ? most + 1 : points * axis->values.size();
    axes.push_back(*std::move(axis));
  }
  if (points > most) problems.push_back(fmt::format("--vary: that would be more than {} runs", most));
  if (!problems.empty()) return invalid(fmt::format("{}", fmt::join(problems, "\n")));
  return axes;
}

size_t point_count(const std::vector<Axis>& axes) {
  size_t count = 1;
  for (const Axis& axis : axes) count *= axis.values.size();
  return count;
}

std::vector<std::string> values_at(const std::vector<Axis>& axes, size_t point) {
  std::vector<std::string> values(axes.size());
  for (size_t a = axes.size(); a-- > 0;) {
    values[a] = axes[a].values[point % axes[a].values.size()];
    point /= axes[a].values.size();
  }
  return values;
}

std::vector<std::string> settings_at(const std::vector<Axis>& axes, size_t point, std::vector<std::string> all) {
  const std::vector<std::string> values = values_at(axes, point);
  for (size_t a = 0; a < axes.size(); ++a) all.push_back(axes[a].path + "=" + values[a]);
  return all;
}

std::vector<std::string> labels_of(const std::vector<Axis>& axes) {
  std::vector<std::string> labels;
  std::set<std::string> known;
  for (size_t point = 0; point < point_count(axes); ++point) {
    std::vector<std::string> names = values_at(axes, point);
    for (std::string& name : names) name = as_folder_name(name);
    std::string label = fmt::format("{}", fmt::join(names, "+"));
    if (!known.insert(label).second) {
      label += fmt::format("~{}", point);  // "~" is in no name
      known.insert(label);
    }
    labels.push_back(std::move(label));
  }
  return labels;
}

}  // namespace scalai::scenario
