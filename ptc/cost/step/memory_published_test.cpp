// The memory model against published figures: Korthikanti et al. 2022, "Reducing Activation Recomputation in Large
// Transformer Models", figures 1 and 7.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ptc/cost/step/memory.h"

namespace scalai::step {
namespace {

using collection::ParallelConfig;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

double term(const Workload& workload, int stage, std::string_view name) {
  return memory_of(workload).stages.at(static_cast<size_t>(stage)).bytes(name);
}

// Table 3.
struct PublishedModel {
  std::string name;
  int heads;
  int64_t hidden;
  int layers;
  ParallelConfig config;
  int micro_batch;
};
const std::vector<PublishedModel>& published() {
  static const std::vector<PublishedModel> table = {
      {"22B", 64, 6144, 48, {.tp = 8}, 4},
      {"175B", 96, 12288, 96, {.tp = 8, .pp = 8, .vpp = 3}, 1},
      {"530B", 128, 20480, 105, {.tp = 8, .pp = 35, .vpp = 3}, 1},
      {"1T", 160, 25600, 128, {.tp = 8, .pp = 64}, 1},
  };
  return table;
}

ModelShape published_shape(const PublishedModel& row) {
  return transformer_shape({.name = row.name,
                            .layers = row.layers,
                            .hidden = row.hidden,
                            .heads = row.heads,
                            .biases = true,
                            .dropout = true,
                            .positions = true,
                            .vocab = 51200,
                            .sequence = 2048,
                            .tied = true});
}

Training training_of(const PublishedModel& row, bool sequence_parallel, Recompute recompute) {
  return {.global_batch = row.micro_batch * row.config.pp * 4,
          .micro_batch = row.micro_batch,
          .sequence = 2048,
          .precision = find_precision("bf16").value(),
          .recompute = recompute,
          .sequence_parallel = sequence_parallel,
          .flash_attention = false};
}

TEST(PublishedMemory, Figure1Within2Percent) {
  const double state[] = {45.56, 45.56, 31.64, 32.96};
  const double none[] = {59.25, 66.84, 114.02, 131.25};
  const double selective[] = {9.56, 12.35, 23.08, 26.56};
  for (size_t i = 0; i < published().size(); ++i) {
    const PublishedModel& row = published()[i];
    SCOPED_TRACE(row.name);
    const ModelShape shape = published_shape(row);
    const Training plain = training_of(row, false, Recompute::kNone);
    const MemoryEstimate estimate = memory_of({shape, row.config, plain});
    // The figure shows what a stage has of the layers; activations are those of the first stage.
    const StageMemory& middle = estimate.stages.at(estimate.stages.size() / 2);
    const double bytes = middle.bytes(memory_term::kParameters) + middle.bytes(memory_term::kGradients) +
                         middle.bytes(memory_term::kOptimizer);
    EXPECT_NEAR(bytes / kGiB, state[i], 0.02 * state[i]);
    EXPECT_NEAR(estimate.stages.front().bytes(memory_term::kActivations) / kGiB, none[i], 0.02 * none[i]);
    const Training both = training_of(row, true, Recompute::kSelective);
    EXPECT_NEAR(term({shape, row.config, both}, 0, memory_term::kActivations) / kGiB, selective[i],
                0.02 * selective[i]);
  }
}

TEST(PublishedMemory, Figure7Within2Points) {
  struct Percent {
    double sequence_parallel, selective, both, full;
  };
  const Percent figure[] = {{66.84, 49.42, 16.18, 7.64},
                            {62.04, 56.53, 18.49, 8.71},
                            {58.31, 62.04, 20.27, 9.42},
                            {58.31, 62.04, 20.27, 9.42}};
  for (size_t i = 0; i < published().size(); ++i) {
    const PublishedModel& row = published()[i];
    SCOPED_TRACE(row.name);
    const ModelShape shape = published_shape(row);
    const auto layer = [&](bool sequence_parallel, Recompute recompute) {
      const Training training = training_of(row, sequence_parallel, recompute);
      return layer_activation_bytes({shape, row.config, training});
    };
    const double whole = layer(false, Recompute::kNone);
    EXPECT_NEAR(100 * layer(true, Recompute::kNone) / whole, figure[i].sequence_parallel, 2);
    EXPECT_NEAR(100 * layer(false, Recompute::kSelective) / whole, figure[i].selective, 2);
    EXPECT_NEAR(100 * layer(true, Recompute::kSelective) / whole, figure[i].both, 2);
    EXPECT_NEAR(100 * layer(false, Recompute::kFull) / whole, figure[i].full, 2);
  }
}

}  // namespace
}  // namespace scalai::step
