// What the memory model says is kept, beside what the collections that are planned with hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/cost/step/memory.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace {

using collection::ParallelConfig;

// One rule of who shares what with ZeRO: what this model says is what the planner moves.
TEST(MemoryOfCollections, OptimizerStateIsThatOfThePlanner) {
  const auto is_optimizers = [](model::StateKind kind) {
    return kind == model::StateKind::kMaster || kind == model::StateKind::kExpAvg ||
           kind == model::StateKind::kExpAvgSq || kind == model::StateKind::kMomentum;
  };
  using model::Optimizer;
  for (const auto& [name, config, optimizer] : std::vector<std::tuple<std::string, ParallelConfig, Optimizer>>{
           {"gpt3-350m", {.tp = 2, .dp = 4}, Optimizer::kAdam},
           {"gpt3-350m", {.tp = 2, .dp = 4, .zero = 1}, Optimizer::kAdamBf16},
           {"gpt3-350m", {.tp = 2, .cp = 4, .zero = 1}, Optimizer::kAdam8bit},
           {"gpt3-350m", {.pp = 2, .dp = 2, .cp = 2, .zero = 1}, Optimizer::kAdam},
           {"gpt3-350m", {.pp = 2, .dp = 2, .cp = 2, .zero = 1}, Optimizer::kMuon},
           {"gpt3-350m", {.pp = 2, .dp = 2, .cp = 2, .zero = 3}, Optimizer::kSgdMomentum},
           {"mixtral-8x7b", {.tp = 2, .dp = 2, .cp = 2, .ep = 4, .zero = 1}, Optimizer::kAdam},
           {"mixtral-8x7b", {.tp = 2, .dp = 2, .cp = 2, .ep = 4, .zero = 1}, Optimizer::kMuon}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", name, collection::canonical(config), model::name_of(optimizer)));
    const auto model = model::find_model(name);
    ASSERT_TRUE(model.ok()) << message_of(model.status());
    std::vector<DeviceId> devices;
    for (int i = 0; i < config.world(); ++i) devices.push_back(DeviceId(i));
    const auto side = collection::megatron_collection(*model, {.param = tensor::DType::kBF16, .optimizer = optimizer},
                                                      config, devices);
    ASSERT_TRUE(side.ok()) << message_of(side.status());
    std::vector<double> of_stage(static_cast<size_t>(config.pp));
    for (int64_t rank = 0; rank < side->ranks(); ++rank) {
      const auto stage = static_cast<size_t>(side->meshes.front().coordinate(LogicalRank(rank), "pp"));
      for (size_t i = 0; i < side->tensors.size(); ++i) {
        if (!is_optimizers(side->tensors[i].kind)) continue;
        for (const tensor::Piece& piece : side->pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
          of_stage[stage] += static_cast<double>(piece.box.volume() * tensor::size_of(side->tensors[i].dtype));
      }
    }
    const ModelShape shape = shape_of(*model);
    const Training training = {
        .global_batch = 8, .micro_batch = 2, .sequence = 1024, .precision = find_precision("bf16", optimizer).value()};
    const Workload workload = {shape, config, training};
    for (int stage = 0; stage < config.pp; ++stage) {
      const double a_rank = of_stage[static_cast<size_t>(stage)] * config.pp / config.world();
      EXPECT_NEAR(memory_of(workload).stages.at(static_cast<size_t>(stage)).bytes(memory_term::kOptimizer) / a_rank, 1,
                  0.003)
          << "stage " << stage;
    }
  }
}

}  // namespace
}  // namespace scalai::step
