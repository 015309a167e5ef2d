#include "ptc/run/policy/policies/goodput/step_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ptc/base/random.h"

namespace scalai::policy {
namespace {

StepObservation seen_by(const StepModel& model, int hosts, int gpus, int64_t local) {
  const auto m = static_cast<double>(local);
  return {hosts, gpus, local, model.pass_s(m), model.step_s(m, hosts, gpus)};
}

TEST(StepModel, PredictsByTheFormula) {
  const StepModel model = {
      .alpha_c = 1, .beta_c = 0.5, .alpha_n = 4, .beta_n = 0.1, .alpha_r = 2, .beta_r = 0.2, .gamma = 2};
  EXPECT_DOUBLE_EQ(model.pass_s(4), 3);
  EXPECT_DOUBLE_EQ(model.sync_s(1, 2), 2 + 0.2 * 1e-8);
  EXPECT_DOUBLE_EQ(model.sync_s(2, 12), 5);
  EXPECT_NEAR(model.step_s(22, 2, 12), 13, 1e-12);  // 12 and 5 at gamma 2
  EXPECT_NEAR(model.step_s(4, 1, 1), 3, 1e-6);
}

TEST(FitStepModel, OneObservationOnOneGpuMakesTheRestFree) {
  const std::vector<StepObservation> seen = {{1, 1, 32, 0.4, 0.4}};
  const StepModel model = fit_step_model(seen);
  EXPECT_NEAR(model.alpha_c, 0.2, 1e-9);  // half of it
  EXPECT_NEAR(model.pass_s(32), 0.4, 1e-4);
  EXPECT_NEAR(model.step_s(32, 4, 16), 0.4, 1e-3);  // sixteen GPUs cost nothing yet
}

TEST(FitStepModel, SeveralHostsAreBelievedSlowerThanOneUntilSeen) {
  StepModel truth = {
      .alpha_c = 0.1, .beta_c = 0.01, .alpha_n = 9, .beta_n = 9, .alpha_r = 0.2, .beta_r = 0.02, .gamma = 1.5};
  const std::vector<StepObservation> seen = {seen_by(truth, 1, 1, 32), seen_by(truth, 1, 2, 32),
                                             seen_by(truth, 1, 4, 64)};
  const StepModel model = fit_step_model(seen);
  EXPECT_NEAR(model.alpha_n, model.alpha_r * 1.1, 1e-9);
  EXPECT_NEAR(model.beta_n, model.beta_r * 1.1, 1e-9);
}

// What made the observations explains them, in and between what was seen.
TEST(FitStepModel, FindsBackWhatMadeTheObservations) {
  Random random(11);
  for (int k = 0; k < 30; ++k) {
    SCOPED_TRACE(k);
    StepModel truth;
    truth.alpha_c = 0.02 + random.uniform() * 0.2;
    truth.beta_c = 0.001 + random.uniform() * 0.02;
    truth.alpha_r = 0.02 + random.uniform() * 0.1;
    truth.alpha_n = truth.alpha_r * (1 + random.uniform());
    truth.beta_r = truth.alpha_r * 0.02;
    truth.beta_n = truth.alpha_n * 0.02;
    truth.gamma = 1 + random.uniform();
    std::vector<StepObservation> seen;
    for (const int gpus : {1, 2, 4}) {
      for (const int64_t local : {8, 32, 128}) seen.push_back(seen_by(truth, 1, gpus, local));
    }
    for (const int hosts : {2, 4}) {
      for (const int64_t local : {8, 32, 128}) seen.push_back(seen_by(truth, hosts, 4 * hosts, local));
    }
    const StepModel model = fit_step_model(seen);
    for (const int64_t local : {16, 64}) {
      const auto m = static_cast<double>(local);
      EXPECT_NEAR(model.step_s(m, 1, 3) / truth.step_s(m, 1, 3), 1, 0.05);
      EXPECT_NEAR(model.step_s(m, 3, 12) / truth.step_s(m, 3, 12), 1, 0.05);
    }
  }
}

// No point near by is better by more than a little: a minimum of the objective, whatever was seen.
TEST(FitStepModel, IsAMinimumOfItsObjective) {
  Random random(12);
  for (int k = 0; k < 60; ++k) {
    SCOPED_TRACE(k);
    std::vector<StepObservation> seen;
    const auto count = random.between(1, 8);
    for (int one = 0; one < count; ++one) {
      const int hosts = static_cast<int>(random.between(1, 4));
      const int gpus = hosts * static_cast<int>(random.between(1, 4));
      const double pass = 0.05 + random.uniform(), sync = gpus == 1 ? 0 : random.uniform();
      seen.push_back({hosts, gpus, random.between(4, 64), pass, pass + sync});
    }
    bool several = false, ring = false, three = false, one_batch = true;
    for (const StepObservation& one : seen) {
      several |= one.hosts > 1;
      ring |= one.hosts == 1 && one.gpus > 1;
      three |= one.gpus > 2;
      one_batch &= one.local == seen.front().local;
    }
    const StepModel model = fit_step_model(seen);
    const double error = step_model_error(model, seen);
    double best = error;
    for (int nudge = 0; nudge < 100; ++nudge) {
      StepModel near = model;
      const auto vary = [&](double& value, bool free) {
        if (free) value = std::max(value * std::exp((random.uniform() - 0.5) * 0.2), 1e-8);
      };
      vary(near.alpha_c, !one_batch);
      vary(near.beta_c, true);
      vary(near.alpha_n, several);
      vary(near.beta_n, several && three);
      vary(near.alpha_r, ring);
      vary(near.beta_r, ring && three);
      near.gamma = std::min(std::max(near.gamma + (random.uniform() - 0.5) * 0.2, 1.0), 10.0);
      best = std::min(best, step_model_error(near, seen));
    }
    EXPECT_GE(best, error - 2e-3);
  }
}

TEST(BelievedGoodput, TakesTheBestCut) {
  StepModel model;
  model.alpha_c = 1;
  model.beta_c = 0.125;
  model.gamma = 1;
  const std::vector<BatchCut> cuts = {{8, 0}, {16, 0}, {16, 1}};
  // On one GPU: 8 samples 2 s gain 1; 16: 3 s, gain 4 / (3/2 + 1) = 1.6; 32: 6 s, gain 4 / (3/4 + 1).
  EXPECT_NEAR(believed_goodput(model, {1, 3}, 8, cuts, 1, 1), 1.6 / 3, 1e-7);
  EXPECT_NEAR(believed_goodput(model, {1, 3}, 8, std::vector<BatchCut>{{16, 1}}, 1, 1), 4 / 1.75 / 6, 1e-7);
  EXPECT_EQ(believed_goodput(model, {1, 3}, 8, {}, 1, 1), 0);
}

}  // namespace
}  // namespace scalai::policy
