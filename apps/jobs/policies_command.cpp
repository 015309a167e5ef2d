#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common/output.h"
#include "apps/jobs/commands.h"
#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/table.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "sim/jobs/change.h"
#include "sim/jobs/recovery/designs.h"

namespace scalai::apps {
namespace {

using Json = nlohmann::ordered_json;

struct Trait {
  const char* name;
  const char* meaning;
  bool policy::PolicyTraits::*has;
};

constexpr Trait kTraits[] = {
    {"preemptive", "takes GPUs away from running jobs", &policy::PolicyTraits::preemptive},
    {"elastic", "may give another number of GPUs than asked for", &policy::PolicyTraits::elastic},
    {"work-conserving", "leaves no GPU idle that a waiting job would fit on", &policy::PolicyTraits::work_conserving},
    {"needs-durations", "knows how long jobs take", &policy::PolicyTraits::needs_durations},
    {"stochastic", "draws random numbers, from the scenario's seed", &policy::PolicyTraits::stochastic},
    {"heterogeneous", "knows that GPU types differ in speed", &policy::PolicyTraits::heterogeneous},
    {"slices", "serves jobs that ask for parts of GPUs", &policy::PolicyTraits::slices},
};

std::vector<std::string> traits_of(const policy::PolicyInfo& policy) {
  std::vector<std::string> names;
  for (const Trait& trait : kTraits) {
    if (policy.traits.*trait.has) names.push_back(trait.name);
  }
  return names;
}

struct Entry {
  std::string name, family, summary, source;
  std::vector<std::string> traits;
  std::vector<policy::ParameterInfo> parameters;
};

std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (const policy::PolicyInfo& policy : policy::policies()) {
    all.push_back({policy.name, policy.family, policy.summary, policy.source, traits_of(policy), policy.parameters});
  }
  for (const jobs::RecoveryInfo& design : jobs::recovery_designs()) {
    Entry entry{.name = design.name, .family = "recovery", .summary = design.summary, .source = design.source};
    for (const trace::TraceOption& option : design.options) {
      entry.parameters.push_back({option.name, option.default_value, "", option.help});
    }
    all.push_back(std::move(entry));
  }
  return all;
}

Json json_of(const Entry& entry) {
  Json json = {{"name", entry.name},
               {"family", entry.family},
               {"summary", entry.summary},
               {"source", entry.source},
               {"traits", entry.traits}};
  json["parameters"] = Json::array();
  for (const policy::ParameterInfo& parameter : entry.parameters) {
    json["parameters"].push_back({{"name", parameter.name},
                                  {"default", parameter.default_value},
                                  {"unit", parameter.unit},
                                  {"help", parameter.help}});
  }
  return json;
}

Table parameter_table(const Entry& entry) {
  Table table({"parameter", "default", "unit", "what it is~"});
  for (const policy::ParameterInfo& parameter : entry.parameters) {
    table.row({parameter.name, parameter.default_value, parameter.unit, parameter.help});
  }
  return table;
}

void print_one(const Entry& entry, const std::string& format) {
  if (format == "json") return print(json_text(json_of(entry), {.indent = 2}) + "\n");
  const Table parameters = parameter_table(entry);
  if (format == "csv") return print(parameters.csv());
  const bool design = entry.family == "recovery";
  print("{} ({})\n  {}\n", entry.name, design ? "recovery design" : "family " + entry.family, entry.summary);
  if (!entry.source.empty()) print("  source: {}\n", entry.source);
  for (const Trait& trait : kTraits) {
    const bool has = std::find(entry.traits.begin(), entry.traits.end(), trait.name) != entry.traits.end();
    if (has) print("  {}: {}\n", trait.name, trait.meaning);
  }
  if (!entry.parameters.empty()) print("\n{}", parameters.text(stdout_screen()));
  print("\nin a scenario: {} {{ {}: \"{}\" }}\n", design ? "recovery" : "policy", design ? "design" : "name",
        entry.name);
}

void print_all(const std::vector<Entry>& all, const std::string& format) {
  if (format == "json") {
    Json json = Json::array();
    for (const Entry& entry : all) json.push_back(json_of(entry));
    return print(json_text(json, {.indent = 2}) + "\n");
  }
  Table table({"name", "family", "what it does~", "traits~", "parameters~", "source~"});
  table.leave_out_first({"source", "parameters", "traits", "family"});
  std::string family;
  for (const Entry& entry : all) {
    if (!family.empty() && family != entry.family) table.rule();
    family = entry.family;
    std::vector<std::string> names;
    for (const policy::ParameterInfo& parameter : entry.parameters) names.push_back(parameter.name);
    table.row({entry.name, entry.family, entry.summary, fmt::format("{}", fmt::join(entry.traits, " ")),
               fmt::format("{}", fmt::join(names, " ")), entry.source});
  }
  if (format == "csv") return print(table.csv());
  const std::string presets = fmt::format("{}", fmt::join(jobs::change_preset_names(), ", "));
  print("{}\npresets of restart costs (changes {{ preset: … }}): {}\n", table.text(stdout_screen()), presets);
  note_terms("", "scalai policies NAME: its parameters, and how a scenario names it");
}

int list_policies(const Arguments& arguments) {
  const std::vector<Entry> all = entries();
  const std::string format = arguments.text("format");
  if (arguments.positional().empty()) {
    print_all(all, format);
    return 0;
  }
  const std::string& name = arguments.positional().front();
  std::vector<std::string> names;
  bool found = false;
  for (const Entry& entry : all) {
    names.push_back(entry.name);
    if (entry.name != name) continue;
    if (found) print("\n");
    print_one(entry, format);
    found = true;
  }
  if (found) return 0;
  if (const std::string why = policy::left_out(name); !why.empty()) return report_error(invalid(why));
  const std::string near = closest(name, names);
  return report_error(invalid(fmt::format("there is no policy \"{}\"{}", name,
                                          near.empty() ? fmt::format("; there are {}", fmt::join(names, ", "))
                                                       : fmt::format("; did you mean \"{}\"?", near))));
}

}  // namespace

Command policies_command() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return {
      {.name = "policies",
       .summary = "list scheduler policies and recovery designs with their parameters",
       .usage = "scalai policies [NAME]",
       .description =
           R"(What a scenario's `policy { name: … set: "parameter=value" }` and `recovery { design: … }` may say. With NAME all
about that one. A program of your own is a policy, too: `policy { exec: "python3 mine.py" }`
(docs/policy-protocol.md).)",
       .options = {format_option()},
       .examples = {"scalai policies", "scalai policies tiresias", "scalai policies --format=json"},
       .max_arguments = 1,
       .operands = std::move(names)},
      list_policies};
}

}  // namespace scalai::apps
