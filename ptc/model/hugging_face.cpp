#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <numeric>

#include "ptc/base/diagnostics.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "ptc/base/utf8.h"
#include "ptc/model/catalogue.h"
#include "ptc/model/internal/config_reader.h"
#include "ptc/model/internal/families.h"

namespace scalai::model {
namespace {

using nlohmann::json;

// Upper bounds, several times the largest published model. Together they keep the state below 2^56 bytes and
// 2^20 tensors: at most 2^16 experts of 3 x 2^34 elements with 14 bytes each; layers and ends are smaller.
constexpr size_t kMaxTextBytes = size_t{4} << 20;
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHidden = 65536;
constexpr int64_t kMaxFfn = 262144;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxAttentionWidth = 65536;
constexpr int64_t kMaxVocab = int64_t{1} << 22;
constexpr int64_t kMaxSequence = int64_t{1} << 27;
constexpr int64_t kMaxTokenTypes = 65536;
constexpr int64_t kMaxExperts = 4096;
constexpr int64_t kMaxExpertsInAllLayers = 65536;
constexpr size_t kMaxStages = 64;
constexpr size_t kMaxArchitectureName = 100;

// The names under which an architecture stores the common sizes.
struct SizeKeys {
  std::string layers = "num_hidden_layers";
  std::string hidden = "hidden_size";
  std::string heads = "num_attention_heads";
  std::string sequence = "max_position_embeddings";
};

void read_sizes(ConfigReader& config, const SizeKeys& keys, Model& model) {
  model.layers = static_cast<int>(config.integer(keys.layers, kMaxLayers));
  model.hidden = config.integer(keys.hidden, kMaxHidden);
  model.heads = static_cast<int>(config.integer(keys.heads, kMaxHeads));
  model.kv_heads = model.heads;
  model.sequence = config.integer(keys.sequence, kMaxSequence);
  model.vocab = config.integer("vocab_size", kMaxVocab);
}

void refuse_cross_attention(ConfigReader& config) {
  if (config.flag_or("add_cross_attention", false)) {
    config.problem("add_cross_attention", "encoder-decoder models are not supported (set it to false)");
  }
}

absl::StatusOr<Model> read_gpt(ConfigReader& config, Model model) {
  model.family = "gpt";
  const SizeKeys keys = {.layers = "n_layer", .hidden = "n_embd", .heads = "n_head", .sequence = "n_positions"};
  read_sizes(config, keys, model);
  model.ffn = config.integer_or("n_inner", kMaxFfn, 4 * model.hidden);
  model.tied = config.flag_or("tie_word_embeddings", true);
  config.expect_divides({keys.heads, model.heads}, {keys.hidden, model.hidden});
  refuse_cross_attention(config);
  SCALAI_RETURN_IF_ERROR(config.status());
  append_gpt_params(model);
  return model;
}

absl::StatusOr<Model> read_bert(ConfigReader& config, Model model) {
  model.family = "bert";
  read_sizes(config, {}, model);
  model.ffn = config.integer("intermediate_size", kMaxFfn);
  model.tied = config.flag_or("tie_word_embeddings", true);
  const int64_t token_types = config.integer_or("type_vocab_size", kMaxTokenTypes, 2);
  config.expect_divides({"num_attention_heads", model.heads}, {"hidden_size", model.hidden});
  config.word("position_embedding_type", {"absolute"});
  refuse_cross_attention(config);
  SCALAI_RETURN_IF_ERROR(config.status());
  append_bert_params(model, token_types);
  return model;
}

// Heads, head width and feed-forward size as Llama, Mistral and Mixtral give them.
LlamaDetails read_attention(ConfigReader& config, Model& model) {
  read_sizes(config, {}, model);
  model.ffn = config.integer("intermediate_size", kMaxFfn);
  model.tied = config.flag_or("tie_word_embeddings", false);
  model.kv_heads = static_cast<int>(config.integer_or("num_key_value_heads", kMaxHeads, model.heads));
  config.expect_divides({"num_key_value_heads", model.kv_heads}, {"num_attention_heads", model.heads});
  const LlamaDetails details = {.head_dim = config.integer_or("head_dim", kMaxAttentionWidth, 0)};
  if (details.head_dim == 0) {
    config.expect_divides({"num_attention_heads", model.heads}, {"hidden_size", model.hidden});
  } else if (details.head_dim * model.heads > kMaxAttentionWidth) {
    config.problem("head_dim",
                   fmt::format("{} x {} heads is above {}", details.head_dim, model.heads, kMaxAttentionWidth));
  }
  return details;
}

absl::StatusOr<Model> read_llama(ConfigReader& config, Model model) {
  model.family = "llama";
  LlamaDetails details = read_attention(config, model);
  details.attention_bias = config.flag_or("attention_bias", false);
  details.mlp_bias = config.flag_or("mlp_bias", false);
  SCALAI_RETURN_IF_ERROR(config.status());
  append_llama_params(model, details);
  return model;
}

// Like Llama, but without any bias, whatever the file says.
absl::StatusOr<Model> read_mistral(ConfigReader& config, Model model) {
  model.family = "llama";
  const LlamaDetails details = read_attention(config, model);
  SCALAI_RETURN_IF_ERROR(config.status());
  append_llama_params(model, details);
  return model;
}

absl::StatusOr<Model> read_mixtral(ConfigReader& config, Model model) {
  model.family = "mixtral";
  const LlamaDetails details = read_attention(config, model);
  model.experts = static_cast<int>(config.integer("num_local_experts", kMaxExperts));
  model.experts_per_token = static_cast<int>(config.integer("num_experts_per_tok", kMaxExperts));
  if (model.experts > 0 && model.experts_per_token > model.experts) {
    config.problem("num_experts_per_tok",
                   fmt::format("{} is more than the {} of /num_local_experts", model.experts_per_token, model.experts));
  }
  if (int64_t{model.layers} * model.experts > kMaxExpertsInAllLayers) {
    config.problem("num_local_experts", fmt::format("{} experts in each of {} layers are more than {}", model.experts,
                                                    model.layers, kMaxExpertsInAllLayers));
  }
  SCALAI_RETURN_IF_ERROR(config.status());
  append_llama_params(model, details);
  return model;
}

// Image classifiers name their classes instead of counting them.
int64_t read_classes(ConfigReader& config, const json& root) {
  const auto labels = root.find("id2label");
  if (labels != root.end() && labels->is_object() && !labels->empty()) return static_cast<int64_t>(labels->size());
  return config.integer("num_labels", kMaxVocab);
}

absl::StatusOr<Model> read_resnet(ConfigReader& config, const json& root, Model model) {
  model.family = "resnet";
  const bool bottleneck = config.word("layer_type", {"bottleneck", "basic"}) == "bottleneck";
  const ResnetShape shape = {.image_channels = config.integer("num_channels", kMaxHidden),
                             .stem_width = config.integer("embedding_size", kMaxHidden),
                             .stage_width = config.integers("hidden_sizes", kMaxHidden, kMaxStages),
                             .stage_depth = config.integers("depths", kMaxLayers / int64_t{kMaxStages}, kMaxStages),
                             .bottleneck = bottleneck,
                             .downsample_first_stage = config.flag_or("downsample_in_first_stage", false),
                             .classes = read_classes(config, root)};
  for (size_t stage = 0; stage < shape.stage_width.size(); ++stage) {
    if (bottleneck && shape.stage_width[stage] % 4 != 0) {
      config.problem(fmt::format("hidden_sizes/{}", stage), "not a multiple of 4, which a bottleneck block needs");
    }
  }
  if (shape.stage_depth.size() != shape.stage_width.size()) {
    config.problem("depths", fmt::format("{} stages, but {} in /hidden_sizes", shape.stage_depth.size(),
                                         shape.stage_width.size()));
  }
  SCALAI_RETURN_IF_ERROR(config.status());
  model.layers = static_cast<int>(std::accumulate(shape.stage_depth.begin(), shape.stage_depth.end(), int64_t{0}));
  model.hidden = shape.stage_width.back();
  append_resnet_params(model, shape);
  return model;
}

constexpr std::array<std::string_view, 8> kArchitectures = {
    "GPT2LMHeadModel",  "BertForMaskedLM",    "BertForPreTraining", "BertModel",
    "LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM", "ResNetForImageClassification"};

// Fields that name no size and no operation of a decoder as Llama's: of tokens, initialisation, inference.
constexpr std::array<std::string_view, 22> kHarmless = {"_name_or_path",
                                                        "architectures",
                                                        "attention_dropout",
                                                        "auto_map",
                                                        "bos_token_id",
                                                        "dtype",
                                                        "eos_token_id",
                                                        "hidden_act",
                                                        "hidden_dropout",
                                                        "id2label",
                                                        "initializer_range",
                                                        "label2id",
                                                        "max_position_embeddings",
                                                        "model_type",
                                                        "pad_token_id",
                                                        "pretraining_tp",
                                                        "rms_norm_eps",
                                                        "rope_scaling",
                                                        "rope_theta",
                                                        "torch_dtype",
                                                        "transformers_version",
                                                        "use_cache"};
constexpr std::array<std::string_view, 10> kLlamaFields = {"hidden_size",
                                                           "intermediate_size",
                                                           "num_hidden_layers",
                                                           "num_attention_heads",
                                                           "num_key_value_heads",
                                                           "vocab_size",
                                                           "tie_word_embeddings",
                                                           "attention_bias",
                                                           "mlp_bias",
                                                           "head_dim"};

// How an unknown decoder differs from the one that most decoders are like; "" where it is not like that.
std::string difference_to_llama(const json& root) {
  for (const char* field :
       {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"})
    if (!root.contains(field)) return "";
  std::vector<std::string> more;
  for (const auto& [field, value] : root.items()) {
    const auto in = [&name = field](const auto& list) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    if (!in(kHarmless) && !in(kLlamaFields) && more.size() < 12) more.push_back(clipped(field, 40));
  }
  if (more.empty()) return "; its fields are those of LlamaForCausalLM: if its layers are, too, write that name";
  return fmt::format("; it has the sizes of LlamaForCausalLM, and besides {}", fmt::join(more, ", "));
}

absl::StatusOr<std::string> read_architecture(const json& root) {
  const auto found = root.find("architectures");
  if (found == root.end() || !found->is_array() || found->size() != 1 || !found->front().is_string() ||
      found->front().get_ref<const std::string&>().size() > kMaxArchitectureName) {
    return invalid(
        fmt::format("/architectures: not a list of one name (use one of {})", fmt::join(kArchitectures, ", ")));
  }
  const std::string& name = found->front().get_ref<const std::string&>();
  if (std::find(kArchitectures.begin(), kArchitectures.end(), name) != kArchitectures.end()) return name;
  // "Qwen2ForCausalLM" is few edits from "LlamaForCausalLM", but no slip of the pen: that one begins right.
  constexpr size_t kSameBeginning = 4;
  std::string near = closest(name, {kArchitectures.begin(), kArchitectures.end()});
  if (near.substr(0, kSameBeginning) != name.substr(0, kSameBeginning)) near.clear();
  if (!near.empty())
    return invalid(fmt::format("/architectures/0: unknown architecture \"{}\" (did you mean {}?)", name, near));
  return invalid(fmt::format("/architectures/0: unknown architecture \"{}\" (known are {}){}", name,
                             fmt::join(kArchitectures, ", "), difference_to_llama(root)));
}

}  // namespace

absl::StatusOr<Model> model_from_hugging_face(std::string_view json_text, std::string_view name) {
  if (json_text.size() > kMaxTextBytes) {
    return invalid(
        fmt::format("{} bytes are too many for a config.json (at most {})", json_text.size(), kMaxTextBytes));
  }
  SCALAI_ASSIGN_OR_RETURN(const json root, read_json(json_text));
  if (!root.is_object()) return invalid("a config.json is one JSON object, in braces");
  SCALAI_ASSIGN_OR_RETURN(const std::string architecture, read_architecture(root));
  const Model start = {.name = std::string(name), .source = fmt::format("config.json ({})", architecture)};
  ConfigReader config(root);
  if (architecture == "GPT2LMHeadModel") return read_gpt(config, start);
  if (architecture.starts_with("Bert")) return read_bert(config, start);
  if (architecture == "LlamaForCausalLM") return read_llama(config, start);
  if (architecture == "MistralForCausalLM") return read_mistral(config, start);
  if (architecture == "MixtralForCausalLM") return read_mixtral(config, start);
  return read_resnet(config, root, start);
}

}  // namespace scalai::model
