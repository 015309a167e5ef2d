// Alternatives of one scenario: a setting chooses another policy or design, and the file still has the first one's
// parameters.

#include <fmt/format.h>

#include <algorithm>

#include "ptc/proto/scenario.pb.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "sim/jobs/recovery/designs.h"
#include "sim/jobs/scenario/internal/sched_parts.h"

namespace scalai::scenario::internal {
namespace {

// Names of parameters of one policy or design.
struct Choice {
  std::string name;
  std::vector<std::string> parameters;
};

std::vector<Choice> policies() {
  std::vector<Choice> choices;
  for (const policy::PolicyInfo& info : policy::policies()) {
    choices.push_back({info.name, {}});
    for (const policy::ParameterInfo& parameter : info.parameters) choices.back().parameters.push_back(parameter.name);
  }
  return choices;
}

std::vector<Choice> designs() {
  std::vector<Choice> choices;
  for (const jobs::RecoveryInfo& info : jobs::recovery_designs()) {
    choices.push_back({info.name, {}});
    for (const trace::TraceOption& option : info.options) choices.back().parameters.push_back(option.name);
  }
  return choices;
}

bool knows(const Choice& choice, const std::string& assignment) {
  const std::string name = assignment.substr(0, assignment.find('='));
  return std::find(choice.parameters.begin(), choice.parameters.end(), name) != choice.parameters.end();
}

// `set` without the parameters that only others than `chosen` know. A name that nobody knows stays: it is a mistake.
template <class List>
void leave_out(const std::string& chosen, const std::vector<Choice>& choices, const std::string& path, Source& source,
               List& set, std::vector<std::string>& notes) {
  const auto own = std::find_if(choices.begin(), choices.end(), [&](const Choice& c) { return c.name == chosen; });
  if (own == choices.end()) return;
  std::vector<std::string> kept;
  std::vector<std::optional<int>> from;
  for (int i = 0; i < set.size(); ++i) {
    const std::string& assignment = set.Get(i);
    const bool known = knows(*own, assignment);
    if (!known && std::any_of(choices.begin(), choices.end(), [&](const Choice& c) { return knows(c, assignment); })) {
      notes.push_back(fmt::format("{}: \"{}\" is left out: {} has no such parameter", path, assignment, chosen));
      continue;
    }
    kept.push_back(assignment);
    from.emplace_back(i);
  }
  if (static_cast<int>(kept.size()) == set.size()) return;
  source.replaced_element(path, "", from);
  set.Clear();
  for (const std::string& assignment : kept) *set.Add() = assignment;
}

}  // namespace

std::vector<std::string> leave_out_foreign_parameters(proto::Scenario& message, Source& source) {
  std::vector<std::string> notes;
  if (source.is_replaced("policy.name")) {
    auto& policy = *message.mutable_policy();
    leave_out(policy.name(), policies(), "policy.set", source, *policy.mutable_set(), notes);
  }
  if (source.is_replaced("recovery.design")) {
    auto& recovery = *message.mutable_recovery();
    leave_out(recovery.design(), designs(), "recovery.set", source, *recovery.mutable_set(), notes);
  }
  return notes;
}

}  // namespace scalai::scenario::internal
