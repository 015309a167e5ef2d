#include "ptc/cost/step/step_time.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ptc/cost/step/testing/bubble.h"
#include "ptc/cost/step/testing/step.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step {
namespace {

// A pipeline whose chunks take 1 s forward and 2 s back, without anything else.
struct Ideal {
  ModelShape model = test_gpt(4096, 32, 96);
  collection::ParallelConfig config;
  Training training = test_training(1, 1);
  StepParts parts;

  Ideal(int pp, int vpp, int m, Schedule schedule = Schedule::kOneFOneB) {
    config.pp = pp;
    config.vpp = vpp;
    training.global_batch = m;
    training.schedule = schedule;
    parts.micro_batches = m;
    parts.stages.resize(static_cast<size_t>(pp));
    for (StageWork& stage : parts.stages) {
      stage.forward.resize(static_cast<size_t>(vpp));
      stage.backward.resize(static_cast<size_t>(vpp));
      for (ChunkWork& chunk : stage.forward) chunk.matrix_s = 1;
      for (ChunkWork& chunk : stage.backward) chunk.matrix_s = 2;
    }
  }
  StepTime time() const { return step_time({model, config, training}, uniform_hardware(test_host(), config), parts); }
};

double sum(const StepTime& time) {
  return time.matrix_s + time.memory_s + time.launch_s + time.tp_s + time.cp_s + time.ep_s + time.pipeline_s +
         time.bubble_s + time.gradients_s + time.optimizer_s;
}

StepTime priced(const ModelShape& model, const collection::ParallelConfig& config, const Training& training,
                const cluster::Host& host = test_host()) {
  return step_time({model, config, training}, uniform_hardware(host, config));
}

TEST(StepTime, BubblesAreThoseOfTheSchedule) {
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::kOneFOneB, Schedule::kTwoBW}) {
    for (const int pp : {1, 2, 4, 8}) {
      for (const int m : {pp, 2 * pp, 5 * pp}) {
        for (const int vpp : {1, 2, 4}) {
          if (vpp > 1 && schedule != Schedule::kOneFOneB) continue;
          const StepTime time = Ideal(pp, vpp, m, schedule).time();
          const double work = 3.0 * vpp * m;
          const double bubble = bubble_fraction({schedule, pp, vpp, m});
          EXPECT_NEAR(time.matrix_s, work, 1e-9);
          EXPECT_NEAR(time.bubble_s, bubble * work, 1e-9) << pp << " " << vpp << " " << m;
          EXPECT_NEAR(time.step_s, (1 + bubble) * work, 1e-9);
        }
      }
    }
  }
}

TEST(StepTime, TheSlowestStageSetsThePaceAndTheOthersArePassedOnce) {
  Ideal ideal(4, 1, 8);
  ideal.parts.stages[2].forward[0].matrix_s = 3;
  EXPECT_NEAR(ideal.time().step_s, 8 * 5 + 3 * 3, 1e-9);
  EXPECT_NEAR(ideal.time().matrix_s, 8 * 5, 1e-9);
  ideal.training.schedule = Schedule::kGPipe;
  EXPECT_NEAR(ideal.time().step_s, 7 * (3 + 2) + 5 + 3 * 3, 1e-9);
  ideal.training.schedule = Schedule::kTwoBW;
  EXPECT_NEAR(ideal.time().step_s, 8 * 5, 1e-9);
}

TEST(StepTime, MessagesDelayTheWayThereAndBack) {
  Ideal ideal(4, 1, 8);
  for (StageWork& stage : ideal.parts.stages) stage.send.seconds = 0.1;
  // Six on the first micro-batch's way and the last one's; between, the second stage alternates five times and waits
  // for four messages each three micro-batches, twice.
  EXPECT_NEAR(ideal.time().step_s, 11 * 3 + (6 + 2 * 4) * 0.1, 1e-9);
  EXPECT_NEAR(ideal.time().pipeline_s, 1.4, 1e-9);
  ideal.training.schedule = Schedule::kGPipe;
  EXPECT_NEAR(ideal.time().step_s, 11 * 3 + 6 * 0.1, 1e-9);
  EXPECT_NEAR(ideal.time().pipeline_s, 6 * 0.1, 1e-9);
  EXPECT_NEAR(ideal.time().bubble_s, 3 * 3, 1e-9);
  // A longer last stage leaves them time, but for the first one's way there and the last one's back.
  ideal.training.schedule = Schedule::kOneFOneB;
  ideal.parts.stages[3].forward[0].matrix_s = 2;
  EXPECT_NEAR(ideal.time().step_s, 8 * 4 + 3 * 3 + 6 * 0.1, 1e-9);
}

// Each hop has messages of its own, so two stages that wait for each other slow all down. Steps by hand: of the nearest
// stages on both sides of the hop the first one has 4 − first micro-batches before it alternates with the second, then
// two messages each two micro-batches.
TEST(StepTime, OneSlowHopSlowsTheStagesBesideIt) {
  for (const size_t hop : {0u, 1u, 2u}) {
    Ideal ideal(4, 1, 16);
    ideal.parts.stages[hop].send.seconds = 0.1;
    const double waits = 2 * 0.1 + std::ceil((16 - (4.0 - static_cast<double>(hop))) / 2) * 0.2;
    EXPECT_NEAR(ideal.time().step_s, 19 * 3 + waits, 1e-9) << hop;
    EXPECT_NEAR(ideal.time().pipeline_s, waits, 1e-9) << hop;
    ideal.training.schedule = Schedule::kGPipe;
    EXPECT_NEAR(ideal.time().step_s, 19 * 3 + 2 * 0.1, 1e-9) << hop;
    ideal.training.schedule = Schedule::kTwoBW;
    EXPECT_NEAR(ideal.time().step_s, 16 * 3.1, 1e-9) << hop;
  }
  Ideal wrap(4, 1, 16);
  wrap.parts.stages[3].send.seconds = 0.1;  // nobody sends that way
  EXPECT_NEAR(wrap.time().step_s, 19 * 3, 1e-9);
  // Interleaved, it leads to the next chunk: once forward from the last stage, once back from the first.
  Ideal interleaved(4, 2, 16);
  interleaved.parts.stages[3].send.seconds = 0.1;
  EXPECT_NEAR(interleaved.time().step_s, 16 * 6.1 + (6.1 + 2 * 6) / 2, 1e-9);
}

TEST(StepTime, InterleavedPipelinesWaitForEachMessageOrHideIt) {
  Ideal ideal(4, 2, 8);
  for (StageWork& stage : ideal.parts.stages) stage.send.seconds = 0.1;
  // A stage in the middle sends four a micro-batch, the first and the last three.
  const double middle = 6.4, end = 6.3;
  EXPECT_NEAR(ideal.time().step_s, 8 * middle + (middle + 2 * end) / 2, 1e-9);
  EXPECT_NEAR(ideal.time().pipeline_s, 8 * 0.4, 1e-9);
  ideal.parts.sends_hidden = true;
  EXPECT_NEAR(ideal.time().step_s, 8 * 6 + 3 * 6 / 2.0 + 6 * 0.1, 1e-9);
}

// An exchange stops both stages: those in the middle have two a micro-batch each way, the ends one.
TEST(StepTime, ExchangesAreAddedToTheWorkOfBothStages) {
  Ideal ideal(4, 1, 8);
  ideal.parts.sends_block = true;
  for (StageWork& stage : ideal.parts.stages) stage.send.seconds = 0.1;
  EXPECT_NEAR(ideal.time().step_s, 8 * 3.2 + 3.2 + 2 * 3.1, 1e-9);
  EXPECT_NEAR(ideal.time().pipeline_s, 8 * 0.2, 1e-9);
  Ideal two(2, 1, 8);
  two.parts.sends_block = true;
  two.parts.stages[0].send.seconds = 0.1;
  EXPECT_NEAR(two.time().step_s, 9 * 3.1, 1e-9);
}

TEST(StepTime, GradientsHideBesideTheLastBackwardPass) {
  Ideal ideal(1, 1, 4);
  StageWork& stage = ideal.parts.stages[0];
  stage.gradients.seconds = 1.5;
  EXPECT_NEAR(ideal.time().gradients_s, 1.5, 1e-9);
  ideal.parts.gradients_hidden = ideal.parts.parameters_hidden = 0.9;
  EXPECT_NEAR(ideal.time().gradients_s, 0.15, 1e-9);
  stage.gradients.seconds = 10;  // 1 s that cannot be hidden, and 9 s beside 2 s
  EXPECT_NEAR(ideal.time().gradients_s, 1 + 7, 1e-9);
  stage.gradients.seconds = 0;
  stage.parameters.seconds = 10;  // 9 s beside a forward pass of 1 s
  EXPECT_NEAR(ideal.time().gradients_s, 1 + 8, 1e-9);
  stage.optimizer_s = 0.5;
  stage.embedding.seconds = 0.25;
  EXPECT_NEAR(ideal.time().step_s, 12 + 9 + 0.25 + 0.5, 1e-9);
  ideal.training.schedule = Schedule::kTwoBW;  // beside all the work
  EXPECT_NEAR(ideal.time().gradients_s, 1, 1e-9);
  stage.embedding.seconds = 14;  // 2 s longer than that
  EXPECT_NEAR(ideal.time().gradients_s, 1 + 2, 1e-9);
}

TEST(StepTime, LaterStagesAreDoneEarlierAndSynchroniseMeanwhile) {
  Ideal ideal(2, 1, 4);
  ideal.parts.stages[1].gradients.seconds = 1.5;  // stage 0 still has 2 s to go
  EXPECT_NEAR(ideal.time().gradients_s, 0, 1e-9);
  ideal.parts.stages[1].gradients.seconds = 2.5;
  EXPECT_NEAR(ideal.time().gradients_s, 0.5, 1e-9);
  ideal.parts.stages[0].gradients.seconds = 1.5;
  EXPECT_NEAR(ideal.time().gradients_s, 1.5, 1e-9);
}

TEST(StepTime, EachChunkSynchronisesItsShare) {
  Ideal ideal(2, 2, 4);
  ideal.parts.gradients_hidden = ideal.parts.parameters_hidden = 1;
  ideal.parts.stages[0].gradients.seconds = 4;  // 2 s beside the last slot of 2 s, 2 s before
  EXPECT_NEAR(ideal.time().gradients_s, 0, 1e-9);
  ideal.parts.stages[0].gradients.seconds = 6;
  EXPECT_NEAR(ideal.time().gradients_s, 1, 1e-9);
  ideal.parts.stages[0].gradients.seconds = 20;  // more than all three slots
  EXPECT_NEAR(ideal.time().gradients_s, 20 - 6, 1e-9);
}

TEST(StepTime, PartsOfRandomJobsAddUp) {
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](std::vector<int> from) { return from[random() % from.size()]; };
  for (int i = 0; i < 400; ++i) {
    collection::ParallelConfig config;
    config.tp = pick({1, 2, 4, 8});
    config.pp = pick({1, 2, 4, 8});
    config.vpp = config.pp > 1 ? pick({1, 2}) : 1;
    config.cp = pick({1, 2});
    config.dp = pick({1, 2, 8});
    config.zero = pick({0, 1, 2, 3});
    Training training = test_training(pick({1, 2}), 64);
    training.overlap = static_cast<Overlap>(pick({0, 1, 2}));
    training.recompute =
        find_recompute(std::vector<const char*>{"none", "selective", "full", "full-first-1", "op", "layernorm+mlp"}.at(
                           static_cast<size_t>(pick({0, 1, 2, 3, 4, 5}))))
            .value();
    training.flash_attention = pick({0, 1}) == 1;
    training.sequence_parallel = pick({0, 1}) == 1;
    if (config.vpp == 1) training.schedule = static_cast<Schedule>(pick({0, 1, 2}));
    cluster::Host host = test_host();
    host.gpus = pick({2, 3, 4, 8});
    host.nics = pick({1, host.gpus});
    host.nic_bytes_per_s = pick({1, 25}) * 1e9;
    const StepTime time = priced(test_gpt(4096, 32), config, training, host);
    SCOPED_TRACE(collection::canonical(config) + " " + std::string(name_of(training.schedule)));
    EXPECT_NEAR(time.step_s, sum(time), 1e-12 * time.step_s);
    for (const double term : {time.matrix_s, time.memory_s, time.launch_s, time.tp_s, time.cp_s, time.pipeline_s,
                              time.gradients_s, time.optimizer_s}) {
      EXPECT_GE(term, 0);
    }
    EXPECT_GT(time.bubble_s, -1e-12);
    EXPECT_EQ(time.tp_s > 0, config.tp > 1);
    EXPECT_EQ(time.cp_s > 0, config.cp > 1);
    EXPECT_EQ(time.ep_s, 0);
    if (training.schedule != Schedule::kTwoBW) {
      EXPECT_EQ(time.pipeline_s > 0 || time.bubble_s > 1e-12, config.pp > 1);
    }
    EXPECT_GT(time.mfu, 0);
    EXPECT_LT(time.hfu, 1);
    EXPECT_GE(time.hfu, time.mfu);
  }
}

TEST(StepTime, UtilisationIsFlopsOverThePeakOfAllGpus) {
  collection::ParallelConfig config;
  config.dp = 4;
  Training training = test_training(4);
  const ModelShape model = test_gpt(4096, 32);
  const StepTime time = priced(model, config, training);
  EXPECT_NEAR(time.mfu, model_flops(model, 64, 2048) / (time.step_s * 4 * 312e12), 1e-12);
  training.precision = find_precision("fp8").value();
  const StepTime fp8 = priced(model, config, training, test_host("h100-80g"));
  EXPECT_NEAR(fp8.mfu, model_flops(model, 64, 2048) / (fp8.step_s * 4 * 1979e12), 1e-12);
}

TEST(StepTime, BetterMachinesAreNotSlower) {
  const ModelShape model = test_gpt(8192, 64);
  collection::ParallelConfig config;
  config.tp = 8;
  config.pp = 2;
  config.dp = 4;
  const Training training = test_training(1);
  const double before = priced(model, config, training).step_s;
  const auto with = [&](auto change) {
    cluster::Host host = test_host();
    change(host);
    return priced(model, config, training, host).step_s;
  };
  EXPECT_LT(with([](cluster::Host& host) { host.nic_bytes_per_s *= 2; }), before);
  EXPECT_LT(with([](cluster::Host& host) { host.gpu_link_bytes_per_s *= 2; }), before);
  EXPECT_LT(with([](cluster::Host& host) { host.gpu.peak_flops *= 2; }), before);
  EXPECT_LT(with([](cluster::Host& host) { host.gpu.memory_bandwidth_bytes_per_s *= 2; }), before);
  EXPECT_LT(with([](cluster::Host& host) { host.gpu_link_bytes_per_s = host.nic_bytes_per_s = 0; }), before);
  EXPECT_GT(with([](cluster::Host& host) { host.nic_bytes_per_s /= 2; }), before);
}

TEST(StepTime, MoreWorkTakesLonger) {
  const ModelShape model = test_gpt(4096, 32);
  collection::ParallelConfig config;
  config.pp = 4;
  config.dp = 2;
  double before = 0;
  for (const int batch : {16, 32, 64, 128, 256}) {
    const StepTime time = priced(model, config, test_training(1, batch));
    EXPECT_GT(time.step_s, 1.2 * before);
    before = time.step_s;
  }
  // More replicas shorten the step, by less than their number.
  double slower = 1e9;
  for (const int dp : {1, 2, 4, 8, 16}) {
    config.dp = dp;
    const double now = priced(model, config, test_training(1, 256)).step_s;
    EXPECT_LT(now, slower);
    EXPECT_GT(now, 0.49 * slower * (slower < 1e8));
    slower = now;
  }
}

TEST(StepTime, ASlowStageSlowsAllDown) {
  const ModelShape model = test_gpt(4096, 32);
  collection::ParallelConfig config;
  config.pp = 4;
  const Training training = test_training(1);
  Hardware hardware = uniform_hardware(test_host(), config);
  const double before = step_time({model, config, training}, hardware).step_s;
  hardware.stages.resize(4, hardware.stages.front());
  EXPECT_NEAR(step_time({model, config, training}, hardware).step_s, before, 1e-12);
  hardware.stages[1].speed = 0.5;
  const double slow = step_time({model, config, training}, hardware).step_s;
  EXPECT_GT(slow, 1.4 * before);  // the last stage, with the logits, set the pace before
  EXPECT_LT(slow, 2 * before);
}

// Published steps that no constant was fitted on (results/perfmodel has all of them).
TEST(StepTime, PublishedStepsAreMet) {
  Training training = test_training(4, 4);
  training.precision = find_precision("fp16").value();
  training.flash_attention = false;
  collection::ParallelConfig config;
  config.tp = 8;
  const ModelShape model = test_gpt(6144, 64, 48);
  training.recompute = Recompute::kSelective;
  EXPECT_NEAR(priced(model, config, training).step_s, 1.10, 0.05 * 1.10);  // Korthikanti et al., Table 5
  training.recompute = Recompute::kFull;
  training.sequence_parallel = false;
  EXPECT_NEAR(priced(model, config, training).step_s, 1.42, 0.05 * 1.42);
}

TEST(StepTime, ZeroThreeOnDemandCollapsesWithManyGpus) {
  const ModelShape model = test_gpt(12288, 96, 96);
  Training training = test_training(1, 1536);
  training.precision = find_precision("zero-fp16").value();
  training.flash_attention = training.sequence_parallel = false;
  training.data_overlap = DataOverlap::kNone;
  training.recompute = Recompute::kFull;
  training.overlap = Overlap::kNone;
  collection::ParallelConfig zero;
  zero.dp = 1536;
  zero.zero = 3;
  collection::ParallelConfig ptd;
  ptd.tp = 8;
  ptd.pp = 12;
  ptd.dp = 16;
  const double collapsed = priced(model, zero, training).step_s;
  EXPECT_GT(collapsed, 2 * priced(model, ptd, training).step_s);
  EXPECT_NEAR(collapsed, 66.7, 0.15 * 66.7);  // Narayanan et al., SC'21, Table 2: 44 TFLOP/s
}

// Eight stages alike, 24 micro-batches. W of a layer of GPT is as much as its forward products. Zero bubble hides 2W of
// each other stage's F + B + W; with twice the activations only B − F is left; DualPipe waits (8/2 − 1)·(F + 2(B + W)
// − 3W).
TEST(StepTime, ZeroBubblesPutGradientsOfWeightsWhereStagesWait) {
  const ModelShape model = test_gpt(4096, 32, 80);
  Training training = test_training(1, 24);
  const collection::ParallelConfig config = {.pp = 8};
  const Hardware hardware = uniform_hardware(test_host(), config);
  const auto bubble_s = [&](Schedule schedule) {
    training.schedule = schedule;
    return step_time({model, config, training}, hardware).bubble_s;
  };
  const StepParts parts = step_parts({model, config, training}, hardware);
  const StageWork& middle = parts.stages[3];
  const double f = middle.forward[0].seconds(), b = middle.backward[0].seconds(), w = middle.backward[0].weights_s;
  EXPECT_GT(w, 0.75 * middle.forward[0].matrix_s);
  EXPECT_LT(w, 1.1 * middle.forward[0].matrix_s);
  EXPECT_NEAR(bubble_s(Schedule::kOneFOneB), 7 * (f + b), 0.1 * f);
  EXPECT_NEAR(bubble_s(Schedule::kZeroBubble1), 7 * (f + b - 2 * w), 0.1 * f);
  EXPECT_NEAR(bubble_s(Schedule::kZeroBubble2), 7 * std::max(0.0, b - w - f), 0.15 * f);
  EXPECT_NEAR(bubble_s(Schedule::kDualPipe), 3 * (f + 2 * b - 3 * w), 0.25 * (f + b));  // the head in the mean
}

}  // namespace
}  // namespace scalai::step
