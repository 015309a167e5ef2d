// `scalai parallelize`: numbers that add up, and agree with `scalai plan`. cases/parallelize.case has what it prints
// and refuses.

#include <cmath>

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace parallelize_command_test {

using nlohmann::json;
using namespace scalai::testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

constexpr const char* kMixed = R"(name: "mixed"
hosts { count: 1 gpus: 4 gpu: "a100-80g" nics: 4 nic: "100Gbps" }
hosts { count: 1 gpus: 4 gpu: "v100-32g" nics: 1 nic: "100Gbps" }
)";

class ParallelizeCommand : public EndToEnd {
 protected:
  Outcome run(const std::string& words) const {
    return shell(fmt::format("cd '{}' && '{}/scalai' parallelize {}", folder_.string(), kPrograms.string(), words));
  }
  json found(const std::string& words) const {
    const Outcome outcome = run("--format=json " + words);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  }
};

constexpr const char* kLlama = "--model=llama3-8b --gpu=h100-80g --global-batch=128 --sequence=4096 ";
std::string llama(const std::string& more) { return kLlama + more; }

// --- what it prints --------------------------------------------------------------------------------------------------

TEST_F(ParallelizeCommand, NumbersAgreeWithEachOther) {
  const json out = found(llama("--gpus=16 --top=20"));
  ASSERT_EQ(out["best"].size(), 20);
  EXPECT_EQ(out["search"]["points"], out["search"]["priced"].get<int>() + out["search"]["too_large"].get<int>() +
                                         out["search"]["bounded_away"].get<int>());
  double last_s = 0;
  for (const json& one : out["best"]) {
    const double step_s = one["step_s"];
    EXPECT_GE(step_s, last_s);
    last_s = step_s;
    EXPECT_EQ(one["gpus"], 16);
    EXPECT_NEAR(one["tokens_per_s_per_gpu"].get<double>(), 128 * 4096 / step_s / 16, 1e-6);
    EXPECT_LE(one["memory_bytes"], out["gpu_memory_bytes"]);
    double sum_s = 0;
    for (const auto& [name, seconds] : one["parts"].items()) sum_s += seconds.get<double>();
    EXPECT_NEAR(sum_s, step_s, 1e-9 * step_s);
    EXPECT_FALSE(one.contains("change"));
  }
  EXPECT_EQ(found(llama("--gpus=16 --top=20")), out);  // deterministic
}

TEST_F(ParallelizeCommand, ExplainAddsUp) {
  const json out = found(llama("--layout=tp2,pp4,dp2,zero1 --breakdown --top=1"));
  const json& explain = out["explain"];
  EXPECT_EQ(explain["layout"], "tp2,pp4,dp2,zero1");
  ASSERT_EQ(explain["stages"].size(), 4);
  double worst = 0;
  for (const json& stage : explain["stages"]) {
    double sum = 0;
    for (const json& term : stage["terms"]) sum += term["bytes"].get<double>();
    EXPECT_NEAR(sum, stage["bytes"].get<double>(), 1);
    worst = std::max(worst, sum);
  }
  EXPECT_NEAR(explain["memory_bytes"].get<double>(), worst + explain["margin_bytes"].get<double>(), 1);
  EXPECT_NEAR(explain["memory_bytes"].get<double>(), out["best"][0]["memory_bytes"].get<double>(), 1);
  const std::string text = run(llama("--layout=tp2,pp4,dp2,zero1 --breakdown")).out;
  for (const char* part : {"stage", "optimizer", " in flight · ", "margin", "part of the step", "MFU", "HFU"})
    EXPECT_TRUE(has(text, part)) << part << "\n" << text;
}

// --- what is searched ------------------------------------------------------------------------------------------------

TEST_F(ParallelizeCommand, OptionsReachTheSearch) {
  const json answer = found(llama("--gpus=16 --pin=tp4,cp1 --zero=3 --micro-batches=2 --recompute=full"));
  for (const json& one : answer["best"]) {
    const std::string layout = one["layout"];
    EXPECT_TRUE(layout.starts_with("tp4") && has(layout, "zero3") && !has(layout, "cp")) << layout;
    EXPECT_EQ(one["micro_batch"], 2);
    EXPECT_EQ(one["recompute"], "full");
  }
  const json plain = found(llama("--gpus=16 --layout=tp2,pp8"))["best"][0];
  const std::string few = "--model=llama3-8b --gpu=h100-80g --global-batch=16 --sequence=2048 --layout=tp2,pp4 ";
  const json flushes = found(few + "--micro-batches=1 --recompute=none")["best"][0];
  const json gpipe = found(few + "--micro-batches=1 --recompute=none --schedule=gpipe")["best"][0];
  EXPECT_GT(gpipe["memory_bytes"], flushes["memory_bytes"]);
  const json sgd = found(llama("--layout=tp2,pp8 --optimizer=sgd"))["best"][0];
  EXPECT_LT(sgd["memory_bytes"], plain["memory_bytes"]);
  const json fp8 = found(llama("--layout=tp2,pp8 --precision=fp8"))["best"][0];
  EXPECT_LT(fp8["step_s"], plain["step_s"]);
  const json kept = found(llama("--layout=tp2,pp8 --no-flash-attention --recompute=none --micro-batches=1"))["best"][0];
  EXPECT_GT(kept["memory_bytes"], plain["memory_bytes"]);
  const auto again = [&](const std::string& name) {
    const json one = found(llama("--layout=tp2,pp8 --micro-batches=1 --recompute=" + name))["best"][0];
    EXPECT_EQ(one["recompute"], name);
    return one["memory_bytes"].get<double>();
  };
  EXPECT_LT(again("layernorm+mlp"), again("layernorm"));
  EXPECT_LT(again("full-first-4"), again("full-first-2"));
  EXPECT_LT(again("op"), again("full-every-2"));
  const json slow = found(llama("--layout=tp2,pp8 --nic=1Gbps --nics=1"))["best"][0];
  EXPECT_GT(slow["step_s"], plain["step_s"]);
}

TEST_F(ParallelizeCommand, ChunksThatArePinnedTakeAPipeline) {
  const json answer = found(llama("--gpus=16 --pin=vpp2"));
  for (const json& one : answer["best"]) EXPECT_TRUE(has(one["layout"], "pp")) << one;
}

TEST_F(ParallelizeCommand, PartialBatchesAllowAnyDp) {
  EXPECT_EQ(found(llama("--gpus=7 --pin=dp7 --partial-batches"))["best"][0]["gpus"], 7);
}

TEST_F(ParallelizeCommand, FewerGpusMayWin) {
  const json all = found("--model=llama3-8b --host=p5.48xlarge --global-batch=16 --sequence=2048 --gpus=64 --top=1");
  const json cost = found(
      "--model=llama3-8b --host=p5.48xlarge --global-batch=16 --sequence=2048 --gpus=64 --top=1 --objective=cost");
  EXPECT_EQ(all["best"][0]["gpus"], 64);
  EXPECT_LT(cost["best"][0]["gpus"], 64);
  const std::string text =
      run("--model=llama3-8b --host=p5.48xlarge --global-batch=16 --sequence=2048 --gpus=64 --objective=cost").out;
  EXPECT_TRUE(has(text, "dollars a million tokens") && has(text, "on up to 64")) << text;
  // 57 GPUs divide, with a pipeline; 48 are faster.
  EXPECT_GT(found(llama("--gpus=57 --any-gpus --top=1"))["best"][0]["gpus"], 32);
}

// Fifteen replicas of eight GPUs: 1,020 = 68 · 15 is 4 of 1,024 samples away, 0.39 %.
TEST_F(ParallelizeCommand, ABatchMayChangeALittle) {
  const std::string words =
      "--model=llama3-8b --gpu=h100-80g --sequence=4096 --gpus=120 --any-gpus --top=1 "
      "--pin=tp8,pp1,cp1 --micro-batches=1 --global-batch=1024 ";
  const json strict = found(words);
  EXPECT_EQ(strict["best"][0]["gpus"], 64);
  EXPECT_EQ(strict["best"][0]["global_batch"], 1024);
  EXPECT_TRUE(has(strict["idle"].get<std::string>(), "64 of 120 GPUs: no valid layout of 65 to 120; "));
  EXPECT_TRUE(has(strict["idle"].get<std::string>(), "(with batch_tolerance 0.004: 1020 would)"));
  EXPECT_TRUE(has(run(words).out, strict["idle"].get<std::string>() + "\n"));
  const json tolerant = found(words + "--batch-tolerance=0.02");
  EXPECT_EQ(tolerant["best"][0]["gpus"], 120);
  EXPECT_EQ(tolerant["best"][0]["global_batch"], 1020);
  EXPECT_EQ(tolerant["global_batch"], 1024);
  EXPECT_EQ(tolerant["batch_tolerance"], 0.02);
  EXPECT_FALSE(tolerant.contains("idle"));
  const double step_s = tolerant["best"][0]["step_s"];
  EXPECT_NEAR(tolerant["best"][0]["score"].get<double>(), step_s * 1024 / 1020, 1e-12);
  EXPECT_NEAR(tolerant["best"][0]["tokens_per_s_per_gpu"].get<double>(), 1020 * 4096 / step_s / 120, 1e-6);
  const std::string text = run(words + "--batch-tolerance=0.02").out;
  EXPECT_TRUE(has(text, "  batch  ") && has(text, "batches may change by less than 2 % of 1024")) << text;
}

// Estimates of memory err, and `scalai validate` lets a layout exceed the memory by as much.
TEST_F(ParallelizeCommand, ALayoutMayBeAsFullAsValidateLetsItBe) {
  const std::string words =
      "--model=llama3-405b --gpus=512 --gpu=h100-80g --global-batch=256 --sequence=8192 --micro-batches=1 "
      "--recompute=none --gradients=fp32 --layout=tp8,pp8,cp2,dp4,vpp8,zero1 ";
  const json out = found(words);
  EXPECT_GT(out["best"][0]["memory_bytes"], out["gpu_memory_bytes"]);
  EXPECT_LT(out["best"][0]["memory_bytes"].get<double>(), 1.081 * out["gpu_memory_bytes"].get<double>());
  EXPECT_EQ(out["headroom"], 0);
  const std::string text = run(words).out;
  EXPECT_TRUE(has(text, "by this estimate it is over the GPU's 85.9 GB; estimates are 8.1 % off on average")) << text;
}

// --- from where the job is -------------------------------------------------------------------------------------------

TEST_F(ParallelizeCommand, StayingCostsNothing) {
  const json out = found(llama("--gpus=16 --from=tp4,dp4,zero1 --layout=tp4,dp4,zero1"));
  EXPECT_EQ(out["from"]["can_stay"], true);
  EXPECT_EQ(out["best"][0]["change"]["reconfiguration_s"], 0);
  EXPECT_EQ(out["best"][0]["change"]["bytes_moved"], 0);
  EXPECT_EQ(out["best"][0]["step_s"], out["from"]["step_s"]);
  EXPECT_FALSE(out["best"][0].contains("pay_off_steps"));
}

TEST_F(ParallelizeCommand, ChangesAreWhatScalaiPlanSays) {
  const json out =
      found(llama("--gpus=16 --from=tp8,dp2,zero1 --layout=tp4,dp4,zero1 --precision=bf16 --gpus-per-host=8"));
  const Outcome planned = scalai(
      "plan --model=llama3-8b --precision=bf16 --from=tp8,dp2,zero1 --to=tp4,dp4,zero1 --gpus-per-host=8 "
      "--format=json");
  const json plan = json::parse(planned.out, nullptr, false);
  const json& change = out["best"][0]["change"];
  EXPECT_EQ(change["bytes_between_hosts"], plan["bytes"]["cross_host"]);
  EXPECT_EQ(change["bytes_moved"],
            plan["bytes"]["cross_host"].get<int64_t>() + plan["bytes"]["same_host"].get<int64_t>());
  // Planning, communicators (ptc/cost/change/setup.h), and some time for the bytes.
  EXPECT_GT(change["reconfiguration_s"], 0.1 + 0.5);
  EXPECT_LT(change["reconfiguration_s"], 5);
  const double gain_s = out["from"]["step_s"].get<double>() - out["best"][0]["step_s"].get<double>();
  ASSERT_GT(gain_s, 0);
  EXPECT_NEAR(out["best"][0]["pay_off_steps"].get<double>(), change["reconfiguration_s"].get<double>() / gain_s, 1e-6);
}

TEST_F(ParallelizeCommand, LostGpusCannotStay) {
  const json out = found(llama("--gpus=8 --from=tp4,pp2,dp2,zero0 --fail=8-15 --top=2"));
  EXPECT_EQ(out["from"]["can_stay"], false);
  EXPECT_TRUE(has(out["from"]["why_not"], "8 of its 16 GPUs are left")) << out["from"];
  // Replicas are on both hosts but not the whole of any stage: order tp-cp-dp-pp puts stage 1 on the lost one.
  for (const json& one : out["best"]) EXPECT_TRUE(has(one.value("unreachable", ""), "checkpoint")) << one;
  const json alive = found(llama("--gpus=8 --from=tp8,dp2,zero0 --fail=8-15 --top=2"));
  for (const json& one : alive["best"]) {
    EXPECT_GT(one["change"]["reconfiguration_s"], 5);  // a failure is detected first
    EXPECT_FALSE(one.contains("pay_off_steps"));
  }
  const std::string text = run(llama("--gpus=8 --from=tp8,dp2,zero0 --fail=8-15 --top=2")).out;
  EXPECT_TRUE(has(text, "it cannot stay, 8 of its 16 GPUs are left") && has(text, "cannot stay")) << text;
}

// The hosts that are left have not all of the state: a checkpoint has, at the rate of its storage.
TEST_F(ParallelizeCommand, LostStateComesFromStorage) {
  const std::string lost = llama("--gpus=8 --from=tp4,pp2,dp2,zero0 --fail=8-15 --layout=tp8,zero1 --storage ");
  const auto seconds = [&](const std::string& rate) {
    const json out = found(lost + "--storage-read=" + rate);
    return out["best"][0].value("/change/reconfiguration_s"_json_pointer, 0.0);
  };
  // Half of 8 billion parameters at 14 bytes, once.
  const double slow_s = seconds("1GB/s"), fast_s = seconds("100GB/s");
  EXPECT_GT(fast_s, 5);
  EXPECT_GT(slow_s - fast_s, 50);
  EXPECT_LT(slow_s - fast_s, 130);
}

// Plans for so many GPUs take long: the best four get one.
TEST_F(ParallelizeCommand, HugeChangesArePlannedForTheBestOnly) {
  const json out = found(
      "--model=gpt2 --gpu=h100-80g --gpus=16384 --global-batch=32768 --pin=cp1 --micro-batches=1,2 --top=6 "
      "--gradients=fp32 "
      "--from=dp8192,zero1");
  EXPECT_EQ(out["changes_not_planned"], 2);
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(out["best"][i].contains("change"), i < 4) << out["best"][i];
}

TEST_F(ParallelizeCommand, PayOffDependsOnTheHorizon) {
  const std::string words = llama("--gpus=16 --from=tp8,pp2,zero1 --objective=pay-off --top=1 ");
  EXPECT_EQ(found(words + "--horizon=1s")["best"][0]["layout"], "tp8,pp2,zero1");
  EXPECT_NE(found(words + "--horizon=10d")["best"][0]["layout"], "tp8,pp2,zero1");
  const Outcome lost = run(llama("--gpus=8 --from=tp4,pp2,dp2 --fail=8-15 --objective=pay-off"));
  EXPECT_EQ(lost.code, 3);
  EXPECT_TRUE(has(lost.err, "no configuration can be reached")) << lost.err;
}

// --- machines --------------------------------------------------------------------------------------------------------

TEST_F(ParallelizeCommand, ClustersMayDiffer) {
  write_all(path("mixed.textproto"), kMixed);
  const std::string model = "--model=gpt3-2.7b --global-batch=32 --cluster=mixed.textproto ";
  const json all = found(model + "--top=1");
  EXPECT_EQ(all["gpus"], 8);
  EXPECT_EQ(all["gpu_memory_bytes"], 32.0 * (1 << 30));  // the smaller one's
  const json fast = found(model + "--devices=0-3 --top=1"), slow = found(model + "--devices=4-7 --top=1");
  EXPECT_LT(fast["best"][0]["step_s"], slow["best"][0]["step_s"]);
  // The same layout on half of each waits for the V100, and for the network.
  const double half_s = found(model + "--devices=2-5 --layout=dp4,zero1 --top=1")["best"][0]["step_s"];
  const double slow_s = found(model + "--devices=4-7 --layout=dp4,zero1 --top=1")["best"][0]["step_s"];
  const double fast_s = found(model + "--devices=0-3 --layout=dp4,zero1 --top=1")["best"][0]["step_s"];
  EXPECT_LT(fast_s, half_s);
  EXPECT_GT(half_s, slow_s);
}

// In fp32 the A10G is the faster one, in 16 bits the V100.
TEST_F(ParallelizeCommand, TheFastestOfGpusThatDifferAreTaken) {
  write_all(path("mixed.textproto"), R"(name: "mixed"
hosts { count: 1 gpus: 4 gpu: "v100-16g" nics: 4 nic: "100Gbps" price_per_hour: 12 }
hosts { count: 1 gpus: 4 gpu: "a10g-24g" nics: 4 nic: "100Gbps" price_per_hour: 4 }
)");
  const std::string model = "--model=gpt3-350m --global-batch=32 --sequence=1024 --cluster=mixed.textproto ";
  for (const std::string precision : {"--precision=fp32 ", "--precision=fp16 "}) {
    const std::string fast = has(precision, "fp32") ? "4-7" : "0-3", slow = has(precision, "fp32") ? "0-3" : "4-7";
    const json four = found(model + precision + "--gpus=4 --top=3");
    EXPECT_EQ(four["best"], found(model + precision + "--devices=" + fast + " --top=3")["best"]);
    EXPECT_LT(four["best"][0]["step_s"],
              found(model + precision + "--devices=" + slow + " --top=1")["best"][0]["step_s"]);
    const json any = found(model + precision + "--any-gpus --pin=dp4,tp1,pp1,cp1 --micro-batches=4 --top=1");
    EXPECT_EQ(
        any["best"][0]["step_s"],
        found(model + precision + "--gpus=4 --pin=dp4,tp1,pp1,cp1 --micro-batches=4 --top=1")["best"][0]["step_s"]);
  }
  // 4 GPU-hours of an A10G host cost 4 dollars.
  const json cost = found(model + "--precision=fp32 --objective=cost --layout=dp4,zero1 --top=1");
  EXPECT_NEAR(cost["best"][0]["score"].get<double>(), 4 * cost["best"][0]["step_s"].get<double>() / 3600, 1e-12);
  EXPECT_TRUE(has(run(model).out, "v100-16g/a10g-24g GPUs"));
}

// Step and change speak of the same devices.
TEST_F(ParallelizeCommand, WhatStaysIsPricedWhereItIs) {
  write_all(path("mixed.textproto"), kMixed);
  const std::string words =
      "--model=gpt3-2.7b --global-batch=32 --cluster=mixed.textproto --from=dp4,zero1 --from-devices=4-7 --any-gpus ";
  const json out = found(words + "--layout=dp4,zero1 --top=1");
  EXPECT_EQ(out["best"][0]["change"]["reconfiguration_s"], 0);
  EXPECT_EQ(out["best"][0]["step_s"], out["from"]["step_s"]);
  // Other layouts take the A100s, and move there.
  const json other = found(words + "--gpus=8 --layout=tp2,dp2,zero1 --top=1")["best"][0];
  EXPECT_LT(other["step_s"].get<double>(), 0.5 * out["from"]["step_s"].get<double>());
  EXPECT_GT(other["change"]["bytes_between_hosts"], 0);
}

TEST_F(ParallelizeCommand, ANetworkThatIsUnknownIsAssumed) {
  const std::string words =
      "--model=llama3-8b --global-batch=128 --gpus=32 --host=hgx-h100 --layout=tp8,dp4,zero1 --top=1 ";
  EXPECT_TRUE(has(run(words).out, "network: 1 × 12.5 GB/s a host")) << run(words).out;
  EXPECT_TRUE(has(run(words).out, "assumed"));
  EXPECT_EQ(found(words)["best"][0]["step_s"], found(words + "--nics=1 --nic=100Gbps")["best"][0]["step_s"]);
}

TEST_F(ParallelizeCommand, PipeDreamsPlanner) {
  const std::string words =
      "--model=gpt3-2.7b --gpus=64 --gpu=v100-16g --global-batch=512 --sequence=512 --precision=zero-fp16 "
      "--planner=pipedream-2bw --top=3 ";
  const json out = found(words);
  ASSERT_EQ(out["best"].size(), 3);
  for (const json& one : out["best"]) {
    EXPECT_EQ(one["width"].get<int>() * one["depth"].get<int>(), 64);
    EXPECT_NEAR(one["samples_per_s"].get<double>(), 512 / one["step_s"].get<double>(), 1e-6);
  }
  EXPECT_TRUE(has(run(words).out, "by PipeDream-2BW's equations"));
  EXPECT_TRUE(run(words + "--format=csv").out.starts_with("width,depth,micro_batch,"));
}

TEST_F(ParallelizeCommand, ModelsFromAFile) {
  write_all(path("config.json"),
            R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 1024, "intermediate_size": 2816,
                "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 32000,
                "max_position_embeddings": 2048})");
  EXPECT_EQ(found("--model=config.json --gpus=4 --gpu=a100-40g --global-batch=32")["sequence"], 2048);
}

}  // namespace parallelize_command_test
