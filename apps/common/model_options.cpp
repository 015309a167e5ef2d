#include "apps/common/model_options.h"

#include <fmt/format.h>

#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

#include "ptc/store/naming/family.h"

namespace scalai::apps {

std::vector<OptionSpec> recipe_options() {
  return {choice_option("precision", "P", "Training precision.", {"fp16", "bf16", "fp32"}, "fp16"),
          choice_option("optimizer", "O", "Optimizer whose state is kept.", model::optimizer_names(), "adam")};
}

model::Recipe recipe_of(const Arguments& arguments) {
  const std::string precision = arguments.text("precision");
  model::Recipe recipe;
  recipe.param = precision == "fp32"   ? tensor::DType::kF32
                 : precision == "bf16" ? tensor::DType::kBF16
                                       : tensor::DType::kF16;
  recipe.master = precision != "fp32";
  if (arguments.has("optimizer")) recipe.optimizer = model::find_optimizer(arguments.text("optimizer")).value();
  return recipe;
}

absl::StatusOr<model::Model> load_model(const std::string& name) {
  if (!name.ends_with(".json")) return store::find_model(name);
  SCALAI_ASSIGN_OR_RETURN(const std::string text, read_file(name, int64_t{1} << 20));
  absl::StatusOr<model::Model> model = store::model_of_config(text, name);
  if (model.ok()) return model;
  // Each problem with the file's name.
  std::string problems;
  std::istringstream lines(message_of(model.status()));
  for (std::string line; std::getline(lines, line);)
    problems += fmt::format("{}{}: {}", problems.empty() ? "" : "\n", name, line);
  return absl::Status(model.status().code(), problems);
}

}  // namespace scalai::apps
