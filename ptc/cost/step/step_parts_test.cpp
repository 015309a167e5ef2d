#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ptc/cost/step/collectives.h"
#include "ptc/cost/step/layer_work.h"
#include "ptc/cost/step/step_time.h"
#include "ptc/cost/step/testing/step.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace {

StepParts parts_of(const ModelShape& model, const collection::ParallelConfig& config, const Training& training) {
  return step_parts({model, config, training}, uniform_hardware(test_host(), config));
}

double seconds_over_dp(Collective kind, const collection::ParallelConfig& config, double bytes) {
  const Hardware hardware = uniform_hardware(test_host(), config);
  return collective(links_of(hardware), kind, hardware.dp, bytes).seconds;
}

TEST(StepParts, ChunksHaveTheirLayersAndTheEndsOfTheModel) {
  const ModelShape model = test_gpt(4096, 32, 12);
  const Training training = test_training(1, 16);
  collection::ParallelConfig config;
  config.pp = 2;
  config.vpp = 2;
  config.stages = {2, 3, 4, 3};  // chunk 0 of both stages, then chunk 1
  const Hardware hardware = uniform_hardware(test_host(), config);
  const Workload workload{model, config, training};
  const StepParts parts = step_parts(workload, hardware);
  ASSERT_EQ(parts.stages.size(), 2u);
  EXPECT_EQ(parts.micro_batches, 16);
  const LayerWork layer = layer_work(workload, hardware, hardware.stage(0));
  const LayerWork first = first_work(workload, hardware, hardware.stage(0));
  const LayerWork last = last_work(workload, hardware, hardware.stage(0));
  const double f = layer.forward.seconds(), b = layer.backward.seconds();
  EXPECT_NEAR(parts.stages[0].forward[0].seconds(), 2 * f + first.forward.seconds(), 1e-12);
  EXPECT_NEAR(parts.stages[0].forward[1].seconds(), 4 * f, 1e-12);
  EXPECT_NEAR(parts.stages[1].forward[0].seconds(), 3 * f, 1e-12);
  EXPECT_NEAR(parts.stages[1].forward[1].seconds(), 3 * f + last.forward.seconds(), 1e-12);
  EXPECT_NEAR(parts.stages[0].backward[0].seconds(), 2 * b + first.backward.seconds(), 1e-12);
  EXPECT_NEAR(parts.stages[1].backward[1].seconds(), 3 * b + last.backward.seconds(), 1e-12);
}

// Five iterations of 4·m²·n + 2·m³ for each matrix of m by n, in 16 bits; one moment less is read and written. GPT's 12
// · h² elements of a layer count with m = h, n = 4h: 5 · (4 + 2/4) · h operations each, here on 8 ranks.
TEST(StepParts, MuonMakesMatricesOrthogonal) {
  const ModelShape model = test_gpt(4096, 32, 12);
  Training training = test_training(1, 16);
  const collection::ParallelConfig config = {.dp = 8, .zero = 1};
  const double adam = parts_of(model, config, training).stages[0].optimizer_s;
  training.precision = find_precision("bf16", model::Optimizer::kMuon).value();
  const double muon = parts_of(model, config, training).stages[0].optimizer_s;
  const double rate = rates_of({.gpu = test_host().gpu}, Math::kBF16).product_flops;
  const double elements = 12.0 * 12 * 4096 * 4096;
  EXPECT_NEAR((muon - adam) / (elements * 5 * 4.5 * 4096 / 8 / rate), 1, 0.03);  // the slowest of 8
}

TEST(StepParts, MiddleStagesAreAlikeAndNoOtherHasTheEnds) {
  const ModelShape model = test_gpt(4096, 32, 17);
  collection::ParallelConfig config;
  config.pp = 6;  // 3, 3, 3, 3, 3, 2 layers
  const StepParts parts = parts_of(model, config, test_training(1, 16));
  const auto forward = [&](size_t s) { return parts.stages[s].forward[0].seconds(); };
  for (const size_t s : {2, 3, 4}) {
    EXPECT_EQ(forward(s), forward(1));
    EXPECT_EQ(parts.stages[s].optimizer_s, parts.stages[1].optimizer_s);
  }
  EXPECT_GT(forward(0), forward(1));
  config.stages = {3, 3, 2, 3, 3, 3};
  const StepParts uneven = parts_of(model, config, test_training(1, 16));
  EXPECT_NEAR(uneven.stages[2].forward[0].seconds(), 2 / 3.0 * forward(1), 1e-12);
  EXPECT_NEAR(uneven.stages[3].forward[0].seconds(), forward(1), 1e-12);
}

TEST(StepParts, GradientsAreSummedInFullOrScatteredByZeroStage) {
  const ModelShape model = test_gpt(4096, 32, 16);
  const Training training = test_training(1, 64);
  collection::ParallelConfig config;
  config.dp = 16;
  const double params = static_cast<double>(model.parameters());
  const StepParts whole = parts_of(model, config, training);
  EXPECT_NEAR(whole.stages[0].gradients.seconds, seconds_over_dp(Collective::kAllReduce, config, 4 * params), 1e-9);
  EXPECT_EQ(whole.stages[0].parameters.seconds, 0);

  config.zero = 1;
  const StepParts one = parts_of(model, config, training);
  EXPECT_NEAR(one.stages[0].gradients.seconds, seconds_over_dp(Collective::kReduceScatter, config, 4 * params), 1e-9);
  EXPECT_NEAR(one.stages[0].parameters.seconds, seconds_over_dp(Collective::kAllGather, config, 2 * params), 1e-9);
  EXPECT_LT(one.stages[0].optimizer_s, 0.2 * whole.stages[0].optimizer_s);
  EXPECT_EQ(one.stages[0].backward[0].dp.seconds, 0);

  config.zero = 2;  // after each micro-batch
  const StepParts two = parts_of(model, config, training);
  EXPECT_EQ(two.stages[0].gradients.seconds, 0);
  EXPECT_GT(two.stages[0].parameters.seconds, 0);
  EXPECT_EQ(two.stages[0].forward[0].dp.seconds, 0);
  EXPECT_GT(two.stages[0].backward[0].dp.seconds, 0);

  config.zero = 3;
  const StepParts three = parts_of(model, config, training);
  EXPECT_EQ(three.stages[0].parameters.seconds, 0);
  EXPECT_GT(three.stages[0].forward[0].dp.seconds, 0);
  EXPECT_GT(three.stages[0].backward[0].dp.seconds, two.stages[0].backward[0].dp.seconds);
}

TEST(StepParts, PipelinesScatterGradientsOnceAStep) {
  const ModelShape model = test_gpt(4096, 32, 16);
  collection::ParallelConfig config;
  config.dp = 8;
  config.pp = 2;
  config.zero = 2;
  const StepParts parts = parts_of(model, config, test_training(1, 64));
  EXPECT_EQ(parts.stages[1].backward[0].dp.seconds, 0);
  EXPECT_GT(parts.stages[1].gradients.seconds, 0);
  // As with ZeRO-1: each rank clears and scales whole gradients.
  collection::ParallelConfig one = config;
  one.zero = 1;
  const StepParts same = parts_of(model, one, test_training(1, 64));
  EXPECT_EQ(parts.stages[1].gradients.seconds, same.stages[1].gradients.seconds);
  EXPECT_EQ(parts.stages[1].optimizer_s, same.stages[1].optimizer_s);
}

// What is gathered and scattered are all parameters of the stages, not the layers' alone.
TEST(StepParts, BothEndsAreGatheredAndScatteredToo) {
  Training training = test_training(1, 64);
  training.data_overlap = DataOverlap::kNone;  // nothing hides anything
  cluster::Host host = test_host();
  host.gpu_link_bytes_per_s = host.nic_bytes_per_s = 1e6;  // no latency counts
  for (const bool tied : {false, true}) {
    for (const int pp : {1, 2}) {
      ModelShape sizes = test_gpt(4096, 32, 8);
      sizes.tied = tied;
      const ModelShape model = transformer_shape(sizes);
      collection::ParallelConfig config;
      config.pp = pp;
      config.dp = 8;
      config.order = {"dp", "tp", "cp", "pp"};
      const Hardware hardware = uniform_hardware(host, config);
      const double rate = 1e6 * links_of(hardware).link_efficiency;
      const double copy = tied && pp > 1 ? static_cast<double>(model.embedding_params) : 0;
      const double one_byte_each = 7 / 8.0 * (static_cast<double>(model.parameters()) + copy) / rate;
      for (const int zero : {2, 3}) {
        SCOPED_TRACE(fmt::format("tied {} pp{} zero{}", tied, pp, zero));
        config.zero = zero;
        double forward = 0, backward = 0;
        for (const StageWork& stage : step_parts({model, config, training}, hardware).stages) {
          forward += stage.forward[0].dp.seconds;
          backward += stage.backward[0].dp.seconds;
        }
        const double gathered = zero == 3 ? 2 * one_byte_each : 0;
        const double scattered = zero == 3 || pp == 1 ? 4 * one_byte_each : 0;
        EXPECT_NEAR(forward, gathered, 0.001 * gathered);
        EXPECT_NEAR(backward, gathered + scattered, 0.001 * (gathered + scattered));
      }
    }
  }
}

TEST(StepParts, AnImageModelsGradientsAreScatteredToo) {
  const ModelShape model = shape_of(model::find_model("resnet-50").value());
  collection::ParallelConfig config;
  config.dp = 8;
  config.zero = 2;
  EXPECT_GT(parts_of(model, config, test_training(32, 256)).stages[0].backward[0].dp.seconds, 0);
}

// Stages of four ranks on hosts of eight: every other hop leaves its host, through NICs that four ranks share.
TEST(StepParts, EachHopHasItsOwnMessages) {
  const ModelShape model = test_gpt(8192, 64, 16);
  collection::ParallelConfig config;
  config.tp = 4;
  config.pp = 4;
  cluster::Host host = test_host();
  host.nics = 1;
  const StepParts parts = step_parts({model, config, test_training(4)}, uniform_hardware(host, config));
  const double network = efficiency_of(host.gpu, Math::kBF16).network;
  for (const size_t s : {1, 3}) {
    EXPECT_EQ(parts.stages[s].send.link, Communication::Link::kNetwork);
    EXPECT_NEAR(parts.stages[s].send.seconds, 134217728 / 4.0 / (25e9 / 4 * network), 1e-4);
  }
  for (const size_t s : {0, 2}) {
    EXPECT_EQ(parts.stages[s].send.link, Communication::Link::kGpuLink);
    EXPECT_LT(parts.stages[s].send.seconds, 0.05 * parts.stages[1].send.seconds);
  }
}

TEST(StepParts, SomeLayersOfAChunkAreComputedAgain) {
  const ModelShape model = test_gpt(4096, 32, 16);
  const collection::ParallelConfig config = {.pp = 2};
  const auto backward_s = [&](const char* recompute) {
    Training training = test_training(1, 64);
    training.recompute = find_recompute(recompute).value();
    return parts_of(model, config, training).stages[0].backward[0].seconds();
  };
  const double none = backward_s("none"), full = backward_s("full");  // of 8 layers
  EXPECT_NEAR(backward_s("full-first-2"), none + (full - none) / 4, 1e-9);
  EXPECT_NEAR(backward_s("full-every-2"), none + (full - none) / 2, 1e-9);
  EXPECT_NEAR(backward_s("full-first-9"), full, 1e-12);
}

// 16 layers of 12 tensors, and those of both ends: of 64 ranks each has some, of 1,024 ranks 194.
TEST(StepParts, OwnersOfWholeTensorsBroadcastThemAndAllHaveTheSums) {
  const ModelShape model = test_gpt(4096, 32, 16);
  const double params = static_cast<double>(model.parameters());
  Training training = test_training(1, 1024);
  for (const auto& [ranks, owners] : {std::pair{64, 64}, std::pair{1024, 194}}) {
    const collection::ParallelConfig config = {.dp = ranks, .zero = 1};
    training.framework = Framework::kMegatron;
    const StepParts shares = parts_of(model, config, training);
    training.framework = Framework::kInternEvo;
    const StageWork work = parts_of(model, config, training).stages[0];
    EXPECT_NEAR(work.parameters.seconds, owners * seconds_over_dp(Collective::kBroadcast, config, 2 * params / owners),
                1e-9 * owners);
    EXPECT_GT(work.parameters.seconds, shares.stages[0].parameters.seconds);
    EXPECT_NEAR(work.gradients.seconds, seconds_over_dp(Collective::kAllReduce, config, 4 * params), 1e-9);
  }
}

TEST(StepParts, ParametersOnDemandAreGatheredTensorByTensorAndAgainToRecompute) {
  const ModelShape model = test_gpt(4096, 32, 16);
  Training training = test_training(1, 64);
  training.data_overlap = DataOverlap::kNone;
  collection::ParallelConfig config;
  config.dp = 64;
  config.zero = 3;
  const StepParts none = parts_of(model, config, training);
  // Twelve tensors a layer and the tied embedding, each a ring of 64 ranks on 8 hosts in the Simple protocol.
  cluster::Host unlimited = test_host();
  unlimited.nic_bytes_per_s = unlimited.gpu_link_bytes_per_s = 0;
  const StepParts latency = step_parts({model, config, training}, uniform_hardware(unlimited, config));
  const double ring = 6e-6 + 8.4e-6 + 56 * 3.4e-6 + 7 * 14e-6;
  EXPECT_NEAR(latency.stages[0].forward[0].dp.seconds, (16 * 12 + 1) * ring, 1e-9);
  EXPECT_GT(none.stages[0].forward[0].dp.seconds, latency.stages[0].forward[0].dp.seconds);
  training.recompute = Recompute::kFull;
  const StepParts full = parts_of(model, config, training);
  // The layers are, the embedding is not.
  ModelShape twice = model;
  twice.layers *= 2;
  const double more = parts_of(twice, config, training).stages[0].forward[0].dp.seconds;
  const double layers = more - none.stages[0].forward[0].dp.seconds;
  EXPECT_NEAR(full.stages[0].backward[0].dp.seconds - none.stages[0].backward[0].dp.seconds, layers, 1e-9);
  training.data_overlap = DataOverlap::kAll;
  EXPECT_LT(parts_of(model, config, training).stages[0].forward[0].dp.seconds, 0.5 * layers);
}

TEST(StepParts, ExpertsAreSummedOverTheirOwnGroup) {
  ModelShape model = shape_of(model::find_model("mixtral-8x7b").value());
  collection::ParallelConfig config;
  config.dp = 16;
  config.ep = 4;
  const Hardware hardware = uniform_hardware(test_host(), config);
  const StepParts parts = step_parts({model, config, test_training(1, 64)}, hardware);
  const double dense = static_cast<double>(model.parameters() - int64_t{model.layers} * 8 * model.layer_expert_params);
  const double expert = static_cast<double>(model.layers * 2 * model.layer_expert_params);  // two of eight on a rank
  const Links links = links_of(hardware);
  EXPECT_EQ(hardware.edp.ranks, 4);
  EXPECT_NEAR(parts.stages[0].gradients.seconds,
              collective(links, Collective::kAllReduce, hardware.dp, 4 * dense).seconds +
                  collective(links, Collective::kAllReduce, hardware.edp, 4 * expert).seconds,
              1e-9);
}

TEST(StepParts, TiedEmbeddingsAddUpAtBothEndsOfAPipeline) {
  ModelShape model = test_gpt(4096, 32, 16);
  collection::ParallelConfig config;
  EXPECT_EQ(parts_of(model, config, test_training(1)).stages[0].embedding.seconds, 0);
  config.pp = 4;
  const StepParts parts = parts_of(model, config, test_training(1));
  EXPECT_GT(parts.stages[0].embedding.seconds, 0);
  EXPECT_EQ(parts.stages[1].embedding.seconds, 0);
  EXPECT_EQ(parts.stages[3].embedding.seconds, parts.stages[0].embedding.seconds);
  model.tied = false;
  const StepParts untied = parts_of(transformer_shape(model), config, test_training(1));
  EXPECT_EQ(untied.stages[0].embedding.seconds, 0);
  // The copy on the last stage is updated as a head of its own would be.
  EXPECT_EQ(untied.stages[3].optimizer_s, parts.stages[3].optimizer_s);
}

TEST(StepParts, MessagesAreCutByTensorParallelism) {
  const ModelShape model = test_gpt(8192, 64, 16);
  const Training training = test_training(4);
  collection::ParallelConfig config;
  EXPECT_EQ(parts_of(model, config, training).stages[0].send.seconds, 0);
  config.pp = 2;
  config.dp = 8;
  const StepParts whole = parts_of(model, config, training);
  EXPECT_EQ(whole.stages[0].send.link, Communication::Link::kNetwork);
  // 4 · 2048 · 8192 elements of 2 bytes.
  EXPECT_NEAR(whole.stages[0].send.seconds, 134217728 / (25e9 * efficiency_of(test_host().gpu, Math::kBF16).network),
              1e-4);
  config.dp = 1;
  config.tp = 8;
  EXPECT_NEAR(parts_of(model, config, training).stages[0].send.seconds, whole.stages[0].send.seconds / 8, 1e-4);
  Training unscattered = training;
  unscattered.sequence_parallel = false;  // gathered behind the boundary
  EXPECT_GT(parts_of(model, config, unscattered).stages[0].send.seconds,
            parts_of(model, config, training).stages[0].send.seconds);
}

TEST(StepParts, OverlapIsForThoseWhoAskForIt) {
  const ModelShape model = test_gpt(4096, 32, 16);
  Training training = test_training(1);
  collection::ParallelConfig config;
  config.pp = 2;
  config.vpp = 2;
  EXPECT_FALSE(parts_of(model, config, training).sends_hidden);
  training.overlap = Overlap::kAll;
  EXPECT_TRUE(parts_of(model, config, training).sends_hidden);
  config.vpp = 1;
  EXPECT_FALSE(parts_of(model, config, training).sends_hidden);
}

// 4 · 2048 · 8192 elements of 2 bytes over 8 ranks that have a NIC each: 16.8 MB at 22.5 GB/s, there and back.
TEST(StepParts, OtherFrameworksExchangeAnActivationForAGradient) {
  const ModelShape model = test_gpt(8192, 64, 16);
  Training training = test_training(4);
  collection::ParallelConfig config;
  config.tp = 8;
  config.pp = 2;
  const Communication megatron = parts_of(model, config, training).stages[0].send;
  EXPECT_FALSE(parts_of(model, config, training).sends_block);
  training.framework = Framework::kScaling;
  const StepParts scaling = parts_of(model, config, training);
  EXPECT_TRUE(scaling.sends_block);
  EXPECT_NEAR(scaling.stages[0].send.seconds, 2 * megatron.seconds, 1e-12);
  EXPECT_NEAR(scaling.stages[0].send.bytes, megatron.bytes, 1);  // the rest is the other direction's
  training.sequence_parallel = false;                            // each rank sends all of it: 134 MB at 22.5 GB/s
  const double share = efficiency_of(test_host().gpu, Math::kBF16).network;
  EXPECT_NEAR(parts_of(model, config, training).stages[0].send.seconds, 2 * (134217728 / (25e9 * share) + 20e-6), 1e-9);
  // DeepSpeed: a part each, and three gathers of the whole in both directions together.
  training.precision = find_precision("zero-fp16").value();
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double gather = collective(links_of(hardware), Collective::kAllGather, hardware.tp, 134217728).seconds;
  EXPECT_NEAR(parts_of(model, config, training).stages[0].send.seconds,
              2 * (134217728 / 8 / (25e9 * share) + 20e-6) + 1.5 * gather, 1e-9);
  config.pp = 1;
  EXPECT_FALSE(parts_of(model, config, training).sends_block);
}

TEST(StepParts, WholeGradientsAreSummedWhereAFrameworkDoesSo) {
  const ModelShape model = test_gpt(4096, 32, 16);
  Training training = test_training(1, 64);
  training.precision.gradient_bytes = 2;
  training.framework = Framework::kScaling;
  collection::ParallelConfig config;
  config.dp = 16;
  config.zero = 1;
  const double params = static_cast<double>(model.parameters());
  const StepParts scaling = parts_of(model, config, training);
  EXPECT_NEAR(scaling.stages[0].gradients.seconds, seconds_over_dp(Collective::kAllReduce, config, 4 * params), 1e-9);
  training.framework = Framework::kDeepSpeed;
  const StepParts deepspeed = parts_of(model, config, training);
  EXPECT_NEAR(deepspeed.stages[0].gradients.seconds, seconds_over_dp(Collective::kAllReduce, config, 2 * params), 1e-9);
  // 24 bytes a gradient: flattened 4, divided 4, to 32 bits 6 and back 6, to its place 4.
  const double copies = 24 * params / rates_of({.gpu = test_host().gpu}, Math::kBF16).bytes_per_s;
  EXPECT_NEAR(scaling.stages[0].optimizer_s - deepspeed.stages[0].optimizer_s, copies, 1e-9);
}

// Nothing is left to hide the last bucket of gradients, nor the first one of parameters.
TEST(StepParts, SynchronisationIsHiddenButForABucket) {
  const ModelShape model = test_gpt(4096, 32, 16);
  Training training = test_training(1);
  training.bucket = 50'000'000;
  collection::ParallelConfig config;
  config.dp = 64;
  const double parameters = static_cast<double>(model.parameters());
  const StepParts parts = parts_of(model, config, training);
  EXPECT_NEAR(parts.gradients_hidden, 0.95 * (1 - 50e6 / parameters), 1e-12);
  EXPECT_EQ(parts.parameters_hidden, parts.gradients_hidden);
  // Megatron-Core's buckets grow with the ranks that share them, so that 1,024 ranks hide less than 64 do.
  training.bucket = 0;
  EXPECT_NEAR(parts_of(model, config, training).gradients_hidden, 0.95 * (1 - 64e6 / parameters), 1e-12);
  config.dp = 1024;
  EXPECT_NEAR(parts_of(model, config, training).gradients_hidden, 0.95 * (1 - 1024e6 / parameters), 1e-12);
  training.data_overlap = DataOverlap::kGradients;
  EXPECT_GT(parts_of(model, config, training).gradients_hidden, 0.5);
  EXPECT_EQ(parts_of(model, config, training).parameters_hidden, 0);
  training.data_overlap = DataOverlap::kNone;
  EXPECT_EQ(parts_of(model, config, training).gradients_hidden, 0);
  training.data_overlap = DataOverlap::kAll;
  training.bucket = int64_t{1} << 40;  // one bucket of all
  EXPECT_EQ(parts_of(model, config, training).gradients_hidden, 0);
}

// ZeRO-3 with its gathers on demand and its sums beside the backward pass.
TEST(StepParts, GathersOnDemandAreNotHiddenBySumsThatAre) {
  const ModelShape model = test_gpt(4096, 32, 16);
  Training training = test_training(1, 64);
  collection::ParallelConfig config;
  config.dp = 64;
  config.zero = 3;
  const StepParts all = parts_of(model, config, training);
  training.data_overlap = DataOverlap::kGradients;
  const StepParts sums = parts_of(model, config, training);
  const Hardware hardware = uniform_hardware(test_host(), config);
  const double whole =
      collective(links_of(hardware), Collective::kAllGather, hardware.dp, 2 * static_cast<double>(model.parameters()))
          .seconds;
  EXPECT_GE(sums.stages[0].forward[0].dp.seconds, whole);  // a collective a layer has its own latency
  EXPECT_LT(all.stages[0].forward[0].dp.seconds, 0.5 * sums.stages[0].forward[0].dp.seconds);
  EXPECT_GT(sums.stages[0].backward[0].dp.seconds, all.stages[0].backward[0].dp.seconds);
}

TEST(StepParts, SlowerGpusWorkLonger) {
  const ModelShape model = test_gpt(4096, 32, 16);
  const Training training = test_training(1);
  collection::ParallelConfig config;
  config.pp = 4;
  Hardware hardware = uniform_hardware(test_host(), config);
  hardware.stages.resize(4, hardware.stages.front());
  hardware.stages[2].speed = 0.5;
  const StepParts parts = step_parts({model, config, training}, hardware);
  EXPECT_NEAR(parts.stages[2].forward[0].matrix_s, 2 * parts.stages[1].forward[0].matrix_s, 1e-12);
  EXPECT_NEAR(parts.stages[2].optimizer_s, 2 * parts.stages[1].optimizer_s, 1e-12);
  EXPECT_LT(parts.stages[3].backward[0].memory_s, parts.stages[2].backward[0].memory_s * 2);
}

TEST(StepParts, ConvolutionsAreTheirFlopsOverAShareOfThePeak) {
  const ModelShape model = shape_of(model::find_model("resnet-50").value());
  Training training = test_training(32, 256);
  collection::ParallelConfig config;
  config.dp = 8;
  const StepParts parts = parts_of(model, config, training);
  const double forward = parts.stages[0].forward[0].seconds(), backward = parts.stages[0].backward[0].seconds();
  EXPECT_NEAR(backward, 2 * forward, 1e-12);
  const double rate = 32 * model.flops_per_sample / (forward + backward);
  EXPECT_GT(rate, 0.1 * 312e12);
  EXPECT_LT(rate, 0.4 * 312e12);
  EXPECT_GT(parts.stages[0].gradients.seconds, 0);
}

}  // namespace
}  // namespace scalai::step
