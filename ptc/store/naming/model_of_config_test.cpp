#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <tuple>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"

namespace scalai::store {
namespace model_of_config_test {

using model::Model;
using model::Param;

using ::testing::HasSubstr;

constexpr std::string_view kGpt2 = R"({
  "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new",
  "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_inner": null, "n_layer": 12, "n_positions": 1024,
  "vocab_size": 50257})";
constexpr std::string_view kBert = R"({
  "architectures": ["BertModel"], "hidden_size": 768, "intermediate_size": 3072,
  "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12, "type_vocab_size": 2,
  "vocab_size": 30522})";
constexpr std::string_view kLlama2 = R"({
  "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
  "tie_word_embeddings": false, "vocab_size": 32000})";
constexpr std::string_view kLlama3 = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 8192, "mlp_bias": false, "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "vocab_size": 128256})";
constexpr std::string_view kMixtral = R"({
  "architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "num_local_experts": 8, "sliding_window": null, "vocab_size": 32000})";
constexpr std::string_view kResnet = R"({
  "architectures": ["ResNetForImageClassification"], "depths": [3, 4, 6, 3], "downsample_in_first_stage": false,
  "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048], "layer_type": "bottleneck", "num_channels": 3,
  "num_labels": 1000})";
constexpr std::array kConfigs = {kGpt2, kBert, kLlama2, kLlama3, kMixtral, kResnet};

std::string replaced(std::string_view text, const std::string& from, const std::string& to) {
  std::string result(text);
  const size_t at = result.find(from);
  SCALAI_CHECK(at != std::string::npos, from);
  return result.replace(at, from.size(), to);
}

std::string error_of(std::string_view text) {
  const absl::StatusOr<Model> model = model_of_config(text, "test");
  EXPECT_FALSE(model.ok());
  EXPECT_EQ(exit_code_of(model.status()), 3);
  return message_of(model.status());
}

Model import(std::string_view text) {
  absl::StatusOr<Model> model = model_of_config(text, "test");
  SCALAI_CHECK(model.ok(), message_of(model.status()));
  return *std::move(model);
}

void expect_same(const Model& ours, const Model& theirs) {
  const auto sizes = [](const Model& m) {
    return std::tie(m.family, m.layers, m.hidden, m.heads, m.kv_heads, m.ffn, m.vocab, m.sequence, m.experts,
                    m.experts_per_token, m.tied);
  };
  EXPECT_EQ(sizes(ours), sizes(theirs));
  ASSERT_EQ(ours.params.size(), theirs.params.size());
  for (size_t i = 0; i < ours.params.size(); ++i) {
    const Param& a = ours.params[i];
    const Param& b = theirs.params[i];
    EXPECT_EQ(std::tie(a.name, a.shape, a.rule, a.layer, a.expert, a.buffer),
              std::tie(b.name, b.shape, b.rule, b.layer, b.expert, b.buffer))
        << a.name << " " << b.name;
  }
}

TEST(ModelOfConfig, EqualsTheCatalogueTensorByTensor) {
  const std::array<std::pair<std::string_view, std::string_view>, 6> pairs = {{{kGpt2, "gpt2"},
                                                                               {kBert, "bert-base"},
                                                                               {kLlama2, "llama2-7b"},
                                                                               {kLlama3, "llama3-8b"},
                                                                               {kMixtral, "mixtral-8x7b"},
                                                                               {kResnet, "resnet-50"}}};
  for (const auto& [config, name] : pairs) {
    SCOPED_TRACE(std::string(name));
    const absl::StatusOr<Model> catalogued = model::find_model(name);
    ASSERT_TRUE(catalogued.ok());
    expect_same(import(config), *catalogued);
  }
}

TEST(ModelOfConfig, ReadsBothNamesOfTheSameArchitecture) {
  expect_same(import(replaced(kLlama3, "LlamaForCausalLM", "MistralForCausalLM")), import(kLlama3));
}

TEST(ModelOfConfig, KeepsNameAndArchitecture) {
  const Model model = import(kGpt2);
  EXPECT_EQ(model.name, "test");
  EXPECT_THAT(model.source, HasSubstr("GPT2LMHeadModel"));
}

TEST(ModelOfConfig, TiesTheHeadWhenTheFileSaysSo) {
  const Model tied = import(replaced(kLlama2, "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true"));
  EXPECT_TRUE(tied.tied);
  EXPECT_EQ(import(kLlama2).parameter_count() - tied.parameter_count(), int64_t{32000} * 4096);
  const Model untied = import(replaced(kGpt2, "\"n_ctx\": 1024", "\"tie_word_embeddings\": false"));
  EXPECT_EQ(untied.parameter_count() - import(kGpt2).parameter_count(), int64_t{50257} * 768);
  EXPECT_EQ(untied.params.back().layer, Param::kLast);
}

TEST(ModelOfConfig, AddsAttentionAndFeedForwardBiases) {
  const int64_t plain = import(kLlama3).parameter_count();
  const Model attention = import(replaced(kLlama3, "\"attention_bias\": false", "\"attention_bias\": true"));
  EXPECT_EQ(attention.parameter_count() - plain, 32 * (4096 + 2 * 1024 + 4096));
  const Model mlp = import(replaced(kLlama3, "\"mlp_bias\": false", "\"mlp_bias\": true"));
  EXPECT_EQ(mlp.parameter_count() - plain, 32 * (2 * 14336 + 4096));
}

TEST(ModelOfConfig, TakesAHeadWidthThatIsNotHiddenOverHeads) {
  const Model model = import(replaced(kLlama3, "\"mlp_bias\": false", "\"head_dim\": 64"));
  EXPECT_EQ(model.parameter_count(), import(kLlama3).parameter_count() - 32 * int64_t{4096} * (64 * 48 + 64 * 32));
}

TEST(ModelOfConfig, FillsInWhatMayBeMissing) {
  EXPECT_EQ(import(replaced(kLlama2, "\"num_key_value_heads\": 32,", "")).kv_heads, 32);
  EXPECT_EQ(import(replaced(kLlama2, "\"num_key_value_heads\": 32", "\"num_key_value_heads\": null")).kv_heads, 32);
  EXPECT_EQ(import(replaced(kGpt2, "\"n_inner\": null", "\"n_inner\": 1000")).ffn, 1000);
}

// Sizes of releases: 671 billion, 1.04 trillion and 31.6 billion parameters, of which 37, 32 and 3.6 work on a token.
TEST(ModelOfConfig, NamedModelsHaveAsManyParametersAsWereReleased) {
  const auto billions = [](const char* name) {
    const absl::StatusOr<model::Model> model = find_model(name);
    EXPECT_TRUE(model.ok()) << message_of(model.status());
    return std::pair(static_cast<double>(model->parameter_count()) / 1e9,
                     static_cast<double>(model->active_parameter_count()) / 1e9);
  };
  EXPECT_NEAR(billions("deepseek-v3").first, 671.0, 0.05);
  EXPECT_NEAR(billions("deepseek-v3").second, 37, 0.6);
  EXPECT_NEAR(billions("kimi-k2").first, 1026, 1);
  EXPECT_NEAR(billions("qwen3-235b-a22b").first, 235.1, 0.05);
  EXPECT_NEAR(billions("gpt-oss-120b").first, 116.8, 0.05);
  EXPECT_NEAR(billions("gpt-oss-20b").first, 20.9, 0.05);
  EXPECT_EQ(find_model("gpt-oss-20b")->windowed_layers, 12);
  EXPECT_NEAR(billions("nemotron-3-nano").first, 31.6, 0.05);
  EXPECT_NEAR(billions("nemotron-3-nano").second, 3.6, 0.05);
  for (const std::string& name : model_names()) EXPECT_TRUE(find_model(name).ok()) << name;
  EXPECT_EQ(message_of(find_model("qwen3-31b").status()), "unknown model \"qwen3-31b\": did you mean \"qwen3-32b\"?");
}

// One block a layer, by letters.
TEST(ModelOfConfig, LayersFollowAPattern) {
  const std::string config = R"({"architectures": ["NemotronHForCausalLM"], "num_hidden_layers": 4, "hidden_size": 8,
      "num_attention_heads": 2, "mamba_num_heads": 4, "mamba_head_dim": 4, "ssm_state_size": 2, "n_groups": 2,
      "intermediate_size": 6, "n_routed_experts": 3, "num_experts_per_tok": 2, "vocab_size": 10,
      "max_position_embeddings": 16, "hybrid_override_pattern": "M*-E"})";
  const model::Model model = import(config);
  const auto has = [&](const std::string& name) {
    return std::any_of(model.params.begin(), model.params.end(), [&](const auto& param) { return param.name == name; });
  };
  EXPECT_TRUE(has("layers.0.state_space.x.weight") && has("layers.1.attention.qkv.weight") &&
              has("layers.2.mlp.up.weight") && has("layers.3.experts.2.up.weight"));
  EXPECT_FALSE(has("layers.1.mlp.up.weight") || has("layers.3.attention.qkv.weight"));
  EXPECT_EQ(model.state, 2);
  // 2 · 16 + 2 · 4 + 4 rows make z, x, B, C and the time steps.
  int64_t rows = 0;
  for (const model::Param& param : model.params)
    if (param.layer == 0 && param.shape.rank() == 2 && !param.name.ends_with("dense.weight")) rows += param.shape[0];
  EXPECT_EQ(rows, 44);
  EXPECT_EQ(message_of(model_of_config(replaced(config, "M*-E", "M*-"), "").status()),
            "/hybrid_override_pattern: the kinds of 3 layers, the model has 4");
}

// Windows by the keys that configurations share: a list of kinds, a pattern, the layers behind the first, or all.
TEST(ModelOfConfig, CountsLayersWithAWindow) {
  const auto windows = [](const std::string& more) {
    const model::Model model = import(replaced(kLlama2, "\"hidden_size\"", more + "\"hidden_size\""));
    return std::pair(model.windowed_layers, model.window);
  };
  EXPECT_EQ(windows(""), std::pair(0, int64_t{0}));
  EXPECT_EQ(windows(R"("sliding_window": 4096, )"), std::pair(32, int64_t{4096}));
  EXPECT_EQ(windows(R"("sliding_window": 4096, "use_sliding_window": false, )"), std::pair(0, int64_t{0}));
  EXPECT_EQ(windows(R"("sliding_window": 4096, "use_sliding_window": true, "max_window_layers": 28, )"),
            std::pair(4, int64_t{4096}));
  EXPECT_EQ(windows(R"("sliding_window": 512, "sliding_window_pattern": 6, )"), std::pair(27, int64_t{512}));
  EXPECT_EQ(windows(R"("sliding_window": 128, "layer_types": ["sliding_attention", "full_attention"], )"),
            std::pair(1, int64_t{128}));
  EXPECT_EQ(windows(R"("sliding_window": null, )"), std::pair(0, int64_t{0}));
}

TEST(ModelOfConfig, ReportsAllProblemsAtOnce) {
  const std::string error = error_of(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": -4096,
      "intermediate_size": 11008.5, "max_position_embeddings": "4096", "num_attention_heads": 30,
      "num_key_value_heads": 7, "num_hidden_layers": 0, "tie_word_embeddings": 1})");
  EXPECT_EQ(error,
            "/num_hidden_layers: 0 is not a whole number from 1 to 4096\n"
            "/hidden_size: -4096 is not a whole number from 1 to 65536\n"
            "/intermediate_size: 11008.5 is not a whole number from 1 to 262144\n"
            "/vocab_size: missing (add a whole number from 1 to 4194304)\n"
            "/max_position_embeddings: a string is not a whole number from 1 to 134217728\n"
            "/tie_word_embeddings: 1 is neither true nor false");
}

TEST(ModelOfConfig, RefusesSizesThatDoNotFitTogether) {
  EXPECT_EQ(error_of(replaced(kGpt2, "\"n_head\": 12", "\"n_head\": 7")),
            "/n_embd, /n_head: size \"head_dim\" = \"hidden / heads\": 768 is not a multiple of 7");
  EXPECT_EQ(error_of(replaced(kLlama3, "\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7")),
            "\"heads / kv_heads\": 32 is not a multiple of 7");
  EXPECT_EQ(error_of(replaced(kMixtral, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9")),
            "9 experts for a token are more than all 8");
  EXPECT_THAT(error_of(replaced(replaced(kMixtral, "\"num_local_experts\": 8", "\"num_local_experts\": 4096"),
                                "\"num_hidden_layers\": 32", "\"num_hidden_layers\": 512")),
              HasSubstr("are more than 1048576 tensors"));
}

TEST(ModelOfConfig, RefusesWhatItCannotDescribe) {
  EXPECT_THAT(error_of(replaced(kGpt2, "\"n_ctx\": 1024", "\"add_cross_attention\": true")),
              HasSubstr("/add_cross_attention"));
  EXPECT_THAT(error_of(replaced(kBert, "\"type_vocab_size\": 2", "\"position_embedding_type\": \"relative_key\"")),
              HasSubstr("/position_embedding_type: not supported (set it to absolute)"));
}

TEST(ModelOfConfig, NamesTheNearestArchitecture) {
  EXPECT_THAT(error_of(replaced(kLlama2, "LlamaForCausalLM", "LlamaForCausalLm")),
              HasSubstr("unknown architecture \"LlamaForCausalLm\" (did you mean LlamaForCausalLM?)"));
  const std::string cohere =
      error_of(replaced(kLlama2, "LlamaForCausalLM\"]", "CohereForCausalLM\"], \"logit_scale\": 2"));
  EXPECT_THAT(cohere, HasSubstr("it has the sizes of LlamaForCausalLM, and besides logit_scale"));
  EXPECT_THAT(cohere, ::testing::Not(HasSubstr("did you mean")));
  for (const std::string_view text : {R"({})", R"({"architectures": "GPT2LMHeadModel"})", R"({"architectures": []})",
                                      R"({"architectures": [1]})", R"({"architectures": ["A", "B"]})"}) {
    EXPECT_THAT(error_of(text), HasSubstr("/architectures: not a list of one name")) << text;
  }
}

TEST(ModelOfConfig, RefusesNumbersBeyondEveryRange) {
  for (const std::string number :
       {"65537", "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551615",
        "18446744073709551616", "-9223372036854775808", "1e300", "768.0", "true", "[768]", "{}"}) {
    EXPECT_THAT(error_of(replaced(kGpt2, "768", number)), HasSubstr("/n_embd: ")) << number;
  }
  EXPECT_THAT(error_of(replaced(kGpt2, "768", "1e400")), HasSubstr("line 3"));
}

TEST(ModelOfConfig, StateOfTheLargestAcceptedModelDoesNotOverflow) {
  const Model model = import(R"({"architectures": ["MixtralForCausalLM"], "hidden_size": 65536,
      "intermediate_size": 262144, "max_position_embeddings": 134217728, "num_attention_heads": 4096, "head_dim": 16,
      "num_experts_per_tok": 4096, "num_hidden_layers": 16, "num_local_experts": 4096, "vocab_size": 4194304})");
  const int64_t experts = (int64_t{1} << 16) * 3 * (int64_t{1} << 34);
  EXPECT_GT(model.parameter_count(), experts);
  EXPECT_GT(model::state_bytes(model, {}, true), 14 * experts);
  EXPECT_LT(model::state_bytes(model, {}, true), int64_t{1} << 56);
}

TEST(ModelOfConfig, SaysWhereTheTextStopsBeingJson) {
  EXPECT_THAT(error_of("{\n  \"a\": 1,\n  \"b\": x\n}"), HasSubstr("line 3, column 8"));
  EXPECT_THAT(error_of(""), HasSubstr("line 1, column 1"));
  EXPECT_THAT(error_of("{\"a\": \"\xff\"}"), HasSubstr("line 1, column 8"));
  EXPECT_THAT(error_of("[1, 2]"), HasSubstr("one JSON object"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("nested more than 64 levels"));
  EXPECT_THAT(error_of(std::string(1'000'000, '[') + std::string(1'000'000, ']')), HasSubstr("nested more than"));
  EXPECT_THAT(error_of(std::string(5 << 20, ' ')), HasSubstr("too many"));
}

// One random edit: a byte changed, a stretch removed or doubled, or a number replaced.
std::string mutated(std::string text, Random& random) {
  const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(text.size())));
  const auto length = static_cast<size_t>(random.between(1, 20));
  switch (random.below(4)) {
    case 0: text[at] = static_cast<char>(random.below(256)); break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    default: {
      const size_t digits = text.find_first_of("0123456789", at);
      if (digits != std::string::npos) text.replace(digits, 1, fmt::format("{}", random.between(-5, 5'000'000)));
    }
  }
  return text.empty() ? "{" : text;
}

TEST(ModelOfConfig, SurvivesRandomEdits) {
  constexpr uint64_t kSeed = 20240817;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text(kConfigs[static_cast<size_t>(round) % kConfigs.size()]);
    for (int64_t edits = random.between(1, 3); edits > 0; --edits) text = mutated(text, random);
    const absl::StatusOr<Model> model = model_of_config(text, "test");
    if (model.ok()) {
      ++accepted;
      ASSERT_GT(model->parameter_count(), 0) << text;
      ASSERT_GT(model::state_bytes(*model, {}, true), model->parameter_count()) << text;
    } else {
      ++refused;
      ASSERT_FALSE(message_of(model.status()).empty()) << text;
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 1000);
}

}  // namespace model_of_config_test
}  // namespace scalai::store
