#pragma once
// Models by name. The returned models own all their data. Any thread may call.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/state/model/model.h"

namespace scalai::model {

// Names in the order of the catalogue: gpt3-125m … gpt3-175b, tenplex-gpt-1.3b …, gpt2 …, bert-…, llama2-…, llama3-…,
// mixtral-…, resnet-50.
std::vector<std::string> catalogue_names();

// Builds a catalogue model. InvalidArgument: unknown name; the message has the nearest name, or all names.
absl::StatusOr<Model> find_model(std::string_view name);

// A ResNet from the text of a Hugging Face config.json (ResNetForImageClassification), at most 4 MiB. Other
// architectures are families: store::model_of_config. `name` becomes Model::name. InvalidArgument: text that is
// not JSON (with line and column), or all problems of the values at once, one a line with its JSON pointer
// ("/hidden_sizes/1: …").
absl::StatusOr<Model> resnet_of_config(std::string_view json_text, std::string_view name);

}  // namespace scalai::model
