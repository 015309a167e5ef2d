#include "labs/bounds/offload/internal/step_graph.h"

#include <gtest/gtest.h>

#include "ptc/cost/step/memory.h"

namespace scalai::step::offload {
namespace step_graph_test {

using bounds::Role;
using collection::ParallelConfig;
using internal::step_graph;
using internal::StepGraph;

ModelShape small_model(bool tied) {
  return transformer_shape({.name = "small",
                            .layers = 4,
                            .hidden = 64,
                            .heads = 4,
                            .kv_heads = 2,
                            .ffn = 160,
                            .gated = true,
                            .vocab = 300,
                            .sequence = 32,
                            .tied = tied});
}
Training small_training() {
  return {.global_batch = 8, .micro_batch = 2, .sequence = 32, .precision = find_precision("bf16").value()};
}

// State and activations are those of the memory model.
TEST(StepGraph, HasTheBytesOfTheMemoryModel) {
  for (const bool tied : {false, true}) {
    const ModelShape model = small_model(tied);
    for (const ParallelConfig& config : {ParallelConfig{},
                                         {.pp = 2, .zero = 1},
                                         {.tp = 2, .pp = 2, .dp = 2, .zero = 1},
                                         {.pp = 4},
                                         {.dp = 4, .zero = 3},
                                         {.pp = 2, .vpp = 2}}) {
      for (const Recompute& recompute : {Recompute::kNone, Recompute::kFull}) {
        Training training = small_training();
        training.recompute = recompute;
        const Workload workload = {model, config, training};
        const MemoryEstimate memory = memory_of(workload);
        for (int stage = 0; stage < config.pp; ++stage) {
          SCOPED_TRACE(::testing::Message() << "pp " << config.pp << " stage " << stage << " tied " << tied);
          const StepGraph step = step_graph(workload, stage, 1);
          const StageMemory& here = memory.stages[static_cast<size_t>(stage)];
          EXPECT_NEAR(static_cast<double>(step.state_bytes),
                      here.bytes(memory_term::kParameters) + here.bytes(memory_term::kOptimizer), 20);
          EXPECT_NEAR(static_cast<double>(step.activation_bytes), 4.0 / config.pp * layer_activation_bytes(workload),
                      20);
          // Gradients of the layers and the head, once each; the embedding's are not in the graph.
          double gradients = 0;
          for (int32_t value = 0; value < step.graph.values(); ++value) {
            bool updates = false;
            for (const int32_t user : step.graph.users(value)) updates |= step.graph.role(user) == Role::kResult;
            if (updates && step.graph.role(value) == Role::kComputed && step.graph.users(value).size() == 2u)
              gradients += static_cast<double>(step.graph.size(value));
          }
          EXPECT_LE(gradients, here.bytes(memory_term::kGradients) + 64 * 32 * 2 * 2);
          EXPECT_GT(gradients, 0.3 * here.bytes(memory_term::kGradients));
        }
      }
    }
  }
}

TEST(StepGraph, OrderHasEachOperationOnceOperandsFirst) {
  const ModelShape model = small_model(false);
  for (const Schedule schedule : {Schedule::kOneFOneB, Schedule::kGPipe}) {
    for (const ParallelConfig& config : {ParallelConfig{}, {.pp = 2}, {.pp = 2, .vpp = 2}}) {
      if (schedule == Schedule::kGPipe && config.vpp > 1) continue;
      Training training = small_training();
      training.schedule = schedule;
      const StepGraph step = step_graph({model, config, training}, config.pp - 1, 4);
      std::vector<bool> done(static_cast<size_t>(step.graph.values()), false);
      for (const int32_t value : step.order) {
        EXPECT_FALSE(done[static_cast<size_t>(value)]);
        for (const int32_t operand : step.graph.operands(value))
          EXPECT_TRUE(done[static_cast<size_t>(operand)] || step.graph.role(operand) == Role::kInput);
        done[static_cast<size_t>(value)] = true;
      }
      EXPECT_EQ(std::ssize(step.order), step.graph.operations());
    }
  }
}

}  // namespace step_graph_test
}  // namespace scalai::step::offload
