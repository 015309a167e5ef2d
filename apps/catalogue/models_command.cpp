#include <fmt/format.h>

#include <map>

#include "apps/commands.h"
#include "apps/common/model_options.h"
#include "apps/common/output.h"
#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/store/naming/family.h"

namespace scalai::apps {
namespace {

using model::Model;
using model::Recipe;

std::string in_millions(int64_t count) { return fmt::format("{:.1f}", static_cast<double>(count) / 1e6); }

int list_models(const Recipe& recipe, const std::string& format) {
  Table table({"model", "layers>", "hidden>", "heads>", "kv>", "vocab>", "experts>", "parameters>", "state>"});
  table.leave_out_first({"vocab", "kv", "experts"});
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const std::string& name : store::model_names()) {
    const Model model = store::find_model(name).value();
    const int64_t bytes = model::state_bytes(model, recipe, /*per_home=*/false);
    table.row({name, fmt::format("{}", model.layers), fmt::format("{}", model.hidden), fmt::format("{}", model.heads),
               fmt::format("{}", model.kv_heads), fmt::format("{}", model.vocab), fmt::format("{}", model.experts),
               in_millions(model.parameter_count()) + " M", format_bytes(bytes)});
    rows.push_back({{"name", name},
                    {"layers", model.layers},
                    {"hidden", model.hidden},
                    {"heads", model.heads},
                    {"kv_heads", model.kv_heads},
                    {"vocab", model.vocab},
                    {"experts", model.experts},
                    {"parameters", model.parameter_count()},
                    {"state_bytes", bytes}});
  }
  if (format == "json") {
    print("{}\n", json_text(rows, {.indent = 2}));
  } else {
    print(format == "csv" ? table.csv() : table.text(stdout_screen()));
    if (format == "table")
      note_terms("kv = heads of keys and values; state = parameters and optimizer, by --precision and --optimizer",
                 "scalai models NAME: its tensors; a config.json of Hugging Face is a model, too");
  }
  return 0;
}

struct KindTotal {
  int64_t tensors = 0, elements = 0, bytes = 0;
};

int show_model(const Model& model, const Recipe& recipe, const std::string& format) {
  std::map<model::StateKind, KindTotal> totals;
  Table tensors({"tensor", "kind", "dtype", "shape", "bytes>"});
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const model::StateTensor& tensor : model::state_tensors(model, recipe)) {
    const int64_t bytes = tensor.shape.elements() * tensor::size_of(tensor.dtype);
    KindTotal& total = totals[tensor.kind];
    ++total.tensors;
    total.elements += tensor.shape.elements();
    total.bytes += bytes;
    tensors.row({tensor.name, std::string(name_of(tensor.kind)), std::string(name_of(tensor.dtype)), tensor.shape.str(),
                 fmt::format("{}", bytes)});
    std::vector<int64_t> shape;
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) shape.push_back(tensor.shape[dim]);
    rows.push_back({{"name", tensor.name},
                    {"kind", name_of(tensor.kind)},
                    {"dtype", name_of(tensor.dtype)},
                    {"shape", shape},
                    {"bytes", bytes}});
  }
  if (format == "csv") {
    print(tensors.csv());
    return 0;
  }
  Table kinds({"state kind", "tensors>", "elements>", "bytes>", ">"});
  kinds.leave_out_first({"elements", "bytes"});
  nlohmann::ordered_json by_kind;
  int64_t all = 0;
  for (const auto& [kind, total] : totals) {
    kinds.row({std::string(name_of(kind)), fmt::format("{}", total.tensors), fmt::format("{}", total.elements),
               fmt::format("{}", total.bytes), format_bytes(total.bytes)});
    by_kind[std::string(name_of(kind))] = {
        {"tensors", total.tensors}, {"elements", total.elements}, {"bytes", total.bytes}};
    all += total.bytes;
  }
  const int64_t per_home = model::state_bytes(model, recipe, /*per_home=*/true);
  if (format == "json") {
    const nlohmann::ordered_json json = {{"name", model.name},
                                         {"family", model.family},
                                         {"source", model.source},
                                         {"layers", model.layers},
                                         {"hidden", model.hidden},
                                         {"heads", model.heads},
                                         {"kv_heads", model.kv_heads},
                                         {"ffn", model.ffn},
                                         {"vocab", model.vocab},
                                         {"sequence", model.sequence},
                                         {"experts", model.experts},
                                         {"tied", model.tied},
                                         {"parameters", model.parameter_count()},
                                         {"active_parameters", model.active_parameter_count()},
                                         {"published_parameters", model.published_params},
                                         {"state_bytes", all},
                                         {"state_bytes_per_home", per_home},
                                         {"by_kind", by_kind},
                                         {"tensors", rows}};
    print("{}\n", json_text(json, {.indent = 2}));
    return 0;
  }
  kinds.rule();
  kinds.row({"total", "", "", fmt::format("{}", all), format_bytes(all)});
  print("{}\n{}: {} layers, hidden {}, {} heads ({} key-value), feed-forward {}, vocabulary {}, sequence {}\n",
        tensors.text(stdout_screen()), model.name, model.layers, model.hidden, model.heads, model.kv_heads, model.ffn,
        model.vocab, model.sequence);
  print("source: {}\nparameters: {}", model.source, model.parameter_count());
  if (model.active_parameter_count() != model.parameter_count())
    print(" ({} active a token)", model.active_parameter_count());
  if (model.published_params > 0) print(", published {}", model.published_params);
  print("\n\n{}", kinds.text(stdout_screen()));
  if (per_home != all)
    print("with the tied embedding on both pipeline ends: {} ({})\n", per_home, format_bytes(per_home));
  return 0;
}

int models(const Arguments& arguments) {
  const Recipe recipe = recipe_of(arguments);
  if (arguments.positional().empty()) return list_models(recipe, arguments.text("format"));
  const auto model = load_model(arguments.positional().front());
  if (!model.ok()) return report_error(model.status());
  return show_model(*model, recipe, arguments.text("format"));
}

}  // namespace

Command models_command() {
  std::vector<OptionSpec> options = recipe_options();
  options.push_back(format_option());
  return {
      {.name = "models",
       .summary = "list the models, or one model's tensors, shapes and bytes by state kind",
       .usage = "scalai models [NAME | config.json]",
       .description =
           "Without a name: the catalogue. With one: every logical tensor of the job state. A path that ends in .json\n"
           "is read as a Hugging Face configuration.",
       .options = std::move(options),
       .examples = {"scalai models", "scalai models llama3-70b --precision=bf16",
                    "scalai models ./config.json --format=json"},
       .max_arguments = 1,
       .operands = store::model_names(),
       .endings = {".json"}},
      models};
}

}  // namespace scalai::apps
