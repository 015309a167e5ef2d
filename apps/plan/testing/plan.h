#pragma once
// What tests of `scalai plan` as a program share: a folder with two small models, a cluster and two collection files.

#include "tests/end_to_end.h"

namespace scalai::testing {

// Four layers; qkv and feed-forward have 1024 columns or rows where it matters.
inline constexpr const char* kSmall =
    R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 64, "n_head": 16, "n_positions": 32,
        "n_inner": 1024, "vocab_size": 50257})";
inline constexpr const char* kExperts =
    R"({"architectures": ["MixtralForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 96, "vocab_size": 512, "max_position_embeddings": 32,
        "num_local_experts": 16, "num_experts_per_tok": 2})";
inline constexpr const char* kCluster =
    R"(name: "pair" hosts { count: 2 gpus: 4 gpu: "a100-80g" nics: 1 nic: "100Gbps" })";

// A collection file: w over some parts of its first dimension.
inline std::string parts_of_w(int parts, const std::string& more = "", const std::string& shape = "12, 2",
                              const std::string& rule = "") {
  return fmt::format(
      "name: \"w over {0}\" meshes {{ axes {{ name: \"x\" size: {0} }} }} devices: \"0-{1}\"\n"
      "tensors {{ name: \"w\" dtype: \"F32\" shape: [{2}] cuts {{ axis: \"x\" dim: 0 {3} }} }}\n{4}\n",
      parts, parts - 1, shape, rule, more);
}

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class PlanProgram : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    write("small.json", kSmall);
    write("experts.json", kExperts);
    write("pair.textproto", kCluster);
    write("three.textproto", parts_of_w(3));
    write("two.textproto", parts_of_w(2));
  }
  void write(const std::string& name, const std::string& text) const { write_all(folder_ / name, text); }

  // `scalai WORDS` in the test's folder.
  Outcome scalai(const std::string& words) const {
    return shell(fmt::format("cd '{}' && '{}/scalai' {}", folder_.string(), kPrograms.string(), words));
  }
  Outcome small(const std::string& words) const { return scalai("plan --model=small.json " + words); }
  Outcome expect_refused(const std::string& words, int code, const std::string& part) const {
    const Outcome outcome = scalai("plan " + words);
    EXPECT_EQ(outcome.code, code) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_TRUE(has(outcome.err, part)) << words << "\n" << outcome.err;
    return outcome;
  }
};

}  // namespace scalai::testing
