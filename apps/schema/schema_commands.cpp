#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/common/output.h"
#include "apps/schema/explain.h"
#include "apps/schema/schema.h"
#include "apps/schema/templates.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/cluster/catalogue.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/run/scenario/scenario_set.h"
#include "ptc/store/naming/family.h"

namespace scalai::apps {
namespace {

using nlohmann::ordered_json;

int explain(const Arguments& arguments) {
  const std::string& word = arguments.positional().front();
  const std::vector<Explanation> found = explanations(word);
  if (found.empty()) {
    const std::vector<std::string> near = words_like(word);
    return report_error(
        invalid(fmt::format("nothing here is called \"{}\"{}", word,
                            near.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(near, ", ")))));
  }
  if (arguments.text("format") == "json") {
    ordered_json out = ordered_json::array();
    for (const Explanation& one : found)
      out.push_back(
          {{"kind", one.kind}, {"name", one.name}, {"about", one.about}, {"text", one.text}, {"where", one.where}});
    print("{}\n", json_text(out, {.indent = 2}));
    return 0;
  }
  bool first = true;
  for (const Explanation& one : found) {
    print("{}{} {}{}\n  {}\n  ({})\n", first ? "" : "\n", one.kind, one.name,
          one.about.empty() ? "" : fmt::format(": {}", one.about), one.text.empty() ? "no comment" : one.text,
          one.where);
    first = false;
  }
  return 0;
}

int schema(const Arguments& arguments) {
  const std::string of = arguments.positional().empty() ? "scenario" : arguments.positional().front();
  if (of != "scenario" && of != "cluster")
    return usage_error("schema", fmt::format("\"{}\" is neither scenario nor cluster", of));
  const SchemaOf what = of == "cluster" ? SchemaOf::kCluster : SchemaOf::kScenario;
  const std::string format = arguments.text("format");
  print(format == "proto" ? schema_proto(what) : format == "json-schema" ? json_schema(what) : schema_text(what));
  return 0;
}

int init(const Arguments& arguments) {
  TemplateRequest request{
      .name = arguments.text("template"), .model = arguments.text("model"), .gpu = arguments.text("gpu")};
  constexpr int64_t kMostGpus = 1 << 18;
  if (arguments.has("gpus")) {
    if (arguments.count("gpus") > kMostGpus) return usage_error("init", fmt::format("--gpus: at most {}", kMostGpus));
    request.gpus = static_cast<int>(arguments.count("gpus"));
  }
  if (!request.model.empty()) {
    const auto model = store::find_model(request.model);
    if (!model.ok()) return report_error(model.status());
  }
  const absl::StatusOr<std::string> text = scenario_text(request);
  if (!text.ok()) return usage_error("init", std::string(text.status().message()));
  if (!scenario::head_of(*text, "init.textproto").many_jobs) {
    const auto none = [](const std::string& path) -> absl::StatusOr<std::string> { return missing(path); };
    const auto parsed = scenario::parse_scenario(*text, "init.textproto", none);
    if (!parsed.ok()) return report_error(parsed.status());  // a model that these GPUs cannot hold
  }
  if (arguments.positional().empty() || arguments.positional().front() == "-") {
    print(*text);
    return 0;
  }
  const std::string& file = arguments.positional().front();
  std::error_code ignored;  // write_file says what is wrong with the name
  if (!arguments.flag("force") && std::filesystem::exists(file, ignored))
    return usage_error("init", fmt::format("{} exists; --force writes over it", file));
  const absl::Status written = write_file(file, *text);
  if (!written.ok()) return report_error(written);
  say("{0}: written; next: scalai sim {0} --out=out\n", file);
  return 0;
}

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const Template& one : templates()) names.push_back(one.name);
  return names;
}

std::string template_lines() {
  std::string text;
  for (const Template& one : templates()) text += fmt::format("  {:<10} {}\n", one.name, one.summary);
  return text;
}

}  // namespace

Command explain_command() {
  return {
      {.name = "explain",
       .summary = "what a field, a number of a report or a word means",
       .usage = "scalai explain WORD",
       .description =
           R"(Looks WORD up among the fields of scenarios (jobs.checkpoint, or its last part), the keys and columns of
reports (downtime_s, /jobs/0/downtime_s) and the terms of tables and messages (kept, bound), and prints
all it means, each with the file that says so.)",
       .options = {format_option({"table", "json"})},
       .examples = {"scalai explain jobs.checkpoint", "scalai explain downtime_s", "scalai explain kept"},
       .min_arguments = 1,
       .max_arguments = 1},
      explain};
}

Command schema_command() {
  return {{.name = "schema",
           .summary = "all fields of scenario and cluster files",
           .usage = "scalai schema [scenario|cluster] [--format=text|json-schema|proto]",
           .description =
               R"(Prints what may stand in a file: as an indented list with types and comments, as JSON Schema (draft
2020-12) for editors and validators of files in JSON, or as the .proto files.)",
           .options = {choice_option("format", "FORMAT", "How the fields are printed.",
                                     {"text", "json-schema", "proto"}, "text")},
           .examples = {"scalai schema cluster", "scalai schema --format=json-schema > scenario.schema.json"},
           .max_arguments = 1},
          schema};
}

Command init_command() {
  return {{.name = "init",
           .summary = "write a scenario to begin with",
           .usage = "scalai init [FILE] [--template=NAME] [--model=NAME] [--gpus=N] [--gpu=KIND]",
           .description = "Writes a commented scenario that runs as it is, to FILE or (without FILE, or for -) to "
                          "standard output. Templates:\n\n" +
                          template_lines(),
           .options = {choice_option("template", "NAME", "Which question.", template_names(), "elastic"),
                       suggesting(
                           text_option("model", "NAME", "A model of `scalai models`. Without it the template's own."),
                           store::model_names()),
                       count_option("gpus", "N", "GPUs of the cluster. Without it the template's own number."),
                       suggesting(text_option("gpu", "KIND",
                                              "A GPU kind, host or cloud instance of `scalai machines`. Without it the "
                                              "template's own."),
                                  cluster::machine_names()),
                       flag_option("force", "Write over FILE if it exists.")},
           .examples = {"scalai init mine.textproto --template=failure --model=llama3-70b --gpus=64 --gpu=dgx-h100",
                        "scalai init --template=many-jobs"},
           .max_arguments = 1},
          init};
}

}  // namespace scalai::apps
