#pragma once
// Options for the model and its state, and their conversion to values.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/state/model/model.h"

namespace scalai::apps {

std::vector<OptionSpec> recipe_options();  // --precision, --optimizer

model::Recipe recipe_of(const Arguments& arguments);

// Loads a model: a catalogue name, or the path of a Hugging Face configuration (it ends in ".json").
absl::StatusOr<model::Model> load_model(const std::string& name);

}  // namespace scalai::apps
