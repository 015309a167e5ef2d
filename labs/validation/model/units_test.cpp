#include "labs/validation/model/units.h"

#include <gtest/gtest.h>

#include "labs/validation/model/testing/support.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step::validation {
namespace {

// 1,008 billion parameters on 3,072 GPUs (Narayanan et al., SC'21, Table 1).
TrainingRun trillion() {
  OneRow row(
      "gpu=a100-80g nic_gbps=200 gpus=3072 tp=8 pp=64 batch=3072 sequence=2048 recompute=full precision=fp16 "
      "model=m tokens=450e9");
  RowReader reader = row.reader();
  TrainingRun run = read_run(reader, {{"m", gpt(128, 25600, 160)}});
  EXPECT_TRUE(row.ok()) << row.said();
  return run;
}

TEST(Units, TheTrillionParameterRow) {
  const TrainingRun run = trillion();
  // F = 96·B·s·l·h²·(1 + s/(6h) + V/(16lh)) (equation 3), by hand.
  const double f = 96.0 * 3072 * 2048 * 128 * 25600 * 25600 * (1 + 2048 / (6.0 * 25600) + 51200 / (16.0 * 128 * 25600));
  const double step = step_seconds(163, "tflops_hardware", run);
  EXPECT_NEAR(step, f / (163e12 * 3072), 1e-3 * step);
  EXPECT_NEAR(in_unit(step, "hfu_pct", run), 52.24, 0.01);
  EXPECT_NEAR(in_unit(step, "mfu_pct", run), 39.2, 0.05);
  EXPECT_NEAR(in_unit(step, "pflops_hardware", run), 500.7, 0.1);
  // 450 billion tokens take 84 days (section 5.1).
  EXPECT_NEAR(in_unit(step, "days", run), 84, 1);
  EXPECT_NEAR(in_unit(step, "gpu_hours", run), in_unit(step, "days", run) * 24 * 3072, 1);
}

TEST(Units, RatesAndLengths) {
  const TrainingRun run = trillion();
  EXPECT_DOUBLE_EQ(in_unit(100, "s", run), 100);
  EXPECT_DOUBLE_EQ(in_unit(100, "tokens_s_gpu", run), 2048.0 / 100);
  EXPECT_DOUBLE_EQ(in_unit(100, "samples_s", run), 30.72);
  EXPECT_NEAR(in_unit(100, "tflops_6pt", run), 6 * static_cast<double>(run.model.parameters()) * 2048 / 100 / 1e12,
              1e-9);
  const double attention = 12.0 * 128 * 25600 * 2048 * 2048 / 100 / 1e12;
  EXPECT_NEAR(in_unit(100, "tflops_model", run) - in_unit(100, "tflops_causal", run), attention / 2, 1e-9);
  EXPECT_NEAR(in_unit(100, "mfu_causal_pct", run), in_unit(100, "tflops_causal", run) / 312 * 100, 1e-9);
}

TEST(Units, ThereAndBack) {
  const TrainingRun run = trillion();
  for (const std::string& unit : step_units()) {
    EXPECT_NEAR(step_seconds(in_unit(12.5, unit, run), unit, run), 12.5, 1e-12) << unit;
  }
}

TEST(Units, PeakOfThePublication) {
  TrainingRun run = trillion();
  const double before = in_unit(100, "mfu_pct", run);
  run.peak_flops = 2 * 312e12;
  EXPECT_NEAR(in_unit(100, "mfu_pct", run), before / 2, 1e-9);
}

TEST(Units, SecondsAtThePeak) {
  const TrainingRun run = trillion();
  EXPECT_NEAR(model_peak_seconds(run) * 100, in_unit(1, "mfu_pct", run), 1e-9);
  EXPECT_NEAR(hardware_peak_seconds(run) * 100, in_unit(1, "hfu_pct", run), 1e-9);
  EXPECT_GT(hardware_peak_seconds(run), 1.3 * model_peak_seconds(run));
}

}  // namespace
}  // namespace scalai::step::validation
