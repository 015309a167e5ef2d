#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/naming/family.h"
#include "ptc/store/naming/testing/arrange.h"

namespace scalai::store {
namespace {

using testing::HasSubstr;

// Without the closing brace.
constexpr std::string_view kLlama =
    R"({"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 3, "hidden_size": 48,
  "num_attention_heads": 6, "intermediate_size": 64, "vocab_size": 101, "max_position_embeddings": 32)";
constexpr std::string_view kGpt = R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 24, "n_head": 3,
  "n_positions": 16, "vocab_size": 50257)";

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

std::string llama(const std::string& more) { return std::string(kLlama) + more + "}"; }
std::string gpt(const std::string& more) { return std::string(kGpt) + more + "}"; }

std::string problem_of(const std::string& config) {
  const auto family = Families::built_in().of_config(config);
  return message_of(family.ok() ? family->sizes_of_config(config).status() : family.status());
}

TEST(FamilyConfig, NamesAllProblemsByPointer) {
  EXPECT_EQ(
      problem_of(changed(changed(llama(R"(, "tie_word_embeddings": 1)"), "\"vocab_size\": 101", "\"vocab_size\": -4"),
                         "\"num_hidden_layers\": 3, ", "")),
      "/num_hidden_layers: missing (add a whole number from 1 to 4096)\n"
      "/vocab_size: -4 is not a whole number from 1 to 4194304\n"
      "/tie_word_embeddings: 1 is neither true nor false");
  EXPECT_EQ(problem_of(changed(llama(""), "\"num_attention_heads\": 6", "\"num_attention_heads\": 5")),
            "/hidden_size, /num_attention_heads: size \"head_dim\" = \"hidden / heads\": 48 is not a multiple of 5");
  EXPECT_EQ(problem_of(llama(R"(, "num_key_value_heads": 4)")), "\"heads / kv_heads\": 6 is not a multiple of 4");
  EXPECT_EQ(problem_of(llama(R"(, "num_key_value_heads": 1.5)")),
            "/num_key_value_heads: 1.5 is not a whole number from 1 to 4096");
  EXPECT_EQ(problem_of(llama(R"(, "head_dim": 18446744073709551615)")),
            "/head_dim: 18446744073709551615 is not a whole number from 1 to 65536");
  EXPECT_EQ(problem_of(gpt(R"(, "add_cross_attention": true)")),
            "/add_cross_attention: encoder-decoder models are not supported (set it to false)");
}

TEST(FamilyConfig, KnowsArchitectures) {
  EXPECT_EQ(
      problem_of(changed(llama(""), "LlamaFor", "LamaFor")),
      "/architectures/0: unknown architecture \"LamaForCausalLM\" (did you mean LlamaForCausalLM?); its fields are "
      "those of LlamaForCausalLM: if its layers are, too, write that name");
  EXPECT_EQ(problem_of(changed(llama(R"(, "use_qk_norm": true, "logit_scale": 2)"), "LlamaFor", "CohereFor")),
            "/architectures/0: unknown architecture \"CohereForCausalLM\"; it has the sizes of LlamaForCausalLM, and "
            "besides logit_scale, use_qk_norm");
  EXPECT_EQ(problem_of(changed(changed(llama(""), "LlamaFor", "OtherFor"), "\"vocab_size\": 101, ", "")),
            "/architectures/0: unknown architecture \"OtherForCausalLM\"; nearest is LlamaForCausalLM, but "
            "vocab_size is missing");
  EXPECT_THAT(problem_of(R"({"architectures": ["T5ForConditionalGeneration"]})"),
              HasSubstr("\"T5ForConditionalGeneration\" (known are BertForMaskedLM, "));
  EXPECT_EQ(problem_of(R"({"architectures": []})"), "/architectures: not a list of one name");
  EXPECT_EQ(problem_of("[]"), "a config.json is one JSON object, in braces");
  EXPECT_EQ(problem_of("{"), "line 1, column 2: this is not JSON: unexpected end of the file");
  EXPECT_THAT(message_of(family_named("gpt").sizes_of_config(llama("")).status()),
              HasSubstr("unknown architecture \"LlamaForCausalLM\""));
}

}  // namespace
}  // namespace scalai::store
