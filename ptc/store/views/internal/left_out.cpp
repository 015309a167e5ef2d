#include "ptc/store/views/internal/left_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "ptc/base/json.h"
#include "ptc/base/name_patterns.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"

namespace scalai::store::internal {
namespace {

constexpr size_t kMostNoted = 3, kMostListed = 50;

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> some;
  for (size_t i = 0; i < std::min(kMostNoted, names.size()); ++i) some.push_back(clipped(names[i], 120));
  return fmt::format("{}{}", fmt::join(some, ", "),
                     names.size() > kMostNoted ? fmt::format(" and {} more", names.size() - kMostNoted) : "");
}

// One a line.
std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < std::min(kMostListed, names.size()); ++i)
    text += fmt::format("\n\"{}\"", clipped(names[i], 160));
  if (names.size() > kMostListed) text += fmt::format("\n… and {} more", names.size() - kMostListed);
  return text;
}

// Takes those that the options name. A name may have its file in front.
void take_dropped(const std::vector<std::string>& drop, std::vector<std::string>& names,
                  std::set<std::string>& dropped) {
  std::erase_if(names, [&](const std::string& each) {
    const size_t file = each.find(": ");
    const std::string name = file == std::string::npos ? each : each.substr(file + 2);
    return matches_any(name, drop) && (dropped.insert(name), true);
  });
}

// The count of layers that are not there any more.
void zero_in_config(const std::string& key, CheckpointInfo& info) {
  if (key.empty() || info.config.empty()) return;
  absl::StatusOr<nlohmann::ordered_json> document = read_ordered_json(info.config);
  if (!document.ok() || !document->is_object()) return;  // told by who reads the model of it
  const auto found = document->find(key);
  if (found == document->end() || *found == 0) return;
  info.notes.push_back(fmt::format("config.json: {} is 0 now, and was {}", key, clipped(found->dump(), 20)));
  *found = 0;
  info.config = document->dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

LeftOut left_out_of(const FoundState& state) {
  return {.ignored = state.ignored,
          .optimizer = state.optimizer,
          .others = {},
          .dropped = state.dropped,
          .dropped_layers_key = state.dropped_layers_key};
}

absl::Status leave_out(const OpenOptions& options, const std::string& place, LeftOut left, Opened& opened,
                       std::string_view what, std::string_view reason) {
  std::vector<std::string>& notes = opened.info.notes;
  take_dropped(options.drop, left.optimizer, left.dropped);
  take_dropped(options.drop, left.others, left.dropped);
  std::string problems;
  if (!left.others.empty())
    problems = fmt::format(
        "{} neither of the model nor state of its parameters:{}\nhint: a tensor is left out only if --drop names it: "
        "--drop='{}'",
        left.others.size() == 1 ? "a tensor is" : fmt::format("{} tensors are", left.others.size()),
        list_of(left.others), clipped(left.others.front(), 120));
  if (!left.optimizer.empty() && !options.drop_optimizer)
    problems += fmt::format("{}{} has no place here: {}:{}\nhint: --drop=optimizer leaves it out",
                            problems.empty() ? "" : "\n", what, reason, list_of(left.optimizer));
  if (!problems.empty()) return invalid(fmt::format("{}: {}", place, problems));
  if (!left.optimizer.empty())
    notes.push_back(fmt::format("left out: {}, {} tensors; {}", what, left.optimizer.size(), reason));
  if (!left.ignored.empty())
    notes.push_back(fmt::format("left out, for it is no trained state: {}", some_of(left.ignored)));
  if (left.dropped.empty()) return absl::OkStatus();
  notes.push_back(fmt::format("left out, as --drop says: {}", some_of({left.dropped.begin(), left.dropped.end()})));
  opened.info.dropped.merge(left.dropped);
  zero_in_config(left.dropped_layers_key, opened.info);
  return absl::OkStatus();
}

absl::Status check_drop(const OpenOptions& options, const Opened& opened) {
  std::vector<std::string> idle;
  for (const std::string& pattern : options.drop) {
    const bool used = std::any_of(opened.info.dropped.begin(), opened.info.dropped.end(),
                                  [&](const std::string& name) { return matches_any(name, std::span(&pattern, 1)); });
    if (!used) idle.push_back(fmt::format("\"{}\"", clipped(pattern, 120)));
  }
  if (idle.empty() || options.drop_may_be_idle) return absl::OkStatus();
  return invalid(fmt::format("{}: --drop: nothing that may be left out is named {}; what the model has may not be",
                             opened.info.path, fmt::join(idle, " or ")));
}

}  // namespace scalai::store::internal
