#include "ptc/parallel/step_time.h"

#include <gtest/gtest.h>

#include "ptc/model/catalogue.h"

namespace scalai::parallel {
namespace {

plan::GpuKind a100() { return *plan::find_gpu_kind("a100-80g"); }

collection::ParallelConfig layout(std::string_view text) { return collection::parse_layout(text).value(); }

double step_of(const model::Model& model, std::string_view text, int batch, int micro) {
  const collection::ParallelConfig config = layout(text);
  const plan::GpuKind gpu = a100();
  return AnalyticStepTime().step_s(
      {.model = model, .config = config, .gpu = gpu, .global_batch = batch, .micro_batch = micro, .sequence = 2048});
}

TEST(ModelFlops, MatchesNarayanansFormulaForGpt) {
  // 72 B s l h^2 (1 + s/(6h) + V/(12 l h)): no recompute. Biases and norms make ours a little larger.
  const model::Model model = model::find_model("gpt3-175b").value();
  const collection::ParallelConfig config = layout("tp1");
  const plan::GpuKind gpu = a100();
  const double ours = model_flops({.model = model, .config = config, .gpu = gpu, .global_batch = 1, .sequence = 2048});
  const double l = 96, h = 12288, s = 2048, v = 50257;
  const double published = 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  EXPECT_NEAR(ours / published, 1, 0.01);
}

TEST(AnalyticStepTime, BubbleIsPMinusOneOverM) {
  const model::Model model = model::find_model("gpt3-xl").value();
  const double flat = step_of(model, "dp4", 64, 1);       // no pipeline
  const double pipelined = step_of(model, "pp4", 64, 1);  // m = 64
  EXPECT_NEAR(pipelined / flat, 1 + 3.0 / 64, 1e-9);
  EXPECT_NEAR(step_of(model, "pp4,vpp2", 64, 1) / flat, 1 + 3.0 / 128, 1e-9);
}

TEST(AnalyticStepTime, UnevenStagesCostTheLargest) {
  const model::Model model = model::find_model("llama3-70b").value();
  const double even = step_of(model, "tp8,pp8", 64, 1);
  const double uneven = step_of(model, "tp8,pp8,stages=11:9:10:10:10:10:10:10", 64, 1);
  EXPECT_NEAR(uneven / even, 1.1, 1e-9);
}

TEST(AnalyticStepTime, HalvesWithTwiceTheGpus) {
  const model::Model model = model::find_model("gpt3-xl").value();
  EXPECT_NEAR(step_of(model, "dp4", 64, 1) / step_of(model, "dp8", 64, 1), 2, 1e-9);
}

}  // namespace
}  // namespace scalai::parallel
