// check_workload() of ptc/cost/step/training.h.

#include <gtest/gtest.h>

#include <string>

#include "ptc/base/status.h"
#include "ptc/cost/step/training.h"

namespace scalai::step {
namespace {

using collection::ParallelConfig;

ModelShape llama() {
  return transformer_shape(
      {.name = "l", .layers = 12, .hidden = 64, .heads = 16, .kv_heads = 4, .ffn = 96, .gated = true, .vocab = 100});
}

ModelShape mixture() {
  ModelShape model = llama();
  model.experts = 6;
  model.experts_per_token = 2;
  return transformer_shape(model);
}

Training training() {
  return {.global_batch = 48, .micro_batch = 2, .sequence = 64, .precision = find_precision("bf16").value()};
}

// "" when there is nothing to complain about.
std::string problems(const ModelShape& model, const ParallelConfig& config, const Training& how = training()) {
  return message_of(check_workload({model, config, how}));
}

TEST(CheckWorkload, TakesWhatDivides) {
  EXPECT_EQ(problems(llama(), {}), "");
  EXPECT_EQ(problems(llama(), {.tp = 4, .pp = 3, .dp = 2, .cp = 2, .vpp = 2, .zero = 1}), "");
  EXPECT_EQ(problems(llama(), {.tp = 8}), "");  // twice the key-value heads
  EXPECT_EQ(problems(llama(), {.pp = 3, .stages = {5, 4, 3}}), "");
  EXPECT_EQ(problems(mixture(), {.tp = 2, .dp = 3, .ep = 3, .etp = 2}), "");
}

TEST(CheckWorkload, HeadsAndColumns) {
  EXPECT_EQ(problems(llama(), {.tp = 3}),
            "tp3 does not divide the 16 attention heads of l\ntp3 does not divide the 4 key-value heads of l\n"
            "sequence parallelism needs tp3 to divide the 64 tokens that cp1 leaves a rank");
  ModelShape model = llama();
  model.heads = model.ffn = 24;
  Training alone = training();
  alone.sequence_parallel = false;
  EXPECT_EQ(problems(model, {.tp = 6}, alone), "tp6 is not a multiple of the 4 key-value heads of l");
  model.ffn = 25;
  EXPECT_EQ(problems(model, {.tp = 2}), "tp2 does not divide the 25 feed-forward columns of l");
}

TEST(CheckWorkload, Sequence) {
  EXPECT_EQ(problems(llama(), {.cp = 3}), "cp3 does not divide a sequence of 64 tokens");
  Training how = training();
  how.sequence = 66;
  EXPECT_EQ(problems(llama(), {.tp = 4, .cp = 2}, how),
            "sequence parallelism needs tp4 to divide the 33 tokens that cp2 leaves a rank");
  how.sequence_parallel = false;
  EXPECT_EQ(problems(llama(), {.tp = 4, .cp = 2}, how), "");
  ModelShape model = llama();
  model.sequence = 64;
  EXPECT_EQ(problems(model, {}, how), "");  // rotary positions reach further
  model.positions = true;
  EXPECT_EQ(problems(model, {}, how), "a sequence of 66 tokens is longer than the 64 positions of l");
  model.sequence = 0;
  EXPECT_EQ(problems(model, {}, how), "") << "it does not say how many positions it has";
}

TEST(CheckWorkload, Stages) {
  EXPECT_EQ(problems(llama(), {.pp = 13}), "13 pipeline stages are more than the 12 layers of l");
  EXPECT_EQ(problems(llama(), {.pp = 2, .stages = {6, 5}}), "stages sum to 11 layers, l has 12");
  EXPECT_EQ(problems(llama(), {.pp = 2, .stages = {12}}), "1 stages are listed, pp · vpp is 2");
  EXPECT_EQ(problems(llama(), {.pp = 2, .stages = {12, 0}}), "each pipeline stage needs a layer");
}

TEST(CheckWorkload, Interleaving) {
  EXPECT_EQ(problems(llama(), {.vpp = 2}), "vpp2 needs a pipeline, pp is 1");
  Training how = training();
  how.schedule = Schedule::kTwoBW;
  EXPECT_EQ(problems(llama(), {.pp = 2, .vpp = 2}, how), "vpp2 goes with schedule 1f1b, not with 2bw");
  EXPECT_EQ(problems(llama(), {.pp = 4, .dp = 4, .vpp = 3}),
            "interleaving (vpp3) needs pp4 to divide the 6 micro-batches");
}

TEST(CheckWorkload, Experts) {
  EXPECT_EQ(problems(llama(), {.dp = 4, .ep = 2, .etp = 2}),
            "ep2 needs experts, l has none\netp2 needs experts, l has none");
  EXPECT_EQ(problems(mixture(), {.dp = 4, .ep = 4}), "ep4 does not divide the 6 experts of l");
  EXPECT_EQ(problems(mixture(), {.dp = 4, .etp = 64}),
            "etp64 does not divide the 96 feed-forward columns of l\n"
            "etp · ep = 64 does not divide the 4 ranks of a pipeline stage");
  EXPECT_EQ(problems(mixture(), {.order = {"tp", "pp", "cp", "dp"}}),
            "a model with experts needs pp first or last in order=");
  EXPECT_EQ(problems(mixture(), {.order = {"pp", "tp", "cp", "dp"}}), "");
  ModelShape odd = mixture();
  odd.ffn = 90;
  EXPECT_EQ(problems(odd, {.tp = 4}), "") << "etp cuts the columns of experts, not tp";
}

TEST(CheckWorkload, Batch) {
  EXPECT_EQ(problems(llama(), {.dp = 5}), "a global batch of 48 is no multiple of dp · micro-batch = 10");
  EXPECT_EQ(problems(llama(), {.dp = 48}), "a global batch of 48 is no multiple of dp · micro-batch = 96");
  Training dealt = training();
  dealt.whole_batches = false;
  EXPECT_EQ(problems(llama(), {.dp = 5}, dealt), "");
  EXPECT_EQ(problems(llama(), {.pp = 4, .dp = 4, .vpp = 3}, dealt), "");
}

TEST(CheckWorkload, NamesEverySizeOfZero) {
  ModelShape model{.layers = 0, .heads = 2, .experts = 2, .experts_per_token = 3};
  const ParallelConfig config = {.tp = 0, .pp = 0, .dp = 0, .cp = 0, .ep = -1, .etp = 0, .vpp = 0, .zero = 4};
  const std::string all = problems(model, config, {.global_batch = 0, .micro_batch = 0});
  for (const std::string part :
       {"the number of layers must be at least 1, is 0", "the hidden size", "key-value heads", "size of a head",
        "the feed-forward size", "the vocabulary", "the sequence length",
        "a token must choose 1 to 2 experts, it chooses 3", "\ntp must be at least 1, is 0", "\npp must", "\ndp must",
        "\ncp must", "\nep must be at least 1, is -1", "\netp must", "\nvpp must",
        "the ZeRO stage must be 0 to 3, is 4", "the global batch must be at least 1, is 0", "the micro-batch must"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n in\n" << all;
  }
  model.heads = -1;
  EXPECT_NE(problems(model, config).find("attention heads must be at least 1, is -1"), std::string::npos);
}

TEST(CheckWorkload, ConvolutionsHaveNoHeadsToDivide) {
  const ModelShape model{.name = "conv", .layers = 16, .flops_per_sample = 1};
  EXPECT_EQ(problems(model, {.dp = 2}, {.global_batch = 4, .micro_batch = 2}), "");
  EXPECT_EQ(problems(model, {.dp = 2}, {.global_batch = 5, .micro_batch = 2}),
            "a global batch of 5 is no multiple of dp · micro-batch = 4");
}

}  // namespace
}  // namespace scalai::step
