// `scalai plan` as its users run it: the real program, small models, known answers.

#include <map>
#include <set>

#include "apps/plan/testing/plan.h"
#include "nlohmann/json.hpp"

namespace {

using nlohmann::json;
using namespace scalai::testing;

json parsed(const Outcome& outcome) { return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false); }

class PlanCommand : public PlanProgram {
 protected:
  json planned(const std::string& words) const {
    const Outcome outcome = scalai("plan --check --format=json " + words);
    EXPECT_EQ(outcome.code, 0) << words << "\n" << outcome.err;
    EXPECT_TRUE(parsed(outcome).contains("check")) << words;
    return parsed(outcome);
  }
  // Elements of one tensor that travel between devices, by receiving device.
  std::map<int, int64_t> moved(const std::string& tensor, const std::string& words) const {
    std::map<int, int64_t> sums;
    const json plan = planned(words + " --tensor=" + tensor);
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
    const json listed = parsed(scalai("models " + model + " --format=json"));
    for (const json& tensor : listed["tensors"]) {
      if (tensor["name"].get<std::string>().find(part) != std::string::npos) bytes += tensor["bytes"].get<int64_t>();
    }
    return bytes;
  }
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

// Sorted, one after the other.
std::string keys_of(const json& object) {
  std::string keys;
  for (const auto& [key, value] : object.items()) keys += (keys.empty() ? "" : " ") + key;
  return keys;
}

using Sums = std::map<int, int64_t>;

// --- what it prints --------------------------------------------------------------------------------------------------

TEST_F(PlanCommand, JsonHasItsKeys) {
  const json plan = planned("--model=small.json --from=tp2,pp2,dp2 --to=tp4,pp1,dp1 --gpus-per-host=4");
  const std::string classes = "cross_host derived from_storage kept same_device same_host";
  EXPECT_EQ(keys_of(plan),
            "bytes bytes_received bytes_sent check devices digest from hottest_link infeasible infeasible_count "
            "lower_bound_any_placement lower_bound_bytes memory_cap_bytes model peak_extra_bytes planner planning_s "
            "rounds survives_host_losses tensors to transfers");
  EXPECT_EQ(keys_of(plan["bytes"]), classes);
  EXPECT_EQ(keys_of(plan["lower_bound_bytes"]), classes);
  EXPECT_EQ(keys_of(plan["hottest_link"]), "bytes name optimum_bytes");
  EXPECT_EQ(keys_of(plan["check"]), "all devices operations tensors");
  EXPECT_TRUE(plan["check"]["all"]) << "each tensor one by one";
  EXPECT_EQ(plan["check"]["tensors"], plan["tensors"]);
  EXPECT_EQ(plan["devices"], 8);
  EXPECT_EQ(plan["bytes_received"].size(), 8u);
  EXPECT_EQ(total(plan["bytes_received"]), moved_bytes(plan));
  EXPECT_EQ(total(plan["bytes_sent"]), moved_bytes(plan));
  EXPECT_EQ(total(plan["peak_extra_bytes"]), moved_bytes(plan) + plan["bytes"]["same_device"].get<int64_t>());
  EXPECT_GE(plan["hottest_link"]["bytes"], plan["hottest_link"]["optimum_bytes"]);
  EXPECT_TRUE(has(plan["hottest_link"]["name"], ".nic.")) << plan["hottest_link"];
}

TEST_F(PlanCommand, OnlyThePlanningTimeDiffersBetweenRuns) {
  std::vector<json> plans(2);
  for (json& plan : plans) {
    plan = planned("--model=small.json --from=tp2,dp4 --to=tp4,dp1");
    EXPECT_EQ(plan.erase("planning_s"), 1u);
  }
  EXPECT_EQ(plans[0], plans[1]);
}

TEST_F(PlanCommand, TheTableFitsOneScreen) {
  const Outcome outcome = small("--from=tp2,pp2,dp2 --to=tp4 --check");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(has(outcome.out, "between hosts")) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "checked: every element right, exactly once (")) << outcome.out;
  EXPECT_LE(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 24);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(PlanCommand, CsvHasALineADevice) {
  const Outcome outcome = small("--from=dp2 --to=dp4 --format=csv");
  EXPECT_TRUE(outcome.out.starts_with("device,received_bytes,sent_bytes,peak_extra_bytes\n0,0,")) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 5);
}

TEST_F(PlanCommand, TheExampleOfTheHelpIsPlanned) {
  EXPECT_TRUE(has(scalai("plan --help").out, "scalai plan --model=llama3-70b --from=tp8,pp4,dp2 --to=tp4,pp8,dp1"));
  const json plan = parsed(scalai("plan --model=llama3-70b --from=tp8,pp4,dp2 --to=tp4,pp8,dp1 --format=json"));
  EXPECT_EQ(plan["devices"], 64);
  EXPECT_GT(plan["transfers"], 0);
  EXPECT_EQ(plan["infeasible_count"], 0);
}

TEST_F(PlanCommand, SixteenThousandDevices) {
  const json plan = planned(
      "--model=llama3-405b --from=tp8,pp16,dp128,zero1 --to=tp8,pp16,dp96,zero1 --gpus-per-host=8 --precision=bf16");
  EXPECT_EQ(plan["devices"], 16384);
  EXPECT_EQ(plan["bytes"], plan["lower_bound_bytes"]);
  EXPECT_EQ(plan["hottest_link"]["bytes"], plan["hottest_link"]["optimum_bytes"]);
  EXPECT_FALSE(plan["check"]["all"]) << "tensors that lie alike are looked at once";
  EXPECT_GT(plan["check"]["operations"], plan["transfers"]);
  EXPECT_EQ(plan["check"]["devices"], 64);
}

TEST_F(PlanCommand, TheClusterFileSaysWhereDevicesAre) {
  const json pair = planned("--model=small.json --from=dp1 --to=dp1 --devices=4 --cluster=pair.textproto");
  EXPECT_EQ(pair["bytes"]["cross_host"], state_bytes("small.json"));
  EXPECT_EQ(pair["hottest_link"]["optimum_bytes"], state_bytes("small.json"));
  const json one = planned("--model=small.json --from=dp1 --to=dp1 --devices=4");
  EXPECT_EQ(one["bytes"]["cross_host"], 0);
  EXPECT_EQ(one["bytes"]["same_host"], state_bytes("small.json"));
}

TEST_F(PlanCommand, WithRatesTheTimeIsPredicted) {
  const std::string change = "--from=three.textproto --to=two.textproto --cluster=";
  write("slow.textproto", R"(name: "slow" hosts { count: 4 gpus: 1 gpu: "a100-80g" nics: 1 nic: "32B/s" })");
  EXPECT_NEAR(planned(change + "slow.textproto")["estimated_s"], 32 / (0.9 * 32.0), 1e-3) << "32 bytes into a host";
  EXPECT_NEAR(planned(change + "pair.textproto")["estimated_s"], 59e-6, 1e-6) << "latency, 2 peers, 3 boxes";
  EXPECT_TRUE(has(scalai("plan " + change + "pair.textproto").out, "predicted time        59.0 us (transfers alone"));
  write("hurt.textproto", parts_of_w(3, "residency { lost: \"2\" storage: true }"));
  const std::string stored = "--from=hurt.textproto --to=two.textproto --cluster=";
  EXPECT_FALSE(planned(stored + "pair.textproto").contains("estimated_s")) << "nobody said how fast storage is";
  write("stored.textproto", std::string(kCluster) + "storage { read: \"4B/s\" }");
  EXPECT_NEAR(planned(stored + "stored.textproto")["estimated_s"], 32 / 4.0, 1e-3);
}

// Collections that no model describes.
TEST_F(PlanCommand, CollectionFilesTakeThePlaceOfModels) {
  const json plan = planned("--from=three.textproto --to=two.textproto");
  EXPECT_EQ(moved_bytes(plan), (2 + 4) * 2 * 4);
  EXPECT_EQ(plan["from"], "w over 3");
  write("json.json",
        R"({"meshes": [{}], "devices": "1", "tensors": [{"name": "w", "dtype": "BF16", "shape": [12, 2]}]})");
  EXPECT_EQ(moved_bytes(planned("--from=three.textproto --to=json.json")), 8 * 2 * 2) << "BF16 travels";
  write("copies.textproto", parts_of_w(3, "residency { lost: '0,2' copies { tensor: 'w' host: 3 } }"));
  const json copied = planned("--from=copies.textproto --to=json.json --gpus-per-host=1");
  EXPECT_EQ(copied["hottest_link"]["name"], "h1.nic.down") << "from a host without devices of the job";
  EXPECT_EQ(copied["bytes"]["cross_host"], 8 * 2 * 2);
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

// --- known answers ---------------------------------------------------------------------------------------------------

TEST_F(PlanCommand, IdentityMovesNothingAndStrangersGetAll) {
  const std::string same = "--model=small.json --from=tp2,pp2,dp2 --to=tp2,pp2,dp2 ";
  const json identity = planned(same);
  for (const json& each : {identity, planned(same + "--devices=8-15,0-7")}) EXPECT_EQ(each["transfers"], 0);
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
  std::set<std::string> layers;
  const json plan = parsed(outcome);
  for (const json& lost : plan["infeasible"]) {
    const std::string name = lost["tensor"];
    if (name.starts_with("layers.")) layers.insert(name.substr(7, 1));
    if (name == "layers.2.mlp.up.weight") {
      EXPECT_EQ(lost["box"], (json{{512, 1024}, {0, 64}})) << "tp half 1";
    }
  }
  EXPECT_EQ(layers, (std::set<std::string>{"2", "3"}));
  const Outcome table = expect_refused("--model=small.json " + change, 3, "layers 2 to 3: 48 boxes of");
  EXPECT_EQ(std::count(table.err.begin(), table.err.end(), '\n'), 2) << "one error, and the layers in one line";
  EXPECT_GT(planned("--model=small.json " + change + " --storage")["bytes"]["from_storage"], 0);
}

TEST_F(PlanCommand, GrowingDp2ToDp6) {
  const json plan = planned("--model=small.json --from=dp2 --to=dp6");
  const int64_t model = state_bytes("small.json");
  EXPECT_EQ(total(plan["bytes_received"]), 4 * model);
  EXPECT_LE(most(plan["bytes_sent"]), 2 * model + model / 10) << "two senders share the work";
}

// --- explain, show, diff ---------------------------------------------------------------------------------------------

TEST_F(PlanCommand, ExplainSaysWhereEachPieceComesFrom) {
  const Outcome outcome = small("--from=tp4 --to=tp2 --gpus-per-host=2 --tensor=layers.0.mlp.up.weight");
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"layers.0.mlp.up.weight F16 [1024, 64]: tp4 → tp2", "copied on the device",
                           "inside the host", "over the network"})
    EXPECT_TRUE(has(outcome.out, part)) << part << "\n" << outcome.out;
  EXPECT_TRUE(has(small("--from=tp2 --to=tp2 --tensor=step").out, "stays in place"));
}

TEST_F(PlanCommand, ExplainSuggestsNames) {
  const std::string change = "--model=small.json --from=tp2 --to=tp2 ";
  expect_refused(change + "--tensor=layers.0.mlp.up.wieght", 3, "did you mean layers.0.mlp.up.weight");
  expect_refused(change + "--tensor=down", 3, "layers.0.mlp.down.weight");
}

TEST_F(PlanCommand, WritesShowsAndComparesPlans) {
  ASSERT_EQ(small("--from=tp2,dp2 --to=tp4 --out=a.binpb").code, 0);
  ASSERT_EQ(small("--from=tp2,dp2 --to=tp4 --out=same.binpb").code, 0);
  ASSERT_EQ(small("--from=tp2,dp2 --to=tp2 --out=b.binpb").code, 0);
  const json made = planned("--model=small.json --from=tp2,dp2 --to=tp4");
  const json shown = parsed(scalai("plan show a.binpb --format=json"));
  for (const char* key : {"digest", "bytes", "transfers", "bytes_sent", "lower_bound_bytes"})
    EXPECT_EQ(shown[key], made[key]) << key;
  const json program = parsed(scalai("plan show a.binpb --device=1 --format=json"));
  int64_t received = 0;
  for (const json& step : program["program"]) {
    if (step["step"] == "receive") received += step["bytes"].get<int64_t>();
  }
  EXPECT_EQ(received, made["bytes_received"][1]["bytes"]);
  EXPECT_TRUE(has(scalai("plan show a.binpb --tensor=step").out, "stays in place"));

  const Outcome same = scalai("plan diff a.binpb same.binpb");
  EXPECT_EQ(same.code, 0);
  EXPECT_TRUE(has(same.out, "the same plan")) << same.out;
  EXPECT_EQ(parsed(scalai("plan diff a.binpb same.binpb --format=json"))["tensors"], json::array());
  const Outcome differ = scalai("plan diff a.binpb b.binpb");
  EXPECT_EQ(differ.code, 1);
  for (const char* part : {"tp4", "layers.0.attention.qkv.weight"}) EXPECT_TRUE(has(differ.out, part)) << differ.out;
  const json table = parsed(scalai("plan diff a.binpb b.binpb --format=json"));
  EXPECT_GT(table["tensors"].size(), 0u);
}

TEST_F(PlanCommand, RefusesWhatIsNoPlan) {
  expect_refused("show missing.binpb", 4, "missing.binpb");
  expect_refused("show small.json", 3, "small.json: ");
  ASSERT_EQ(small("--from=dp1 --to=dp2 --out=a.binpb").code, 0);
  expect_refused("show a.binpb --device=7", 3, "no device 7");
  std::string bytes = read_all(folder_ / "a.binpb");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write("damaged.binpb", bytes);
  expect_refused("diff a.binpb damaged.binpb", 3, "damaged.binpb: ");
}

// --- bad input -------------------------------------------------------------------------------------------------------

TEST_F(PlanCommand, MalformedValuesExitWithTwo) {
  for (const char* words :
       {"--from=tp2", "--to=tp2", "--from=tp2 --to=tpx", "--from=tp2 --to=tp2 --fail=a",
        "--from=tp2 --to=tp2 --devices=5-3", "--from=tp2 --to=tp2 --from-devices=0,0",
        "--from=tp2 --to=tp2 --gpus-per-host=0", "--from=tp2 --to=tp2 --strategy=magic",
        "--from=tp2 --to=tp2 --round-bytes=7", "--from=tp2 --to=tp2 --devices=0,,1", "--from=tp2 --to=tp2 --device=1",
        "show", "again", "--from=tp2 --to=tp2 --cluster=pair.textproto --gpus-per-host=4",
        "--from=tp2 --to=tp2 --placement=best", "--from=tp2 --to=tp2 --spread=room",
        "--from=tp2 --to=tp2 --spread=host --placement=identity",
        "--from=tp2 --to=tp2 --memory-cap=1MiB --round-bytes=1MiB", "--from=tp2 --to=tp2 --memory-cap=much"})
    expect_refused(fmt::format("--model=small.json {}", words), 2, "error:");
}

TEST_F(PlanCommand, WhatDoesNotFitExitsWithThree) {
  for (const char* words :
       {"--from=tp3 --to=tp2", "--from=tp2 --to=pp9", "--from=tp2 --to=tp4 --devices=0-2",
        "--from=tp2 --to=tp2 --fail=5", "--from=tp2 --to=dp1 --devices=0 --fail=0",
        "--from=tp2 --to=tp8,dp2 --cluster=pair.textproto",
        "--from=tp2 --to=tp2 --devices=7,8 --cluster=pair.textproto", "--from=tp2 --to=tp4 --strategy=dp-only",
        "--from=tp2 --to=tp2 --strategy=checkpoint-restart", "--from=tp2 --to=tp2 --cluster=small.json",
        "--from=tp2 --to=tp2 --strategy=tenplex --memory-cap=1MiB", "--from=dp2 --to=dp2 --spread=rack",
        "--from=dp2 --to=dp2 --spread=rack --cluster=pair.textproto", "--from=three.textproto --to=dp1",
        "--from=tp2 --to=two.textproto"})
    expect_refused(fmt::format("--model=small.json {}", words), 3, "error:");
  expect_refused("--model=gpt9 --from=tp2 --to=tp2", 3, "gpt9");
  expect_refused("--model=absent.json --from=tp2 --to=tp2", 4, "absent.json");
}

// What is asked for and could change nothing, or cannot be taken as meant.
TEST_F(PlanCommand, OptionsWithoutEffectAreRefusedWithAHint) {
  write("copies.textproto", parts_of_w(3, "residency { copies { tensor: \"w\" host: 2 } }"));
  write("later.textproto", "epoch: 7 " + parts_of_w(3));
  write("earlier.textproto", "epoch: 6 " + parts_of_w(2));
  const std::string files = "--from=three.textproto --to=two.textproto ",
                    model = "--model=small.json --from=tp2 --to=tp4 ";
  for (const auto& [words, part] : std::vector<std::pair<std::string, std::string>>{
           {files + "--precision=fp32", "--precision: both sides are files"},
           {files + "--optimizer=adam", "--optimizer: both sides are files"},
           {files + "--model=gpt2", "--model: both sides are files"},
           {files + "--devices=4,5", "two.textproto says itself which devices"},
           {files + "--strategy=dp-only", "--strategy=dp-only: a collection file does not say"},
           {files + "--spread=host", "--spread=host: the new state has one data-parallel replica"},
           {files + "--derive-params", "no parameter has a master"},
           {model + "--derive-params --precision=fp32", "no parameter has a master"},
           {model + "--derive-params --strategy=tenplex", "--strategy=tenplex pulls all state"},
           {model + "--spread=host", "give --to a larger dp"},
           {"--model=small.json --from=dp8 --to=dp2048 --placement=free", "use --placement=hosts"},
           {"--from=copies.textproto --to=two.textproto --cluster=pair.textproto",
            "tensor \"w\" box [0:12, 0:2] has a copy"},
           {"--from=later.textproto --to=earlier.textproto", "earlier.textproto is of epoch 6"}})
    expect_refused(words, 3, part);
  expect_refused("--from=three.textproto --to=dp1", 2, "--model is missing");
  expect_refused("--from=none.textproto --to=two.textproto", 4, "none.textproto");
  for (const char* words : {"show a.binpb --precision=bf16", "show a.binpb --check", "diff a.binpb b.binpb --device=1"})
    expect_refused(words, 2, "does not go with");
}

// Refuse rather than guess: one error that names tensor and box, with its place in a file; and nothing is written.
struct Refusal {
  std::string name, to, place, message, words = "--from=three.textproto";
  friend void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.words; }
};

std::vector<Refusal> refusals() {
  const auto rule = [](const std::string& text) { return parts_of_w(2, "", "12, 2", "rule: " + text); };
  std::string swapped = parts_of_w(2);
  const auto and_also = [](const std::string& lines) { return parts_of_w(2, lines); };
  const std::string stage = "tensors { name: 'layers.0' dtype: 'F32' shape: 2 pins { axis: 'x' at: ";
  const std::string at_2 = "to.textproto:2:49: error: tensor \"w\" ", none = "scalai plan: error: ";
  return {{"Gap", rule("EXPLICIT bounds: [0, 4, 10]"), at_2, "no part holds [10:12, 0:2]"},
          {"Overlap", rule("EXPLICIT bounds: [0, 12, 8]"), at_2, "two parts hold [8:12, 0:2]"},
          {"StageLocalNames", and_also(stage + "0 } }\n" + stage + "1 } }"),
           "to.textproto:4:17: error: ", "two tensors are named \"layers.0\""},
          {"SizesThatDoNotAddUp", parts_of_w(2, "", "13, 2"), at_2, "[13, 2]: cut over x: 13 does not divide by 2"},
          {"AnotherShape", parts_of_w(2, "", "12, 3"), none, "tensor \"w\" is F32 [12, 2] in the old collection"},
          {"UnknownConvention", rule("ZIGZAG"), "to.textproto:2:79: error: ", "\"rule\" takes one of EVEN, BALANCED"},
          {"ResidencyOfTheNewState", and_also("residency {}"), "to.textproto:3:1: error: ", "has no residency"},
          {"CapTooSmall", swapped.replace(swapped.find("0-1"), 3, "1,0"), none,
           "the smallest cap found to work is 4 bytes", "--from=two.textproto --memory-cap=0B"},
          {"NoHolder", parts_of_w(2), "scalai plan: error: ", "tensor \"w\" box [8:12, 0:2] has no surviving holder",
           "--from=hurt.textproto"}};
}

class Refused : public PlanCommand, public ::testing::WithParamInterface<Refusal> {};

TEST_P(Refused, WithOneErrorAndNothingWritten) {
  write("to.textproto", GetParam().to);
  write("hurt.textproto", parts_of_w(3, "residency { lost: '2' }"));
  const Outcome outcome =
      expect_refused("--to=to.textproto --check --out=plan.binpb " + GetParam().words, 3, GetParam().message);
  EXPECT_TRUE(outcome.err.starts_with(GetParam().place)) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: "), outcome.err.rfind("error: ")) << outcome.err;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_))
    EXPECT_FALSE(has(entry.path().filename(), "plan.binpb")) << entry.path();
}

INSTANTIATE_TEST_SUITE_P(Plans, Refused, ::testing::ValuesIn(refusals()),
                         [](const auto& one) { return one.param.name; });

TEST_F(PlanCommand, ReportsAllProblemsAtOnce) {
  const Outcome outcome = small("--from=tp3,pp9 --to=tp2,zero7 --fail=40 --devices=1,x --gpus-per-host=0");
  EXPECT_EQ(outcome.code, 2);
  for (const char* part : {"--from: tp3 does not divide", "9 pipeline stages", "--to:", "--fail: not among",
                           "--devices: at character 3", "--gpus-per-host"}) {
    EXPECT_TRUE(has(outcome.err, part)) << part << " in:\n" << outcome.err;
  }
}

}  // namespace
