// `scalai plan`: plans of small models whose answers are known. cases/plan.case has what it prints.

#include <map>
#include <set>

#include "nlohmann/json.hpp"
#include "tests/end_to_end.h"

namespace {

using nlohmann::json;
using namespace scalai::testing;

json parsed(const Outcome& outcome) { return json::parse(outcome.out, nullptr, /*allow_exceptions=*/false); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// In a folder with small models, a cluster, and collection files of a tensor over two and three parts.
class PlanCommand : public EndToEnd {
 protected:
  void SetUp() override {
    EndToEnd::SetUp();
    fs::copy(fs::path(SCALAI_SOURCE_DIR) / "tests/cases/inputs", folder_);
  }
  // An input with more lines at its end, as another file.
  void write(const std::string& name, const std::string& input, const std::string& more) const {
    write_all(folder_ / name, read_all(folder_ / input) + more);
  }
  Outcome scalai(const std::string& words) const {
    return shell(fmt::format("cd '{}' && '{}/scalai' {}", folder_.string(), kPrograms.string(), words));
  }
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
  write_all(folder_ / "slow.textproto",
            R"(name: "slow" hosts { count: 4 gpus: 1 gpu: "a100-80g" nics: 1 nic: "32B/s" })");
  EXPECT_NEAR(planned(change + "slow.textproto")["estimated_s"], 32 / (0.9 * 32.0), 1e-3) << "32 bytes into a host";
  EXPECT_NEAR(planned(change + "pair.textproto")["estimated_s"], 59e-6, 1e-6) << "latency, 2 peers, 3 boxes";
  EXPECT_TRUE(has(scalai("plan " + change + "pair.textproto").out, "predicted time        59.0 us (transfers alone"));
  write("hurt.textproto", "three.textproto", "residency { lost: \"2\" storage: true }");
  const std::string stored = "--from=hurt.textproto --to=two.textproto --cluster=";
  EXPECT_FALSE(planned(stored + "pair.textproto").contains("estimated_s")) << "nobody said how fast storage is";
  write("stored.textproto", "pair.textproto", "storage { read: \"4B/s\" }");
  EXPECT_NEAR(planned(stored + "stored.textproto")["estimated_s"], 32 / 4.0, 1e-3);
}

// Collections that no model describes.
TEST_F(PlanCommand, CollectionFilesTakeThePlaceOfModels) {
  const json plan = planned("--from=three.textproto --to=two.textproto");
  EXPECT_EQ(moved_bytes(plan), (2 + 4) * 2 * 4);
  EXPECT_EQ(plan["from"], "w over 3");
  write_all(folder_ / "json.json",
            R"({"meshes": [{}], "devices": "1", "tensors": [{"name": "w", "dtype": "BF16", "shape": [12, 2]}]})");
  EXPECT_EQ(moved_bytes(planned("--from=three.textproto --to=json.json")), 8 * 2 * 2) << "BF16 travels";
  write("copies.textproto", "three.textproto", "residency { lost: '0,2' copies { tensor: 'w' host: 3 } }");
  const json copied = planned("--from=copies.textproto --to=json.json --gpus-per-host=1");
  EXPECT_EQ(copied["hottest_link"]["name"], "h1.nic.down") << "from a host without devices of the job";
  EXPECT_EQ(copied["bytes"]["cross_host"], 8 * 2 * 2);
}

TEST_F(PlanCommand, RoundsAndStrategiesReachThePlanner) {
  EXPECT_EQ(planned("--model=small.json --from=dp1 --to=dp2")["rounds"], 1);
  EXPECT_GT(planned("--model=small.json --from=tp2 --to=pp2 --memory-cap=1MiB")["rounds"], 1);
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
  write("racks.textproto", "pair.textproto", "rack_hosts: 1");
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
  const Outcome outcome = scalai("plan --model=small.json --format=json --out=plan.binpb " + change);
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
  EXPECT_GT(planned("--model=small.json " + change + " --storage")["bytes"]["from_storage"], 0);
}

TEST_F(PlanCommand, GrowingDp2ToDp6) {
  const json plan = planned("--model=small.json --from=dp2 --to=dp6");
  const int64_t model = state_bytes("small.json");
  EXPECT_EQ(total(plan["bytes_received"]), 4 * model);
  EXPECT_LE(most(plan["bytes_sent"]), 2 * model + model / 10) << "two senders share the work";
}

}  // namespace
