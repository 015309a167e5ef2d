// `scalai checkpoint reshard` and `scalai checkpoint` as their users run them: the real program on tiny models.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "ptc/store/views/testing/test_model.h"
#include "tests/checkpoint_command.h"

namespace scalai::store {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ReshardCommand : public CommandTest {};

// Another bit in the first byte of a tensor of a safetensors file.
bool change_tensor(const std::string& file, const std::string& tensor) {
  const std::string bytes = text_of(file);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  const json names = json::parse(bytes.substr(8, header));
  if (!names.contains(tensor)) return false;
  damage(file, static_cast<int64_t>(8 + header) + names.at(tensor).at("data_offsets").at(0).get<int64_t>());
  return true;
}

// Layers that predict further tokens, which the model has no place for.
TEST_F(ReshardCommand, ATrainedTensorIsLeftOutOnlyByName) {
  write_hugging_face(path("hf"), deepseek_config(), {}, 3, true,
                     {{"model.layers.2.eh_proj.weight", tensor::DType::kBF16, {8, 16}},
                      {"model.layers.2.enorm.weight", tensor::DType::kBF16, {8}}});
  for (const char* words : {"reshard {}/hf {}/to --to=tp1 --verify", "reshard {}/hf {}/to --to=logical", "show {}/hf",
                            "verify {}/hf", "stats {}/hf"}) {
    const Outcome refused = scalai(fmt::format("checkpoint {}", words));
    EXPECT_EQ(refused.code, 3) << words << refused.out;
    EXPECT_THAT(refused.err, HasSubstr("\"model.layers.2.enorm.weight\" [8] is not expected")) << words;
    EXPECT_THAT(refused.err, HasSubstr("--drop='model.layers.2.*'")) << words;
  }
  EXPECT_FALSE(std::filesystem::exists(path("to")));
  const std::string drop = " --drop=model.layers.2.*";
  const Outcome done = scalai("checkpoint reshard {}/hf {}/to --to=tp1 --verify" + drop);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.out, HasSubstr("read back and equal to the source: "));
  EXPECT_THAT(done.out, HasSubstr("tensors, without 2 that are left out\n"));
  EXPECT_THAT(done.out,
              HasSubstr("note: left out, as --drop says: model.layers.2.eh_proj.weight, model.layers.2.enorm.weight"));
  const Outcome back = scalai("checkpoint reshard {}/to {}/back --to=hf --verify --format=json");
  EXPECT_EQ(json::parse(back.out)["left_out"], json::array());
  EXPECT_EQ(json::parse(text_of(path("back/config.json")))["num_nextn_predict_layers"], 0);
  const Outcome shown = scalai("checkpoint show {}/hf --format=json" + drop);
  EXPECT_EQ(json::parse(shown.out)["left_out"].size(), 2U);
  EXPECT_THAT(scalai("checkpoint stats {}/hf --since={}/to" + drop).err, HasSubstr("left out, as --drop says"));
  EXPECT_THAT(scalai("checkpoint reshard {}/to {}/again --to=hf" + drop).err,
              HasSubstr("--drop: nothing that may be left out is named \"model.layers.2.*\""));
}

TEST_F(ReshardCommand, ThereAndBackWithVerify) {
  write_hugging_face(path("hf"), gpt2_config());
  EXPECT_EQ(scalai("checkpoint reshard {}/hf {}/a --to=tp4,pp2 --verify").code, 0);
  EXPECT_EQ(scalai("checkpoint reshard {}/a {}/b --to=tp2,pp1").code, 0);
  const Outcome back = scalai("checkpoint reshard {}/b {}/c --to=hf --verify --format=json");
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_EQ(json::parse(back.out)["verified"], true);
  EXPECT_TRUE(text_of(path("hf/model.safetensors")) == text_of(path("c/model.safetensors")));
  const Outcome verified = scalai("checkpoint verify {}/a");
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("all checksums are right"));
  ASSERT_TRUE(change_tensor(path("a/rank_005.safetensors"), "decoder.layers.0.mlp.linear_fc1.weight"));
  const Outcome damaged = scalai("checkpoint verify {}/a");
  EXPECT_EQ(damaged.code, 3);
  EXPECT_THAT(damaged.err, HasSubstr("rank_005.safetensors: tensor \""));
  // A damaged source does not become a target that looks sound.
  const Outcome copied = scalai("checkpoint reshard {}/a {}/d --to=hf --verify");
  EXPECT_EQ(copied.code, 3);
  EXPECT_THAT(copied.err, HasSubstr("The source is damaged"));
  EXPECT_FALSE(std::filesystem::exists(path("d")));
  const Outcome shown = scalai("checkpoint show {}/a --format=json");
  EXPECT_EQ(shown.code, 0);
  const json info = json::parse(shown.out);
  EXPECT_EQ(info["kind"], "arranged");
  EXPECT_EQ(info["layout"], "tp4,pp2");
  EXPECT_EQ(info["naming"], "megatron");
}

// Nothing that is made of damaged state looks sound.
TEST_F(ReshardCommand, DamageIsNeverCertified) {
  write_hugging_face(path("hf"), gpt2_config());
  const Outcome sound = scalai("checkpoint reshard {}/hf {}/a --to=tp2");
  ASSERT_EQ(sound.code, 0) << sound.err;
  EXPECT_THAT(sound.out, HasSubstr("note: the source has no checksums"));
  EXPECT_THAT(scalai("checkpoint verify {}/hf").out, HasSubstr("it has no checksums"));
  ASSERT_TRUE(change_tensor(path("a/rank_001.safetensors"), "decoder.layers.0.mlp.linear_fc1.weight"));
  const Outcome refused = scalai("checkpoint reshard {}/a {}/b --to=hf");
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, HasSubstr("rank_001.safetensors: tensor \"decoder.layers.0.mlp.linear_fc1.weight\" (\""));
  for (const char* left : {"b", "b.partial", "b.partial.journal"})
    EXPECT_FALSE(std::filesystem::exists(path(left))) << left;
  const Outcome accepted = scalai("checkpoint reshard {}/a {}/b --to=hf --accept-damage --verify");
  EXPECT_EQ(accepted.code, 0) << accepted.err;
  EXPECT_THAT(accepted.out, HasSubstr("damaged, and copied as it is: "));
  const Outcome verified = scalai("checkpoint verify {}/b");
  EXPECT_EQ(verified.code, 3);
  EXPECT_THAT(verified.out + verified.err, ::testing::Not(HasSubstr("all checksums are right")));
  EXPECT_THAT(verified.err, HasSubstr("was written from damaged state, which was accepted: "));
  EXPECT_THAT(scalai("checkpoint show {}/b").out, HasSubstr("note: has state that was copied from a damaged file: "));
  EXPECT_EQ(json::parse(scalai("checkpoint show {}/b --format=json").out)["damage"].size(), 1u);
  EXPECT_EQ(scalai("checkpoint reshard {}/b {}/c --to=tp2").code, 0);
  EXPECT_EQ(scalai("checkpoint verify {}/c").code, 3);
}

// The same bytes by a GPU; where there is none, the reason and no trace.
TEST_F(ReshardCommand, StepsAreComputedOnAGpuIfThereIsOne) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 1, /*finite=*/true);
  const std::string steps = " --to=logical --transform='scale(0.3)' --transform='quantise(i8)'";
  const Outcome on_gpu = scalai("checkpoint reshard {}/hf {}/gpu --backend=cuda --verify" + steps);
  if (on_gpu.code == 0) {
    EXPECT_THAT(on_gpu.out, HasSubstr(" by GPU 0, "));
    EXPECT_EQ(scalai("checkpoint reshard {}/hf {}/host" + steps).code, 0);
    EXPECT_TRUE(text_of(path("gpu/model.safetensors")) == text_of(path("host/model.safetensors")));
  } else {
    EXPECT_EQ(on_gpu.code, 4);
    EXPECT_THAT(on_gpu.err, HasSubstr("--backend=cuda: "));
    EXPECT_FALSE(std::filesystem::exists(path("gpu")));
    EXPECT_FALSE(std::filesystem::exists(path("gpu.partial")));
  }
  const Outcome nothing = scalai("checkpoint reshard {}/hf {}/a --to=logical --backend=cuda");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--backend=cuda computes the steps of --transform, and there are none"));
}

// Neither a target nor its temporary folder nor a journal.
TEST_F(ReshardCommand, WhatCannotBeReadLeavesNoTrace) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const std::string config = text_of(path("hf/config.json")), tensors = text_of(path("hf/model.safetensors"));
  const std::string quantised = R"({"quantization_config": {"quant_method": "gptq"}, )" + config.substr(1);
  for (const auto& [file, text, problem] :
       {std::tuple("model.safetensors", tensors.substr(0, tensors.size() - 1), "model.safetensors"),
        std::tuple("config.json", std::string("{"), "config.json"),
        std::tuple("config.json", quantised, "weights of \"gptq\" are not read here")}) {
    write_text(path("hf/config.json"), config);
    write_text(path("hf/model.safetensors"), tensors);
    write_text(path("hf/") + file, text);
    for (const char* form : {"tp2", "hf", "torch_dist", "dcp", "tp2,torch", "tp2 --part=1/2"}) {
      const Outcome outcome = scalai(std::string("checkpoint reshard {}/hf {}/out --to=") + form);
      EXPECT_EQ(outcome.code, 3) << form << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr(problem));
      for (const auto& entry : std::filesystem::directory_iterator(path(""))) {
        const std::string name = entry.path().filename();
        EXPECT_TRUE(name == "hf" || name == "stdout" || name == "stderr") << name;
      }
    }
  }
}

TEST_F(ReshardCommand, AFinishedPartIsReadAgainAndWrittenAnewOnDemand) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  const std::string command = "checkpoint reshard {}/hf {}/out --to=tp2,pp2 --part=2/2";
  ASSERT_EQ(scalai(command).code, 0);
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(path("out.part-2-of-2"))) {
    if (entry.path().extension() == ".safetensors") file = entry.path();
  }
  const std::string right = text_of(file);
  std::string damaged = right;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  write_text(file, damaged);
  const Outcome verified = scalai(command + " --verify");
  EXPECT_EQ(verified.code, 3);
  EXPECT_THAT(verified.err, HasSubstr("is not what was written; --restart writes this part anew"));
  EXPECT_TRUE(text_of(file) == damaged);
  EXPECT_EQ(scalai(command + " --restart").code, 0);
  EXPECT_TRUE(text_of(file) == right);
  EXPECT_EQ(scalai(command + " --verify").code, 0);
  EXPECT_FALSE(std::filesystem::exists(path("out.part-2-of-2.partial.journal")));
}

// What several ranks have is one tensor, and a copy that differs is no copy: with or without --verify.
TEST_F(ReshardCommand, CopiesThatDifferAreRefused) {
  write_hugging_face(path("hf"), llama_config(8, 2));
  ASSERT_EQ(scalai("checkpoint reshard {}/hf {}/ranks --to=tp2").code, 0);
  // Ranks of another tool, which have no checksums; the last tensor of a rank's file is a norm, whole on both.
  std::filesystem::remove(path("ranks/manifest.json"));
  const std::string options = " --from=tp2 --config={}/hf/config.json --to=tp1";
  EXPECT_EQ(scalai("checkpoint reshard {}/ranks {}/same" + options).code, 0);
  ASSERT_TRUE(change_tensor(path("ranks/rank_001.safetensors"), "decoder.final_layernorm.weight"));
  const Outcome refused = scalai("checkpoint reshard {}/ranks {}/out" + options);
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("rank_001.safetensors: tensor \"decoder.final_layernorm.weight\""));
  EXPECT_THAT(refused.err, HasSubstr("is not what"));
  EXPECT_THAT(refused.err, HasSubstr("--replicas=first"));
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  EXPECT_FALSE(std::filesystem::exists(path("out.partial")));
  const Outcome first = scalai("checkpoint reshard {}/ranks {}/out --replicas=first" + options);
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("note: copies of the same state were not compared; the first of each counts"));
  EXPECT_TRUE(text_of(path("same/rank_000.safetensors")) == text_of(path("out/rank_000.safetensors")));
  // Said is said: with --verify, too.
  const Outcome checked = scalai("checkpoint reshard {}/ranks {}/checked --replicas=first --verify" + options);
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_THAT(checked.out, HasSubstr("note: copies of the same state were not compared"));
}

TEST_F(ReshardCommand, AHeadThatIsNoCopyOfItsEmbeddingIsRefused) {
  write_hugging_face(path("hf"), llama_config(8, 2, true));
  ASSERT_EQ(scalai("checkpoint reshard {}/hf {}/ranks --to=pp2").code, 0);
  std::filesystem::remove(path("ranks/manifest.json"));
  ASSERT_TRUE(change_tensor(path("ranks/rank_001.safetensors"), "output_layer.weight"));
  const Outcome refused = scalai("checkpoint reshard {}/ranks {}/out --from=pp2 --config={}/hf/config.json --to=tp1");
  EXPECT_EQ(refused.code, 3) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("rank_001.safetensors: tensor \"output_layer.weight\""));
}

TEST_F(ReshardCommand, FamiliesOfAFolderReachTheFinalCheck) {
  std::filesystem::create_directory(path("families"));
  std::string family = text_of(std::string(SCALAI_SOURCE_DIR) + "/ptc/store/naming/families/llama.textproto");
  const auto replace = [](std::string& text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
  };
  replace(family, "\"llama\"", "\"mine\"");
  for (size_t at; (at = family.find("\"LlamaForCausalLM\"")) != std::string::npos;)
    family.replace(at, 18, "\"MineForCausalLM\"");
  write_text(path("families/mine.textproto"), family);
  write_hugging_face(path("hf"), llama_config(8, 2));
  std::string config = llama_config(8, 2);
  replace(config, "LlamaForCausalLM", "MineForCausalLM");
  write_text(path("hf/config.json"), config);
  const Outcome there = scalai("checkpoint reshard {}/hf {}/a --to=tp2 --families={}/families --verify");
  EXPECT_EQ(there.code, 0) << there.err;
  const Outcome back = scalai("checkpoint reshard {}/a {}/b --to=hf --families={}/families --verify");
  EXPECT_EQ(back.code, 0) << back.err;
  EXPECT_TRUE(text_of(path("hf/model.safetensors")) == text_of(path("b/model.safetensors")));
}

TEST_F(ReshardCommand, OptimizerStateGoesAlongAndIsLeftOutOfHuggingFace) {
  ASSERT_TRUE(write_checkpoint(path("job"), sample_collection(), {"job", 12}).ok());
  const Outcome shown = scalai("checkpoint show {}/job");
  EXPECT_EQ(shown.code, 0);
  EXPECT_THAT(shown.out, HasSubstr("kind job"));
  EXPECT_EQ(scalai("checkpoint verify {}/job").code, 0);
  EXPECT_THAT(scalai("checkpoint reshard {}/job {}/out --to=tp2").err, HasSubstr("--model=NAME"));
  // The same state, uncut, as a collection file says it.
  write_text(path("one.textproto"), R"(
    schema_version: 1 name: "one" meshes { axes { name: "tp" size: 1 } } devices: "0"
    tensors { name: "w" dtype: "BF16" shape: [8, 6] }
    tensors { name: "columns" dtype: "F32" shape: [5, 9] }
    tensors { name: "tied" dtype: "F16" shape: [7] }
    tensors { name: "flat" dtype: "F32" shape: [3, 5, 7] kind: EXP_AVG }
    tensors { name: "flat#0" dtype: "U8" shape: [3] }
    tensors { name: "few" dtype: "I16" shape: [1, 4] }
    tensors { name: "none" dtype: "F64" shape: [0, 4] }
    tensors { name: "step" dtype: "I64" kind: SCALAR })");
  const Outcome resharded = scalai("checkpoint reshard {}/job {}/out --to={}/one.textproto --verify");
  EXPECT_EQ(resharded.code, 0) << resharded.err;
  EXPECT_EQ(scalai("checkpoint verify {}/out").code, 0);
}

}  // namespace
}  // namespace scalai::store
