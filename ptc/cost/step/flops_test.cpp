#include <gtest/gtest.h>

#include "ptc/cost/step/step_time.h"
#include "ptc/cost/step/testing/step.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace flops_test {

// 72·B·s·l·h²·(1 + s/(c·h) + V/(12·l·h))
double closed_form(double batch, double s, double l, double h, double v, double c) {
  return 72 * batch * s * l * h * h * (1 + s / (c * h) + v / (12 * l * h));
}

TEST(Flops, OfGptAreTheClosedForms) {
  const ModelShape model = test_gpt(12288, 96, 96);
  const collection::ParallelConfig config;
  Training training = test_training(1, 1536);
  EXPECT_NEAR(model_flops(model, 1536, 2048) / closed_form(1536, 2048, 96, 12288, 51200, 6), 1, 1e-12);
  training.recompute = Recompute::kSelective;
  EXPECT_NEAR(hardware_flops({model, config, training}) / closed_form(1536, 2048, 96, 12288, 51200, 3), 1, 1e-12);
  // 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)).
  training.recompute = Recompute::kFull;
  const double full =
      96.0 * 1536 * 2048 * 96 * 12288 * 12288 * (1 + 2048.0 / (6 * 12288) + 51200.0 / (16.0 * 96 * 12288));
  EXPECT_NEAR(hardware_flops({model, config, training}) / full, 1, 1e-12);
  training.recompute = Recompute::kNone;
  EXPECT_EQ(hardware_flops({model, config, training}), model_flops(model, 1536, 2048));
}

// Of a layer of 12 h² elements: 8 in the feed-forward block; keys, projection and the second matrix are 6.
TEST(Flops, OfPartsThatAreComputedAgain) {
  const ModelShape model = test_gpt(1024, 16, 8);
  Training training = test_training(1, 64);
  const double tokens = 64 * 2048, h2 = 1024.0 * 1024, core = 4.0 * 1024 * 2048;
  const auto again = [&](const char* name, const collection::ParallelConfig& config = {}) {
    training.recompute = find_recompute(name).value();
    return (hardware_flops({model, config, training}) - model_flops(model, 64, 2048)) / tokens;
  };
  const double most = 8 * (24 * h2 + core);
  EXPECT_NEAR(again("full"), most, 1e-9 * most);
  EXPECT_NEAR(again("mlp"), 8 * 16 * h2, 1e-9 * most);
  EXPECT_NEAR(again("layernorm"), 0, 1e-9 * most);
  EXPECT_NEAR(again("op"), 8 * 12 * h2, 1e-9 * most);
  EXPECT_NEAR(again("full-first-3"), most * 3 / 8, 1e-9 * most);
  EXPECT_NEAR(again("full-first-3", {.pp = 2}), most * 6 / 8, 1e-9 * most);
  EXPECT_NEAR(again("full-every-3"), most * 2 / 8, 1e-9 * most);
}

// Without embeddings six times the parameters a token, to which biases and norms add next to nothing.
TEST(Flops, OfModelsOfTheCatalogueAreSixTimesTheActiveParameters) {
  for (const std::string name : {"llama3-8b", "llama3-70b", "mixtral-8x7b", "gpt3-175b"}) {
    const ModelShape model = shape_of(model::find_model(name).value());
    const double embeddings = static_cast<double>(model.embedding_params + model.first_params);
    const double head = static_cast<double>(model.hidden * model.vocab);
    const double active = static_cast<double>(model.active_parameters()) - embeddings + (model.tied ? head : 0);
    const double attention = 12.0 * model.layers * static_cast<double>(model.hidden) * 2048;
    EXPECT_NEAR(model_flops(model, 1, 2048) / ((6 * active + attention) * 2048), 1, 1e-3) << name;
  }
}

TEST(Flops, ConvolutionsAreCountedBySample) {
  const ModelShape model = shape_of(model::find_model("resnet-50").value());
  EXPECT_DOUBLE_EQ(model_flops(model, 256, 0), 256 * model.flops_per_sample);
}

// LoRA: the products of 12 · h² weights have no gradients of these, 2 operations a weight and token.
TEST(Flops, FrozenWeightsHaveNoGradients) {
  const ModelShape model = test_gpt(4096, 32, 8);
  Training training = test_training(1, 16);
  const double all = hardware_flops({model, {}, training});
  training.lora = 16;
  EXPECT_NEAR((all - hardware_flops({model, {}, training})) / (2.0 * 12 * 4096 * 4096 * 8 * 16 * 2048), 1, 1e-9);
}

}  // namespace flops_test
}  // namespace scalai::step
