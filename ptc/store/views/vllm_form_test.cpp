// Sharded state of vLLM. tests/interop/vllm_test.py has vLLM itself judge it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/views/reshard.h"
#include "ptc/store/views/testing/test_model.h"
#include "ptc/store/views/view.h"

namespace scalai::store {
namespace vllm_form_test {

using ::testing::HasSubstr;

class VllmForm : public FolderTest {
 protected:
  absl::StatusOr<std::shared_ptr<const View>> view(const std::string& as, OpenOptions options = {}) const {
    const ViewSpec spec = *parse_view_name(as);
    options.kv_heads = spec.form == ViewForm::kVllm ? spec.layout->tp : 0;
    const auto checkpoint = Checkpoint::open(path("hf"), options);
    if (!checkpoint.ok()) return checkpoint.status();
    return View::make(*checkpoint, spec);
  }
  std::string refusal(const std::string& as) const {
    const auto made = view(as);
    return made.ok() ? "accepted" : message_of(made.status());
  }
  // The tensors of a file in a view, by name.
  static std::map<std::string, std::string> tensors(const View& view, const std::string& file) {
    const ByteSourcePtr source = *view.open(*view.find(file));
    const SafetensorsHeader header = *read_safetensors_header(*source);
    const std::string all = *read_all(*source);
    std::map<std::string, std::string> found;
    for (const StoredTensor& tensor : header.tensors)
      found[tensor.name] = all.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
    return found;
  }
  static std::string file_of(int rank) { return fmt::format("model-rank-{}-part-0.safetensors", rank); }
};

// 8 heads of 4 rows, 4 of keys and values: by tp2, rank 1 has queries 4 to 7, keys and values 2 and 3.
TEST_F(VllmForm, FusesWhatReadsTheSameInput) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 5);
  const auto made = view("tp2,vllm");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->name(), "vllm-tp2");
  const auto whole = tensors(**view("hf"), "model.safetensors");
  const auto rank = tensors(**made, file_of(1));
  const auto half = [&](const std::string& name) { return whole.at(name).substr(whole.at(name).size() / 2); };
  const std::string layer = "model.layers.1.";
  EXPECT_TRUE(rank.at(layer + "self_attn.qkv_proj.weight") == half(layer + "self_attn.q_proj.weight") +
                                                                  half(layer + "self_attn.k_proj.weight") +
                                                                  half(layer + "self_attn.v_proj.weight"));
  EXPECT_TRUE(rank.at(layer + "mlp.gate_up_proj.weight") ==
              half(layer + "mlp.gate_proj.weight") + half(layer + "mlp.up_proj.weight"));
  EXPECT_TRUE(rank.at("model.norm.weight") == whole.at("model.norm.weight"));
  EXPECT_EQ(rank.count(layer + "self_attn.q_proj.weight"), 0);
  for (const char* scale : {"_k_scale", "_v_scale", "_q_scale", "_prob_scale"}) {
    float value = 0;
    const std::string& bytes = rank.at(layer + "self_attn.attn." + scale);
    ASSERT_EQ(bytes.size(), sizeof(value)) << scale;
    std::memcpy(&value, bytes.data(), sizeof(value));
    EXPECT_EQ(value, 1) << scale;
  }
}

// Padded to a multiple of 64 in all, and cut then.
TEST_F(VllmForm, PadsTheVocabulary) {
  nlohmann::json config = *read_json(llama_config(8, 4));
  config["vocab_size"] = 70;
  write_hugging_face(path("hf"), config.dump(), {}, 5);
  const auto whole = tensors(**view("hf"), "model.safetensors");
  const std::string& words = whole.at("model.embed_tokens.weight");
  const size_t row = words.size() / 70;
  const auto made = view("tp4,vllm");
  ASSERT_TRUE(made.ok()) << made.status();
  std::string all;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string part = tensors(**made, file_of(rank)).at("model.embed_tokens.weight");
    EXPECT_EQ(part.size(), 32 * row);
    all += part;
  }
  EXPECT_TRUE(all == words + std::string(58 * row, '\0'));
}

TEST_F(VllmForm, ATiedEmbeddingHasTheNameOfTheHead) {
  write_hugging_face(path("hf"), llama_config(8, 4, true), {}, 5);
  const auto rank = tensors(**view("tp2,vllm"), file_of(0));
  EXPECT_EQ(rank.count("lm_head.weight"), 1);
  EXPECT_EQ(rank.count("model.embed_tokens.weight"), 0);
}

TEST_F(VllmForm, ExpertsAreStacked) {
  write_hugging_face(path("hf"), mixtral_config(), {}, 5);
  const auto made = view("tp2,vllm");
  ASSERT_TRUE(made.ok()) << made.status();
  const auto whole = tensors(**view("hf"), "model.safetensors");
  const std::string moe = "model.layers.0.block_sparse_moe.";
  std::string expected;
  for (int expert = 0; whole.count(fmt::format("{}experts.{}.w1.weight", moe, expert)) != 0; ++expert) {
    for (const char* part : {"w1", "w3"}) {
      const std::string& all = whole.at(fmt::format("{}experts.{}.{}.weight", moe, expert, part));
      expected += all.substr(0, all.size() / 2);
    }
  }
  EXPECT_FALSE(expected.empty());
  EXPECT_TRUE(tensors(**made, file_of(0)).at(moe + "experts.routed_experts.w13_weight") == expected);
}

// By the manifest of the folder; the scales are nobody's state.
TEST_F(VllmForm, ComesBackAsItWas) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 5);
  const auto made = view("tp2,vllm");
  const ReshardOptions there{.target = path("vllm"), .verify = true, .progress = {}};
  const auto written = reshard(**made, *plan_reshard(**made, there), there);
  ASSERT_TRUE(written.ok()) << written.status();
  const auto again = Checkpoint::open(path("vllm"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE((*again)->verify({}).ok());
  const auto back = View::make(*again, "hf");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(tensors(**back, "model.safetensors") == tensors(**view("hf"), "model.safetensors"));
}

TEST_F(VllmForm, WhatItCannotHaveIsRefused) {
  write_hugging_face(path("hf"), llama_config(8, 4), {}, 5);
  EXPECT_THAT(refusal("tp2,pp2,vllm"), HasSubstr("is written for tp alone, such as tp2; not for tp2,pp2"));
  EXPECT_THAT(refusal("tp2,dp2,vllm"), HasSubstr("is written for tp alone"));
  nlohmann::json config = *read_json(llama_config(8, 4));
  config["architectures"] = {"SmolLM3ForCausalLM"};
  write_text(path("hf/config.json"), config.dump());
  EXPECT_THAT(refusal("tp2,vllm"), HasSubstr("vLLM's names of \"SmolLM3ForCausalLM\" are not known here"));
  EXPECT_THAT(message_of(parse_view_name("vllm").status()), HasSubstr("\"vllm\" needs a layout"));
  const auto model = model_of_config(llama_config(8, 4), "tiny");
  const auto collection = collection::megatron_collection(*model, {}, {.tp = 2}, {DeviceId(0), DeviceId(1)});
  std::filesystem::remove_all(path("hf"));
  ASSERT_TRUE(write_checkpoint(path("hf"), *collection, {"job", 7}).ok());
  write_text(path("hf/config.json"), llama_config(8, 4));
  EXPECT_THAT(refusal("tp2,vllm"), HasSubstr("vLLM loads parameters only"));
}

}  // namespace vllm_form_test
}  // namespace scalai::store
