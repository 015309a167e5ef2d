#pragma once
// Models by name, and any Hugging Face `config.json` of the same architectures.

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/model/model.h"

namespace scalai::model {

// Names in catalogue order: gpt3-125m … gpt3-175b, tenplex-gpt-1.3b …, gpt2 …, bert-…, llama2-…, llama3-…, mixtral-…,
// resnet-50.
std::vector<std::string> catalogue_names();

// Builds a catalogue model. Unknown name: InvalidArgument with the nearest names.
absl::StatusOr<Model> find_model(std::string_view name);

// Builds a model from the text of a Hugging Face config.json (architectures GPT2LMHeadModel, BertForMaskedLM /
// BertForPreTraining / BertModel, LlamaForCausalLM, MistralForCausalLM, MixtralForCausalLM,
// ResNetForImageClassification).
// Errors name the JSON pointer ("/num_attention_heads: …"); all of them at once, one a line.
absl::StatusOr<Model> model_from_hugging_face(std::string_view json_text, std::string_view name);

}  // namespace scalai::model
