// `scalai plan` as its users run it: the real program, small models, and the known answers that can be said with models.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kProgram = fs::path(SCALAI_BINARY_DIR) / "bin/scalai";

// Four layers; qkv and feed-forward have 1024 columns or rows where it matters.
constexpr const char* kSmall =
    R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 64, "n_head": 16, "n_positions": 32,
        "n_inner": 1024, "vocab_size": 50257})";
constexpr const char* kExperts =
    R"({"architectures": ["MixtralForCausalLM"], "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 8,
        "num_key_value_heads": 8, "intermediate_size": 96, "vocab_size": 512, "max_position_embeddings": 32,
        "num_local_experts": 16, "num_experts_per_tok": 2})";
constexpr const char* kCluster = R"(name: "pair" hosts { count: 2 gpus: 4 gpu: "a100-80g" nics: 1 nic: "100Gbps" })";

struct Outcome {
  int code = -1;
  std::string out, err;
  json parsed() const { return json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

std::string read_all(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class PlanCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("scalai_plan_{}", ::getpid());
    fs::create_directories(folder_);
    write("small.json", kSmall);
    write("experts.json", kExperts);
    write("pair.textproto", kCluster);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // `scalai WORDS` in the test's folder.
  Outcome scalai(const std::string& words) const {
    const std::string command =
        fmt::format("cd '{}' && '{}' {} >out.txt 2>err.txt", folder_.string(), kProgram.string(), words);
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_all(folder_ / "out.txt"), read_all(folder_ / "err.txt")};
  }
  Outcome small(const std::string& words) const { return scalai("plan --model=small.json " + words); }
  json planned(const std::string& words) const {
    const Outcome outcome = scalai("plan --check --format=json " + words);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.parsed().value("checked", false), true) << words;
    return outcome.parsed();
  }
  // Elements of one tensor that travel between devices, by receiving device.
  std::map<int, int64_t> moved(const std::string& tensor, const std::string& words) const {
    std::map<int, int64_t> sums;
    const json plan = planned(words + " --explain=" + tensor);
    for (const json& piece : plan["explain"]) {
      if (piece["class"] == "kept" || piece["class"] == "same_device") continue;
      int64_t volume = 1;
      for (const json& range : piece["box"]) volume *= range[1].get<int64_t>() - range[0].get<int64_t>();
      sums[piece["device"].get<int>()] += volume;
    }
    return sums;
  }
  int64_t state_bytes(const std::string& model, const std::string& part = "") const {
    int64_t bytes = 0;
    const json listed = scalai("models " + model + " --format=json").parsed();
    for (const json& tensor : listed["tensors"]) {
      if (tensor["name"].get<std::string>().find(part) != std::string::npos) bytes += tensor["bytes"].get<int64_t>();
    }
    return bytes;
  }

  fs::path folder_;
};

int64_t moved_bytes(const json& plan) {
  return plan["bytes"]["same_host"].get<int64_t>() + plan["bytes"]["cross_host"].get<int64_t>();
}

int64_t total(const json& by_device) {
  int64_t sum = 0;
  for (const json& one : by_device) sum += one["bytes"].get<int64_t>();
  return sum;
}

int64_t most(const json& by_device) {
  int64_t bytes = 0;
  for (const json& one : by_device) bytes = std::max(bytes, one["bytes"].get<int64_t>());
  return bytes;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

using Sums = std::map<int, int64_t>;

// --- what it prints ---------------------------------------------------------------------------------------------------

TEST_F(PlanCommand, JsonHasItsKeys) {
  const json plan = planned("--model=small.json --from=tp2,pp2,dp2 --to=tp4,pp1,dp1 --gpus-per-host=4");
  for (const char* key : {"digest", "planning_s", "devices", "tensors", "transfers", "bytes", "lower_bound_bytes",
                          "lower_bound_any_placement", "bytes_received", "bytes_sent", "hottest_link",
                          "peak_extra_bytes", "survives_host_losses", "infeasible"}) {
    EXPECT_TRUE(plan.contains(key)) << key;
  }
  for (const char* key : {"kept", "same_device", "same_host", "cross_host", "from_storage"}) {
    EXPECT_TRUE(plan["bytes"].contains(key)) << key;
    EXPECT_TRUE(plan["lower_bound_bytes"].contains(key)) << key;
  }
  EXPECT_EQ(plan["devices"], 8);
  EXPECT_EQ(plan["bytes_received"].size(), 8u);
  EXPECT_EQ(total(plan["bytes_received"]), moved_bytes(plan));
  EXPECT_EQ(total(plan["bytes_sent"]), moved_bytes(plan));
  EXPECT_EQ(total(plan["peak_extra_bytes"]), moved_bytes(plan) + plan["bytes"]["same_device"].get<int64_t>());
  EXPECT_GE(plan["hottest_link"]["bytes"], plan["hottest_link"]["optimum_bytes"]);
  EXPECT_TRUE(has(plan["hottest_link"]["name"], ".nic.")) << plan["hottest_link"];
}

TEST_F(PlanCommand, OnlyThePlanningTimeDiffersBetweenRuns) {
  json first = planned("--model=small.json --from=tp2,dp4 --to=tp4,dp1"), second = first;
  second = planned("--model=small.json --from=tp2,dp4 --to=tp4,dp1");
  first.erase("planning_s");
  second.erase("planning_s");
  EXPECT_EQ(first, second);
}

TEST_F(PlanCommand, TheTableFitsOneScreen) {
  const Outcome outcome = small("--from=tp2,pp2,dp2 --to=tp4 --check");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.out, "between hosts")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "checked: every element right, exactly once\n")) << outcome.out;
  EXPECT_LE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 24);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(PlanCommand, CsvHasALineADevice) {
  const Outcome outcome = small("--from=dp2 --to=dp4 --format=csv");
  EXPECT_TRUE(outcome.out.starts_with("device,received_bytes,sent_bytes,peak_extra_bytes\n0,0,")) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 5);
}

TEST_F(PlanCommand, HelpShowsExamples) {
  const Outcome outcome = scalai("plan --help");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.out, "scalai plan --model=llama3-70b --from=tp8,pp4,dp2 --to=tp4,pp8,dp1")) << outcome.out;
}

TEST_F(PlanCommand, TheExampleOfTheHelpIsPlanned) {
  const json plan = scalai("plan --model=llama3-70b --from=tp8,pp4,dp2 --to=tp4,pp8,dp1 --format=json").parsed();
  EXPECT_EQ(plan["devices"], 64);
  EXPECT_GT(plan["transfers"], 0);
  EXPECT_EQ(plan["infeasible_count"], 0);
}

TEST_F(PlanCommand, TheClusterFileSaysWhereDevicesAre) {
  const json pair = planned("--model=small.json --from=dp1 --to=dp1 --devices=4 --cluster=pair.textproto");
  EXPECT_EQ(pair["bytes"]["cross_host"], state_bytes("small.json"));
  EXPECT_EQ(pair["hottest_link"]["optimum_bytes"], state_bytes("small.json"));
  const json one = planned("--model=small.json --from=dp1 --to=dp1 --devices=4");
  EXPECT_EQ(one["bytes"]["cross_host"], 0);
  EXPECT_EQ(one["bytes"]["same_host"], state_bytes("small.json"));
}

// Two collections of one tensor that no model describes.
TEST_F(PlanCommand, CollectionFilesTakeThePlaceOfModels) {
  const auto file = [](int parts, const std::string& more) {
    return fmt::format(
        "schema_version: 1 name: \"w over {0}\" meshes {{ axes {{ name: \"x\" size: {0} }} }} devices: \"0-{1}\"\n"
        "tensors {{ name: \"w\" dtype: \"F32\" shape: [12, 2] cuts {{ axis: \"x\" dim: 0 }} }} {2}\n",
        parts, parts - 1, more);
  };
  write("three.textproto", file(3, ""));
  write("two.textproto", file(2, ""));
  write("wounded.textproto", file(3, "residency { lost: \"2\" }"));
  const json plan = planned("--from=three.textproto --to=two.textproto");
  EXPECT_EQ(moved_bytes(plan), (2 + 4) * 2 * 4);
  EXPECT_EQ(plan["from"], "w over 3");
  const Outcome lost = scalai("plan --from=wounded.textproto --to=two.textproto --format=json");
  EXPECT_EQ(lost.code, 3);
  EXPECT_EQ(lost.parsed()["infeasible"][0]["box"], (json{{8, 12}, {0, 2}})) << lost.err;
  EXPECT_EQ(scalai("plan --from=three.textproto --to=two.textproto --devices=4,5").code, 3);
  EXPECT_EQ(scalai("plan --from=three.textproto --to=two.textproto --model=gpt2").code, 3);
  EXPECT_EQ(scalai("plan --from=three.textproto --to=dp1 --model=gpt2").code, 3) << "other tensors";
  EXPECT_EQ(scalai("plan --from=three.textproto --to=dp1").code, 2) << "a layout needs a model";
  EXPECT_EQ(scalai("plan --from=none.textproto --to=two.textproto").code, 4);
  write("broken.textproto", file(3, "tensors { name: \"w\" }"));
  const Outcome broken = scalai("plan --from=broken.textproto --to=two.textproto");
  EXPECT_EQ(broken.code, 3);
  EXPECT_TRUE(broken.err.starts_with("broken.textproto:")) << broken.err;
}

TEST_F(PlanCommand, RoundsAndStrategiesReachThePlanner) {
  EXPECT_EQ(planned("--model=small.json --from=dp1 --to=dp2")["rounds"], 1);
  EXPECT_GT(planned("--model=small.json --from=dp1 --to=dp2 --round-bytes=1MiB")["rounds"], 1);
  const json staged = planned("--model=small.json --from=dp1 --to=dp2 --strategy=tenplex");
  EXPECT_EQ(staged["planner"], "tenplex");
  EXPECT_EQ(staged["bytes"]["kept"], 0) << "everything is pulled out of host memory";
  const json stored = planned("--model=small.json --from=dp1 --to=dp2 --strategy=checkpoint-restart --storage");
  EXPECT_GT(stored["bytes"]["from_storage"], 0);
}

TEST_F(PlanCommand, CapsMemoryAndDerivesParameters) {
  const std::string change = "--model=small.json --from=tp2 --to=dp2 ";
  const json free = planned(change), capped = planned(change + "--memory-cap=2MiB");
  EXPECT_EQ(free["memory_cap_bytes"], nullptr);
  EXPECT_EQ(capped["memory_cap_bytes"], 2 << 20);
  EXPECT_LE(most(capped["peak_extra_bytes"]), 2 << 20);
  EXPECT_GT(most(free["peak_extra_bytes"]), 2 << 20);
  const std::string derived = "--model=small.json --from=dp1 --to=dp2 --precision=bf16 ";
  EXPECT_EQ(planned(derived)["bytes"]["derived"], 0);
  EXPECT_GT(planned(derived + "--derive-params")["bytes"]["derived"], 0);
}

// Any placement rule, and never worse than the stricter one.
TEST_F(PlanCommand, PlacementRulesAreOrdered) {
  for (const char* change :
       {"--from=tp2,pp2,dp2 --to=tp4,dp2", "--from=tp4,pp2 --to=pp4,dp2 --fail=3", "--from=dp6 --to=tp2,pp2"}) {
    std::vector<int64_t> bytes;
    for (const char* rule : {"identity", "hosts", "free"}) {
      const json plan =
          planned(fmt::format("--model=small.json --gpus-per-host=2 {} --storage --placement={}", change, rule));
      bytes.push_back(plan["bytes"]["cross_host"]);
      EXPECT_FALSE(plan.contains("spread"));
    }
    EXPECT_TRUE(std::is_sorted(bytes.rbegin(), bytes.rend())) << change;
  }
}

TEST_F(PlanCommand, SpreadKeepsReplicasApartAndNamesThePrice) {
  const std::string change = "--model=small.json --from=dp1 --to=dp2 --gpus-per-host=4";
  EXPECT_EQ(planned(change)["survives_host_losses"], 0);
  const json plan = planned(change + " --spread=host");
  const int64_t model = state_bytes("small.json");
  EXPECT_EQ(plan["survives_host_losses"], 1);
  EXPECT_EQ(plan["spread"], (json{{"domain", "host"},
                                  {"cost_bytes", {{"cross_host", model}, {"moved", 0}}},
                                  {"bytes_in_one_domain", 0},
                                  {"bytes_in_one_domain_without", model}}));
  EXPECT_TRUE(has(scalai("plan " + change + " --spread=host").out, "replicas apart"));
  write("racks.textproto", std::string(kCluster) + " rack_hosts: 1");
  const std::string racks = "--model=small.json --from=dp1 --to=dp2 --cluster=racks.textproto --spread=rack";
  EXPECT_EQ(planned(racks)["spread"]["cost_bytes"]["cross_host"], model);
  EXPECT_EQ(planned(racks + " --devices=0,1")["spread"]["bytes_in_one_domain"], model) << "one host alone";
}

// --- known answers ----------------------------------------------------------------------------------------------------

TEST_F(PlanCommand, IdentityMovesNothingAndStrangersGetAll) {
  const std::string same = "--model=small.json --from=tp2,pp2,dp2 --to=tp2,pp2,dp2 ";
  const json identity = planned(same);
  EXPECT_EQ(identity["transfers"], 0);
  EXPECT_EQ(identity["hottest_link"], nullptr);
  const json strangers = planned(same + "--devices=8-15");
  EXPECT_EQ(strangers["bytes"]["kept"], 0);
  EXPECT_EQ(moved_bytes(strangers), identity["bytes"]["kept"]);
  const std::string reversed = same + "--devices=7,6,5,4,3,2,1,0";
  EXPECT_GT(moved_bytes(planned(reversed + " --placement=identity")), 0);
  for (const char* rule : {"", " --placement=hosts", " --placement=free"})
    EXPECT_EQ(moved_bytes(planned(reversed + rule)), 0) << rule;
}

TEST_F(PlanCommand, ColumnParallelTp4ToTp2) {
  const std::string tensor = "layers.0.mlp.up.weight";  // [1024, 64]
  const std::string change = "--model=small.json --from=tp4 --to=tp2";
  EXPECT_EQ(moved(tensor, change + " --placement=identity"), (Sums{{0, 256 * 64}, {1, 512 * 64}}));
  EXPECT_EQ(moved(tensor, change + " --devices=0,2"), (Sums{{0, 256 * 64}, {2, 256 * 64}})) << "best placement";
  int64_t placed = 0;
  for (const auto& [device, elements] : moved(tensor, change)) placed += elements;
  EXPECT_EQ(placed, 512 * 64);
}

TEST_F(PlanCommand, RowParallelTp2ToTp4) {
  EXPECT_EQ(moved("layers.0.mlp.down.weight", "--model=small.json --from=tp2 --to=tp4 --placement=identity"),
            (Sums{{1, 256 * 64}, {2, 256 * 64}, {3, 256 * 64}}));
}

TEST_F(PlanCommand, PaddingOfTheVocabularyNeverTravels) {
  int64_t rows = 0;
  for (const auto& [device, elements] :
       moved("embedding.word.weight", "--model=small.json --from=tp2 --to=tp8 --placement=identity"))
    rows += elements / 64;
  EXPECT_EQ(rows, 43857);
}

TEST_F(PlanCommand, SixteenExpertsEp4ToEp8) {
  const json plan = planned("--model=experts.json --from=dp4,ep4 --to=dp8,ep8 --placement=identity");
  const int64_t experts = state_bytes("experts.json", "experts."), all = state_bytes("experts.json");
  EXPECT_EQ(moved_bytes(plan), experts / 16 * 14 + 4 * (all - experts)) << "the rest is new on four devices";
  const json placed = planned("--model=experts.json --from=dp4,ep4 --to=dp8,ep8");
  EXPECT_EQ(moved_bytes(placed), experts / 16 * 8 + 4 * (all - experts));
}

TEST_F(PlanCommand, ShrinkingDataParallelism) {
  const std::string change = "--model=small.json --from=tp2,pp2,dp2 --to=tp2,pp2,dp1 ";
  EXPECT_EQ(moved_bytes(planned(change + "--devices=0,1,4,5")), 0) << "survivors hold it all";
  EXPECT_EQ(moved_bytes(planned(change)), 0) << "they are found";
  const json default_order = planned(change + "--placement=identity");
  EXPECT_GT(moved_bytes(default_order), 0);
  for (const json& one : default_order["bytes_received"]) {
    const int device = one["device"];
    EXPECT_EQ(one["bytes"].get<int64_t>() > 0, device == 2 || device == 3) << one;
  }
  EXPECT_EQ(planned(change + "--fail=5")["infeasible_count"], 0) << "g7 holds what g5 held";
}

TEST_F(PlanCommand, LosingBothReplicasNamesExactlyWhatIsGone) {
  const std::string change = "--from=tp2,pp2,dp2 --to=tp2,pp2,dp1 --fail=5,7 --devices=0-3";
  const Outcome outcome = small(change + " --format=json --out=plan.binpb");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_FALSE(fs::exists(folder_ / "plan.binpb"));
  EXPECT_TRUE(has(outcome.err, "error: tensor \"")) << outcome.err;
  std::set<std::string> layers;
  const json plan = outcome.parsed();
  for (const json& lost : plan["infeasible"]) {
    const std::string name = lost["tensor"];
    if (name.starts_with("layers.")) layers.insert(name.substr(7, 1));
    if (name == "layers.2.mlp.up.weight") {
      EXPECT_EQ(lost["box"], (json{{512, 1024}, {0, 64}})) << "tp half 1";
    }
  }
  EXPECT_EQ(layers, (std::set<std::string>{"2", "3"}));
  const Outcome table = small(change);
  EXPECT_EQ(table.code, 3);
  EXPECT_EQ(table.out, "");
  EXPECT_TRUE(has(table.err, "more boxes")) << table.err;
  EXPECT_EQ(std::count(table.err.begin(), table.err.end(), '\n'), 22);
  EXPECT_GT(planned("--model=small.json " + change + " --storage")["bytes"]["from_storage"], 0);
}

TEST_F(PlanCommand, GrowingDp2ToDp6) {
  const json plan = planned("--model=small.json --from=dp2 --to=dp6");
  const int64_t model = state_bytes("small.json");
  EXPECT_EQ(total(plan["bytes_received"]), 4 * model);
  EXPECT_LE(most(plan["bytes_sent"]), 2 * model + model / 10) << "two senders share the work";
}

// --- explain, show, diff ----------------------------------------------------------------------------------------------

TEST_F(PlanCommand, ExplainSaysWhereEachPieceComesFrom) {
  const Outcome outcome = small("--from=tp4 --to=tp2 --gpus-per-host=2 --explain=layers.0.mlp.up.weight");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.out, "layers.0.mlp.up.weight F16 [1024, 64]: tp4 → tp2")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "copied on the device")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "inside the host")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "over the network")) << outcome.out;
  EXPECT_TRUE(has(small("--from=tp2 --to=tp2 --explain=step").out, "stays in place"));
}

TEST_F(PlanCommand, ExplainSuggestsNames) {
  const Outcome typo = small("--from=tp2 --to=tp2 --explain=layers.0.mlp.up.wieght");
  EXPECT_EQ(typo.code, 3);
  EXPECT_TRUE(has(typo.err, "did you mean layers.0.mlp.up.weight")) << typo.err;
  EXPECT_TRUE(has(small("--from=tp2 --to=tp2 --explain=down").err, "layers.0.mlp.down.weight"));
}

TEST_F(PlanCommand, WritesShowsAndComparesPlans) {
  ASSERT_EQ(small("--from=tp2,dp2 --to=tp4 --out=a.binpb").code, 0);
  ASSERT_EQ(small("--from=tp2,dp2 --to=tp4 --out=same.binpb").code, 0);
  ASSERT_EQ(small("--from=tp2,dp2 --to=tp2 --out=b.binpb").code, 0);
  const json made = planned("--model=small.json --from=tp2,dp2 --to=tp4");
  const json shown = scalai("plan show a.binpb --format=json").parsed();
  for (const char* key : {"digest", "bytes", "transfers", "bytes_sent", "lower_bound_bytes"})
    EXPECT_EQ(shown[key], made[key]) << key;
  const json program = scalai("plan show a.binpb --device=1 --format=json").parsed();
  int64_t received = 0;
  for (const json& step : program["program"]) {
    if (step["step"] == "receive") received += step["bytes"].get<int64_t>();
  }
  EXPECT_EQ(received, made["bytes_received"][1]["bytes"]);
  EXPECT_TRUE(has(scalai("plan show a.binpb --explain=step").out, "stays in place"));

  const Outcome same = scalai("plan diff a.binpb same.binpb");
  EXPECT_EQ(same.code, 0);
  EXPECT_TRUE(has(same.out, "the same plan")) << same.out;
  const Outcome differ = scalai("plan diff a.binpb b.binpb");
  EXPECT_EQ(differ.code, 1);
  EXPECT_TRUE(has(differ.out, "tp4")) << differ.out;
  EXPECT_TRUE(has(differ.out, "layers.0.attention.qkv.weight")) << differ.out;
  const json table = scalai("plan diff a.binpb b.binpb --format=json").parsed();
  EXPECT_GT(table["tensors"].size(), 0u);
}

TEST_F(PlanCommand, RefusesWhatIsNoPlan) {
  EXPECT_EQ(scalai("plan show missing.binpb").code, 4);
  EXPECT_EQ(scalai("plan show small.json").code, 3);
  ASSERT_EQ(small("--from=dp1 --to=dp2 --out=a.binpb").code, 0);
  EXPECT_EQ(scalai("plan show a.binpb --device=7").code, 3);
  std::string bytes = read_all(folder_ / "a.binpb");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write("damaged.binpb", bytes);
  EXPECT_EQ(scalai("plan diff a.binpb damaged.binpb").code, 3);
}

// --- bad input --------------------------------------------------------------------------------------------------------

TEST_F(PlanCommand, MalformedValuesExitWithTwo) {
  for (const char* words :
       {"--from=tp2", "--to=tp2", "--from=tp2 --to=tpx", "--from=tp2 --to=tp2 --fail=a",
        "--from=tp2 --to=tp2 --devices=5-3", "--from=tp2 --to=tp2 --from-devices=0,0",
        "--from=tp2 --to=tp2 --gpus-per-host=0", "--from=tp2 --to=tp2 --strategy=magic",
        "--from=tp2 --to=tp2 --round-bytes=7", "--from=tp2 --to=tp2 --devices=0,,1", "--from=tp2 --to=tp2 --device=1",
        "show", "again", "--from=tp2 --to=tp2 --cluster=pair.textproto --gpus-per-host=4",
        "--from=tp2 --to=tp2 --placement=best", "--from=tp2 --to=tp2 --spread=room",
        "--from=tp2 --to=tp2 --spread=host --placement=identity",
        "--from=tp2 --to=tp2 --memory-cap=1MiB --round-bytes=1MiB", "--from=tp2 --to=tp2 --memory-cap=much"}) {
    const Outcome outcome = small(words);
    EXPECT_EQ(outcome.code, 2) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_TRUE(has(outcome.err, "error:")) << words;
  }
}

TEST_F(PlanCommand, WhatDoesNotFitExitsWithThree) {
  for (const char* words :
       {"--from=tp3 --to=tp2", "--from=tp2 --to=pp9", "--from=tp2 --to=tp2 --devices=0-2",
        "--from=tp2 --to=tp2 --fail=5", "--from=tp2 --to=dp1 --devices=0 --fail=0",
        "--from=tp2 --to=tp8,dp2 --cluster=pair.textproto",
        "--from=tp2 --to=tp2 --devices=7,8 --cluster=pair.textproto", "--from=tp2 --to=tp4 --strategy=dp-only",
        "--from=tp2 --to=tp2 --strategy=checkpoint-restart", "--from=tp2 --to=tp2 --cluster=small.json",
        "--from=tp2 --to=tp2 --strategy=tenplex --memory-cap=1MiB", "--from=dp2 --to=dp2 --spread=rack",
        "--from=dp2 --to=dp2 --spread=rack --cluster=pair.textproto"}) {
    const Outcome outcome = small(words);
    EXPECT_EQ(outcome.code, 3) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_TRUE(has(outcome.err, "error:")) << words;
  }
  EXPECT_EQ(scalai("plan --model=gpt9 --from=tp2 --to=tp2").code, 3);
  EXPECT_EQ(scalai("plan --model=absent.json --from=tp2 --to=tp2").code, 4);
}

TEST_F(PlanCommand, ReportsAllProblemsAtOnce) {
  const Outcome outcome = small("--from=tp3,pp9 --to=tp2,zero7 --fail=40 --devices=1,x --gpus-per-host=0");
  EXPECT_EQ(outcome.code, 2);
  for (const char* part : {"--from: tp3 does not divide", "9 pipeline stages", "--to:", "--fail: not among",
                           "--devices: at character 3", "--gpus-per-host"}) {
    EXPECT_TRUE(has(outcome.err, part)) << part << " in:\n" << outcome.err;
  }
}

}  // namespace
