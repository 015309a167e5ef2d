#include "ptc/plan/missing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "ptc/base/units.h"
#include "ptc/state/model/model.h"

namespace scalai::plan {
namespace {

bool is_kind_of_state(const std::string& word) {
  using model::StateKind;
  constexpr std::array kSuffixes = {StateKind::kMaster, StateKind::kExpAvg, StateKind::kExpAvgSq, StateKind::kMomentum,
                                    StateKind::kPrevious};
  return std::any_of(kSuffixes.begin(), kSuffixes.end(), [&](StateKind kind) { return model::name_of(kind) == word; });
}

// "layers.12.norm.weight.master": the part of the model, its number and the kind of state.
struct NameParts {
  std::string part, kind = "param";
  int64_t number = -1;
};

NameParts parts_of(const std::string& name) {
  NameParts parts;
  const std::string last = name.substr(name.rfind('.') + 1);
  if (is_kind_of_state(last)) parts.kind = last;
  for (size_t from = 0; from < name.size();) {
    const size_t end = std::min(name.find('.', from), name.size());
    const auto number = parse_count(name.substr(from, end - from));
    if (number.ok()) {
      parts.number = *number;
      break;
    }
    // Without a number the part is the first word.
    if (parts.part.empty() || name.find_first_of("0123456789", end) != std::string::npos)
      parts.part += (parts.part.empty() ? "" : ".") + name.substr(from, end - from);
    from = end + 1;
  }
  return parts;
}

struct Group {
  std::string part;
  std::vector<std::string> kinds;
  int64_t first = -1, last = -1, boxes = 0, bytes = 0;
  const Missing* example = nullptr;
};

int64_t bytes_of(const Plan& plan, const Missing& missing) {
  return missing.box.volume() * tensor::size_of(plan.tensor(missing.tensor).from_dtype);
}

std::string named(const Plan& plan, const Missing& missing) {
  return fmt::format("tensor \"{}\" box {}", plan.tensor(missing.tensor).name, missing.box.str());
}

std::string line_of(const Plan& plan, const Group& group) {
  std::string what = group.part;
  if (group.first >= 0)
    what +=
        group.first == group.last ? fmt::format(" {}", group.first) : fmt::format(" {} to {}", group.first, group.last);
  return fmt::format("{}: {} box{} of {}, {}, the first of them {}", what, group.boxes, group.boxes == 1 ? "" : "es",
                     fmt::join(group.kinds, ", "), format_bytes(group.bytes), named(plan, *group.example));
}

}  // namespace

int64_t missing_bytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const Missing& missing : plan.missing()) bytes += bytes_of(plan, missing);
  return bytes;
}

std::vector<std::string> missing_lines(const Plan& plan, size_t most_boxes) {
  std::vector<std::string> lines;
  if (plan.missing().size() <= most_boxes) {
    for (const Missing& missing : plan.missing()) lines.push_back(named(plan, missing) + " has no surviving holder");
    return lines;
  }
  std::vector<Group> groups;
  for (const Missing& missing : plan.missing()) {
    const NameParts parts = parts_of(plan.tensor(missing.tensor).name);
    // Layers in a row are one group; a gap between them begins another.
    const auto fits = [&](const Group& group) {
      return group.part == parts.part && (parts.number == group.last || parts.number == group.last + 1);
    };
    auto group = std::find_if(groups.begin(), groups.end(), fits);
    if (group == groups.end()) {
      groups.push_back({.part = parts.part, .first = parts.number, .last = parts.number, .example = &missing});
      group = groups.end() - 1;
    }
    group->last = parts.number;
    ++group->boxes;
    group->bytes += bytes_of(plan, missing);
    if (std::find(group->kinds.begin(), group->kinds.end(), parts.kind) == group->kinds.end())
      group->kinds.push_back(parts.kind);
  }
  for (const Group& group : groups) lines.push_back(line_of(plan, group));
  return lines;
}

}  // namespace scalai::plan
