// Plans are the same wherever and whenever they are made: in one process twice, on several threads at once, on any
// machine and in any build. The last is what the fixed digests at the end are for.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "ptc/plan/placement.h"
#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"

namespace scalai::plan {
namespace digest_test {

using collection::Collection;
using collection::MegatronOptions;

constexpr std::string_view kTinyGpt =
    R"({"architectures": ["GPT2LMHeadModel"], "n_layer": 4, "n_embd": 16, "n_head": 4, "n_positions": 8,
        "vocab_size": 300})";

Collection tiny_gpt(std::string_view layout, int first_device, const MegatronOptions& options = {}) {
  const auto config = collection::parse_layout(layout).value();
  return collection::megatron_collection(store::model_of_config(kTinyGpt, "tiny").value(),
                                         {.param = tensor::DType::kBF16}, config,
                                         first_devices(config.world(), first_device), options)
      .value();
}

// A job, and the devices that its ranks are placed on before it is planned.
struct NamedCase {
  std::string name;
  Case job;
  std::vector<DeviceId> candidates;
};

Case with(Case job, PlannerOptions options, PlacementOptions placement = {}) {
  job.options = std::move(options);
  job.placement = placement;
  return job;
}

std::vector<NamedCase> cases() {
  const Case grid{.from = grid_collection({2, 2, 2}, first_devices(8)),
                  .to = grid_collection({3, 2, 2}, first_devices(12))};
  Case lossy = grid;
  lossy.residency = {.lost = {DeviceId(1), DeviceId(6)},
                     .extra = {{TensorId(0), tensor::Box({0, 0}, {12, 2}), HostId(2)}}};
  const MegatronOptions buckets{.distributed_optimizer_buckets = true};
  const Case gpt{.from = tiny_gpt("tp2,pp2,dp2,zero1", 0), .to = tiny_gpt("tp4,dp3,zero1", 2)};
  const Case gpt_buckets{.from = tiny_gpt("tp2,pp2,dp2,zero1", 0, buckets),
                         .to = tiny_gpt("tp4,dp3,zero1", 2, buckets)};
  const std::vector<DeviceId> all = first_devices(16);
  return {{"plain", grid, {}},
          {"memory cap", with(grid, {.memory_cap = 300}), {}},
          {"rounds", with(grid, {.round_bytes = 100}), {}},
          {"free placement", with(grid, {}, {.rule = PlacementRule::kFree}), all},
          {"spread over hosts", with(grid, {}, {.rule = PlacementRule::kHosts, .spread = SpreadRule::kHost}), all},
          {"losses and copies", lossy, {}},
          {"out of place", with(grid, {.in_place = false, .sources = SourceRule::kFirstReplica}), {}},
          {"derived parameters", with(gpt, {.derive_params = true}), {}},
          {"all at once",
           with(gpt_buckets, {.memory_cap = 16 << 10, .derive_params = true}, {.rule = PlacementRule::kFree}), all}};
}

Plan planned(const NamedCase& one) {
  Case job = one.job;
  if (!one.candidates.empty()) {
    job.to.device_of_rank.assign(one.candidates.begin(), one.candidates.begin() + job.to.ranks());
    job.to.device_of_rank = place(job.input(), job.placement, one.candidates);
  }
  return make_plan(job.input()).value();
}

TEST(PlanDigest, TwoRunsAgree) {
  for (const NamedCase& one : cases()) {
    SCOPED_TRACE(one.name);
    const Plan first = planned(one), second = planned(one);
    EXPECT_EQ(first.digest(), second.digest());
    EXPECT_EQ(first.digest(), seal(second.draft()).digest());
    EXPECT_EQ(first.operations(), second.operations());
    EXPECT_EQ(first.memory(), second.memory());
  }
}

TEST(PlanDigest, CasesDiffer) {
  std::set<std::string> digests;
  for (const NamedCase& one : cases()) EXPECT_TRUE(digests.insert(planned(one).digest()).second) << one.name;
}

// Both threads plan from the very same collections.
TEST(PlanDigest, ThreadsThatPlanAtTheSameTimeAgree) {
  constexpr int kThreads = 2, kTimes = 5;
  for (const NamedCase& one : cases()) {
    SCOPED_TRACE(one.name);
    const std::string expected = planned(one).digest();
    std::atomic<int> waiting = kThreads;
    std::vector<std::vector<std::string>> digests(kThreads);
    std::vector<std::thread> threads;
    for (std::vector<std::string>& mine : digests) {
      threads.emplace_back([&one, &waiting, &mine] {
        for (--waiting; waiting > 0;) std::this_thread::yield();
        for (int i = 0; i < kTimes; ++i) mine.push_back(planned(one).digest());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& mine : digests) EXPECT_EQ(mine, std::vector<std::string>(kTimes, expected));
  }
}

// --- Fixed digests ---------------------------------------------------------------------------------------------------

// Written out by hand, so that only the encoding or the digest itself can change this one: then Plan::kSchemaVersion
// goes up by one.
TEST(PlanDigest, OfAPlanByHandIsFixed) {
  PlanDraft plan{.planner = "hand", .from = "old", .to = "new"};
  plan.from_epoch = 3;
  plan.to_epoch = 4;
  plan.tensors = {{"w", tensor::DType::kBF16, tensor::DType::kF32, {8, 3}, TensorId(1)},
                  {"w.master", tensor::DType::kF32, tensor::DType::kF32, {8, 3}, TensorId()}};
  plan.src_devices = devices({0, 5});
  plan.dst_devices = devices({5, 7});
  plan.rounds = 2;
  plan.memory_cap = 1000;
  plan.tensor_sets = {{TensorId(0)}, {TensorId(0), TensorId(1)}};
  const Leg send{.transfer_class = TransferClass::kCrossHost,
                 .hop = 1,
                 .src = Location::host_memory(HostId(2)),
                 .dst = DeviceId(7)};
  const Leg load{.transfer_class = TransferClass::kFromStorage, .src = Location::storage(), .dst = DeviceId(5)};
  plan.patterns.add(std::vector<Leg>{send, load}, devices({0}));
  plan.patterns.add(std::vector<Leg>{load}, {});
  plan.instances = {{0, 1, 0, tensor::Box({0, 0}, {4, 3})}, {1, 0, 1, tensor::Box({4, 1}, {8, 3})}};
  plan.missing = {{TensorId(1), tensor::Box({0, 0}, {1, 3})}};
  plan.bytes = {.kept = 1, .same_device = 2, .derived = 3, .same_host = 4, .cross_host = 5, .from_storage = 6};
  plan.lower_bound = {.kept = 7, .same_device = 8, .derived = 9, .same_host = 10, .cross_host = 11, .from_storage = 12};
  plan.lower_bound_any_placement_cross_host = 13;
  plan.survives_host_losses = 1;
  plan.memory = {{DeviceId(5), 100, 200, 30}, {DeviceId(7), 0, 150, 0}};
  EXPECT_EQ(seal(plan).digest(), "fb568968fc8d7fb56e83bb9a79afa0e7");
}

// These follow from the planner, too. A change of what it decides changes them, and should be meant.
TEST(PlanDigest, OfPlannedCasesIsFixed) {
  const std::vector<NamedCase> list = cases();
  const auto digest_named = [&](const std::string& name) {
    for (const NamedCase& one : list) {
      if (one.name == name) return planned(one).digest();
    }
    return "no case " + name;
  };
  EXPECT_EQ(digest_named("plain"), "89285191526a519ca203bb3dc81ef6be");
  EXPECT_EQ(digest_named("memory cap"), "12885bb40f6e583d62406dcd1edb1cbe");
  EXPECT_EQ(digest_named("all at once"), "38de50ace46d18e2b4b2810b408e54c2");
}

}  // namespace digest_test
}  // namespace scalai::plan
