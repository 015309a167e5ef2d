#include "ptc/store/views/internal/left_out.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/store/torch/testing/torch_writer.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/views/testing/checkpoint_folder.h"

namespace scalai::store::internal {
namespace left_out_test {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class LeftOutTest : public CheckpointFolder {
 protected:
  std::string refusal(const std::string& name, const OpenOptions& options = {}) const {
    const auto opened = Checkpoint::open(path(name), options);
    EXPECT_TRUE(opened.ok() || absl::IsInvalidArgument(opened.status())) << opened.status();
    return opened.ok() ? "accepted" : message_of(opened.status());
  }
  void write_deepseek() const {
    write_hugging_face(path("hf"), deepseek_config(), {}, 3, false,
                       {{"model.layers.2.eh_proj.weight", tensor::DType::kBF16, {8, 16}},
                        {"model.layers.2.enorm.weight", tensor::DType::kBF16, {8}},
                        {"model.layers.2.self_attn.rotary_emb.inv_freq", tensor::DType::kF32, {1}}});
  }
};

TEST_F(LeftOutTest, LayersThatPredictFurtherTokensAreNeverLostUnasked) {
  write_deepseek();
  EXPECT_THAT(refusal("hf"),
              AllOf(HasSubstr("\"model.layers.2.eh_proj.weight\" [8, 16] is not expected: the model has 2 layers"),
                    HasSubstr("\"model.layers.2.enorm.weight\""), Not(HasSubstr("inv_freq")),
                    HasSubstr("hint: a tensor is left out only if --drop names it: --drop='model.layers.2.*'")));
  EXPECT_THAT(refusal("hf", {.drop = {"model.layers.2.enorm.*"}}), HasSubstr("eh_proj")) << "all of them, or none";
  const auto opened = open("hf", {.drop = {"model.layers.2.e*"}});
  EXPECT_THAT(opened->info().dropped, ElementsAre("model.layers.2.eh_proj.weight", "model.layers.2.enorm.weight"));
  EXPECT_THAT(opened->info().notes, Contains(HasSubstr("left out, as --drop says: model.layers.2.eh_proj.weight")));
  EXPECT_THAT(opened->info().notes,
              Contains(HasSubstr("no trained state: model.safetensors: model.layers.2.self_attn")));
}

TEST_F(LeftOutTest, TheWrittenConfigHasNoLayersThatAreNotThere) {
  write_deepseek();
  const auto opened = open("hf", {.drop = {"model.layers.2.*"}});
  for (const char* to : {"tp1", "hf"}) {
    const auto view = *View::make(opened, to);
    const auto config = read_json(*read_all(**view->open(*view->find("config.json"))));
    EXPECT_EQ(config->at("num_nextn_predict_layers"), 0) << to;
    EXPECT_EQ(config->at("num_hidden_layers"), 2) << to;
  }
  EXPECT_THAT(opened->info().notes, Contains("config.json: num_nextn_predict_layers is 0 now, and was 1"));
}

TEST_F(LeftOutTest, APatternThatNamesNothingIsRefused) {
  write_hugging_face(path("hf"), llama_config(4, 2));
  const std::string nothing = "--drop: nothing that may be left out is named \"lm_head.*\"";
  EXPECT_THAT(refusal("hf", {.drop = {"lm_head.*"}}), HasSubstr(nothing)) << "it is of the model";
  EXPECT_EQ(refusal("hf", {.drop = {"lm_head.*"}, .drop_may_be_idle = true}), "accepted");
}

TEST_F(LeftOutTest, WhateverIsUnknownCanBeNamed) {
  write_hugging_face(path("hf"), llama_config(4, 2), {}, 1, false, {{"v_head.weight", tensor::DType::kBF16, {1, 32}}});
  EXPECT_THAT(refusal("hf"),
              AllOf(HasSubstr("\"v_head.weight\" [1, 32] is not expected"), HasSubstr("--drop='v_head.weight'")));
  EXPECT_THAT(open("hf", {.drop = {"v_head.weight"}})->info().dropped, ElementsAre("v_head.weight"));
}

// Of a model without them, too, a head and a pooler are trained.
TEST_F(LeftOutTest, HeadsOfAnotherClassAreTrained) {
  write_hugging_face(path("hf"), R"({"architectures": ["BertModel"], "hidden_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 8})",
                     {}, 1, false, {{"cls.predictions.bias", tensor::DType::kBF16, {16}}});
  EXPECT_THAT(refusal("hf"), HasSubstr("\"cls.predictions.bias\" [16] is not expected"));
}

// A file of a rank with an optimizer in full precision, which keeps no masters.
TEST_F(LeftOutTest, AnOptimizerThatIsNotUnderstoodIsNeverLostUnasked) {
  write_hugging_face(path("hf"), llama_config(4, 2));
  const auto view = *View::make(open("hf"), "tp1,torch");
  const std::string name = "release/mp_rank_00/model_optim_rng.pt";
  const TorchFile file = *read_torch_file(**view->open(*view->find(name)));
  std::vector<TorchTensor> tensors;
  std::vector<std::pair<std::string, std::string>> storages;
  const auto add = [&](const std::string& tensor, const std::vector<int64_t>& shape, int64_t bytes) {
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t dim = shape.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * shape[dim];
    const std::string key = std::to_string(storages.size());
    tensors.push_back({.name = tensor, .shape = shape, .strides = strides, .key = key});
    storages.emplace_back(key, std::string(static_cast<size_t>(bytes), '\1'));
  };
  for (const StoredTensor& tensor : file.tensors) {
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    add(tensor.name, tensor.shape, elements * 4);
  }
  add("optimizer.state.0.exp_avg", {4}, 16);
  add("optimizer.state.0.max_exp_avg_sq", {4}, 16);
  add("optimizer.state.0.step", {}, 4);
  std::filesystem::create_directories(path("torch/release/mp_rank_00"));
  write_text(path("torch/" + name), torch_file(tensors, storages));
  write_text(path("torch/latest_checkpointed_iteration.txt"), "release");
  OpenOptions options{.config = path("hf/config.json")};
  EXPECT_THAT(refusal("torch", options),
              AllOf(HasSubstr("the optimizer's state has no place here"), HasSubstr("optimizer.state.0.exp_avg\""),
                    HasSubstr("optimizer.state.0.max_exp_avg_sq\""), Not(HasSubstr(".step\"")),
                    HasSubstr("hint: --drop=optimizer leaves it out")));
  options.drop_optimizer = true;
  EXPECT_THAT(open("torch", options)->info().notes,
              ElementsAre(HasSubstr("left out: the optimizer's state, 2 tensors")));
}

TEST(LeftOut, ManyAreListedAndNotAllOfThem) {
  LeftOut left;
  for (int i = 0; i < 60; ++i) left.others.push_back("w" + std::to_string(i));
  Opened opened;
  const std::string text = message_of(leave_out({}, "here", left, opened));
  EXPECT_THAT(text, AllOf(HasSubstr("here: 60 tensors are neither of the model nor"), HasSubstr("\n\"w49\""),
                          Not(HasSubstr("w50")), HasSubstr("… and 10 more"), HasSubstr("--drop='w0'")));
  EXPECT_TRUE(leave_out({.drop = {"w*"}}, "here", left, opened).ok());
  EXPECT_EQ(opened.info.dropped.size(), 60U);
  EXPECT_THAT(opened.info.notes, ElementsAre("left out, as --drop says: w0, w1, w10 and 57 more"));
}

}  // namespace left_out_test
}  // namespace scalai::store::internal
