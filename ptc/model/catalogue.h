#pragma once
// Models by name, and models from a Hugging Face `config.json` of the same architectures. The returned models own all
// their data. Any thread may call.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/model/model.h"

namespace scalai::model {

// Names in the order of the catalogue: gpt3-125m … gpt3-175b, tenplex-gpt-1.3b …, gpt2 …, bert-…, llama2-…, llama3-…,
// mixtral-…, resnet-50.
std::vector<std::string> catalogue_names();

// Builds a catalogue model. InvalidArgument: unknown name; the message has the nearest name, or all names.
absl::StatusOr<Model> find_model(std::string_view name);

// Builds a model from the text of a Hugging Face config.json, at most 4 MiB. Architectures: GPT2LMHeadModel,
// BertForMaskedLM, BertForPreTraining, BertModel, LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM,
// ResNetForImageClassification. `name` becomes Model::name. InvalidArgument: text that is not JSON (with line and
// column), an unknown architecture, or all problems of the values at once, one a line with its JSON pointer
// ("/num_attention_heads: …").
absl::StatusOr<Model> model_from_hugging_face(std::string_view json_text, std::string_view name);

}  // namespace scalai::model
