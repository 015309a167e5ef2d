#include "executor/worker/execution.h"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "executor/worker/testing/support.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/model.h"

namespace scalai::executor::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// One random change of layout, and how it is done.
enum class Way : uint8_t { kPlain, kRounds, kCapped, kDerived, kStaged, kHub, kStorage, kRestored };
constexpr std::array<const char*, 8> kWays = {"plain",  "rounds", "capped",  "derived",
                                              "staged", "hub",    "storage", "restored"};

struct Change {
  plan::Case job;
  plan::Plan plan;
};

// Four layers of a column, a row and a norm; parameters in BF16 with F32 masters and moments.
Collection megatron(const plan::Sizes& sizes, int zero, std::vector<DeviceId> devices) {
  using model::Param;
  model::Model model{.name = "tiny", .family = "gpt", .layers = 4, .hidden = 8, .heads = 4, .kv_heads = 4, .ffn = 16};
  model.vocab = 130;
  model.params.push_back(
      {.name = "embedding", .shape = {130, 8}, .rule = model::TpRule::kVocab, .layer = Param::kBothEnds});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    model.params.push_back({.name = name + ".up", .shape = {16, 8}, .rule = model::TpRule::kColumn, .layer = layer});
    model.params.push_back({.name = name + ".down", .shape = {8, 16}, .rule = model::TpRule::kRow, .layer = layer});
    model.params.push_back({.name = name + ".norm", .shape = {8}, .layer = layer});
  }
  const collection::ParallelConfig config{.tp = sizes.tp, .pp = sizes.pp, .dp = sizes.dp, .zero = zero};
  return state::value_or_die(megatron_collection(model, {.param = tensor::DType::kBF16}, config, std::move(devices)));
}

plan::Sizes sizes_that_fit(Random& random) {
  plan::Sizes sizes;
  do sizes = plan::random_sizes(random, 4);
  while (sizes.tp == 3);
  return sizes;
}

// The smallest of some caps that an order of the boxes keeps.
absl::StatusOr<plan::Plan> plan_of(plan::Case& job, Way way) {
  while (true) {
    absl::StatusOr<plan::Plan> plan = make_plan(job.input());
    if (way != Way::kCapped || plan.ok() || job.options.memory_cap >= 4096) return plan;
    job.options.memory_cap = job.options.memory_cap * 2 + 16;
  }
}

Change random_change(Random& random, Way way, const Collection* from, bool with_masters) {
  const auto side = [&] {
    const plan::Sizes sizes = sizes_that_fit(random);
    const std::vector<DeviceId> devices = plan::random_devices(random, sizes.world(), 4);
    return with_masters ? megatron(sizes, static_cast<int>(random.below(3)), devices)
                        : plan::grid_collection(sizes, devices);
  };
  plan::Case job{.from = from == nullptr ? side() : *from, .to = side(), .cluster = plan::cluster_of(2, 2)};
  if (from == nullptr) job.from.epoch = 7;
  job.to.epoch = job.from.epoch + 1;
  if (way == Way::kRounds) job.options.round_bytes = random.between(1, 400);
  if (way == Way::kCapped) job.options.memory_cap = 0;
  job.options.derive_params = way == Way::kDerived;
  job.options.in_place = way != Way::kStaged && way != Way::kHub;
  if (way == Way::kHub) job.options.hub = HostId(random.below(2));
  if (way == Way::kStorage) {
    job.residency.storage = true;
    job.options.sources = plan::SourceRule::kStorage;
  }
  if (way == Way::kRestored) {  // read once, and passed on
    job.residency.storage = true;
    job.residency.lost.insert(job.from.device_of_rank.begin(), job.from.device_of_rank.end());
  }
  plan::Plan plan = state::value_or_die(plan_of(job, way));
  return {.job = std::move(job), .plan = std::move(plan)};
}

// What workers report is what the plan says; kept boxes are not reported.
void expect_bytes(const plan::ClassBytes& seen, const plan::ClassBytes& planned) {
  EXPECT_EQ(seen.same_device, planned.same_device);
  EXPECT_EQ(seen.derived, planned.derived);
  EXPECT_EQ(seen.same_host, planned.same_host);
  EXPECT_EQ(seen.cross_host, planned.cross_host);
  EXPECT_EQ(seen.from_storage, planned.from_storage);
  EXPECT_EQ(seen.kept, 0);
}

class RandomChanges : public testing::TestWithParam<Way> {};

// Chains of three changes with training in between.
TEST_P(RandomChanges, EndWithTheRightState) {
  const Way way = GetParam();
  int64_t done = 0, freed = 0, passed_on = 0;
  const uint64_t seeds = way == Way::kCapped ? 5 : 15;  // a cap makes hundreds of rounds
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << kWays[static_cast<size_t>(way)]);
    Random random(seed * 977 + static_cast<uint64_t>(way));
    const bool with_masters = way == Way::kDerived || random.below(2) == 0;
    const auto reach = static_cast<Reach>(seed % 5);
    SCOPED_TRACE(testing::Message() << "reach " << static_cast<int>(reach));
    SmallCluster cluster({.reach = reach});
    Collection now;
    for (int64_t i = 0; i < 3; ++i) {
      const Change change = random_change(random, way, i == 0 ? nullptr : &now, with_masters);
      if (i == 0) cluster.create(change.job.from, 100);
      if (i != 0) cluster.advance(change.job.from, 100 + i);
      ASSERT_THAT(cluster.verify(change.job.from, 100 + i), IsEmpty());
      if (!change.job.options.in_place) cluster.stage(change.job.from, change.job.options.hub, kSnapshot);
      expect_bytes(cluster.change(change.plan, change.job.to, 100 + i), change.plan.bytes());
      ASSERT_THAT(cluster.verify(change.job.to, 100 + i), IsEmpty());
      cluster.commit(change.job.to.epoch);
      ASSERT_THAT(cluster.verify(change.job.to, 100 + i), IsEmpty());
      now = change.job.to;
      const plan::ClassBytes& bytes = change.plan.bytes();
      done += way == Way::kDerived ? bytes.derived : bytes.moved() + bytes.from_storage;
      passed_on += bytes.moved();
      for (const plan::Instance& instance : change.plan.instances())
        freed += static_cast<int64_t>(change.plan.patterns().frees(instance.pattern).size());
    }
    if (cluster.has_nccl() && way != Way::kStaged && way != Way::kHub) {
      EXPECT_EQ(cluster.fetches(), 0) << "nothing went another way";
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(done, 1000);
  if (way == Way::kRestored) {
    EXPECT_GT(passed_on, 1000);
  }
  if (way == Way::kCapped) {
    EXPECT_GT(freed, 1000);
  }
}

INSTANTIATE_TEST_SUITE_P(Execution, RandomChanges,
                         testing::Values(Way::kPlain, Way::kRounds, Way::kCapped, Way::kDerived, Way::kStaged,
                                         Way::kHub, Way::kStorage, Way::kRestored),
                         [](const auto& way) { return kWays[static_cast<size_t>(way.param)]; });

// A tensor in two halves that change places: each device would hold twice its half. Under a cap it holds what the plan
// says and the store's own pages, and its store would refuse more.
TEST(Execution, AMemoryCapIsKept) {
  constexpr int64_t kHalf = int64_t{4} << 20, kCap = int64_t{512} << 10, kPages = int64_t{256} << 10;
  plan::Case job{.from = plan::one_tensor({2 * kHalf / 4}, plan::cut_over("x", 0), plan::devices({0, 2})),
                 .to = plan::one_tensor({2 * kHalf / 4}, plan::cut_over("x", 0), plan::devices({2, 0})),
                 .cluster = plan::cluster_of(2, 2)};
  job.to.epoch = 1;
  job.options.memory_cap = kCap;
  const plan::Plan plan = job.plan();
  ASSERT_GT(plan.rounds(), 4);
  SmallCluster cluster({.limit = kHalf + kCap + kPages});
  cluster.create(job.from, 5);
  cluster.change(plan, job.to, 5);
  EXPECT_THAT(cluster.verify(job.to, 5), IsEmpty());
  cluster.commit(1);
  for (const plan::DeviceMemory& memory : plan.memory()) {
    const state::Store& store = cluster.store(Location::device(memory.device));
    EXPECT_LE(store.bytes_peak(), std::max(memory.before, memory.after) + memory.peak_extra + kPages);
    EXPECT_EQ(store.bytes_held(), memory.after);
  }
  // Without the cap the same change does not fit.
  job.from = job.to;
  std::swap(job.to.device_of_rank[0], job.to.device_of_rank[1]);
  job.to.epoch = 2;
  job.options.memory_cap = -1;
  EXPECT_TRUE(absl::IsResourceExhausted(cluster.call(0, prepare_body(job.plan(), job.to, 5)).status()));
  cluster.forget(2);
  EXPECT_THAT(cluster.verify(job.from, 5), IsEmpty());
}

TEST(Execution, KeptBoxesAreNotCopied) {
  plan::Case job{.from = plan::replicas({1000}, plan::devices({0, 1})),
                 .to = plan::replicas({1000}, plan::devices({0, 1, 2})),
                 .cluster = plan::cluster_of(2, 2)};
  job.to.epoch = 1;
  SmallCluster cluster;
  cluster.create(job.from, 5);
  const state::Store& store = cluster.store(Location::device(DeviceId(0)));
  const auto before = store.find(epoch_of_job(0), TensorId(0), tensor::Box({0}, {1000}));
  cluster.change(job.plan(), job.to, 5);
  const auto after = store.find(epoch_of_job(1), TensorId(0), tensor::Box({0}, {1000}));
  ASSERT_EQ(before.size(), 1u);
  EXPECT_EQ(after, before);
  cluster.commit(1);
  EXPECT_EQ(store.bytes_held(), 4000);
  EXPECT_THAT(cluster.verify(job.to, 5), IsEmpty());
}

// In a rollback even kept boxes are read, and parameters are derived after their masters have come.
TEST(Execution, RollbacksDeriveToo) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Change change = random_change(random, Way::kDerived, nullptr, true);
    SmallCluster cluster;
    cluster.create(change.job.from, 10);
    cluster.snapshot(change.job.from, kSnapshot);
    cluster.advance(change.job.from, 20);
    CommandBody body = prepare_body(change.plan, change.job.to, 10);
    body.mutable_prepare()->set_restore(true);
    cluster.ask_all(body);
    cluster.run_rounds(change.plan, change.job.to.epoch);
    ASSERT_THAT(cluster.verify(change.job.to, 10), IsEmpty());
  }
}

TEST(Execution, RoundsComeInOrder) {
  Random random(5);
  Change change = random_change(random, Way::kRounds, nullptr, false);
  while (change.plan.rounds() < 3) change = random_change(random, Way::kRounds, nullptr, false);
  SmallCluster cluster;
  cluster.create(change.job.from, 1);
  cluster.ask_all(prepare_body(change.plan, change.job.to, 1));
  const int64_t epoch = change.job.to.epoch;
  EXPECT_TRUE(absl::IsFailedPrecondition(cluster.call(0, round_body(epoch + 1, 0, 0)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, round_body(epoch, -1, 0)).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, round_body(epoch, change.plan.rounds(), 0)).status()));
  cluster.run_rounds(change.plan, epoch);
  EXPECT_THAT(message_of(cluster.call(0, round_body(epoch, 0, 0)).status()), HasSubstr("cannot come after round"));
  EXPECT_THAT(cluster.verify(change.job.to, 1), IsEmpty());
}

// A tensor goes from g0 of one host to g2 of another.
plan::Case to_the_other_host() {
  plan::Case job{.from = plan::replicas({100}, plan::devices({0})),
                 .to = plan::replicas({100}, plan::devices({2})),
                 .cluster = plan::cluster_of(2, 2)};
  job.to.epoch = 1;
  return job;
}

// Of what is to be carried over NCCL, too: the receiver is not kept waiting.
TEST(Execution, WhatTheHolderDoesNotHoldIsAnError) {
  plan::Case job = to_the_other_host();
  SmallCluster cluster({.reach = Reach::kNccl});
  cluster.create(job.from, 5);
  cluster.ask_all(prepare_body(job.plan(), job.to, 5));
  cluster.store(Location::device(DeviceId(0))).drop(epoch_of_job(job.from.epoch));
  EXPECT_THAT(message_of(cluster.call(0, round_body(1, 0, 0)).status()), HasSubstr("g0 does not hold tensor \""));
  EXPECT_FALSE(cluster.call(1, round_body(1, 0, 0)).ok());
}

// As one that has no memory for it.
TEST(Execution, NobodyWaitsForAHostWhoseRoundFailsBeforeItSends) {
  plan::Case job = to_the_other_host();
  SmallCluster cluster({.reach = Reach::kNccl});
  cluster.create(job.from, 5);
  cluster.ask_all(prepare_body(job.plan(), job.to, 5));
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, round_body(1, 99, 0)).status()));
  const absl::Status status = cluster.call(1, round_body(1, 0, 0)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// Its process is there, as one that is stopped, or whose command was lost.
TEST(Execution, NobodyWaitsForAHostThatHasDeparted) {
  plan::Case job = to_the_other_host();
  SmallCluster cluster({.reach = Reach::kNccl});
  cluster.create(job.from, 5);
  cluster.ask_all(prepare_body(job.plan(), job.to, 5));
  cluster.worker(1).note_departed(HostId(7));  // of which it has never heard
  std::thread controller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cluster.worker(1).note_departed(HostId(0));
  });
  const absl::Status status = cluster.call(1, round_body(1, 0, 0)).status();
  controller.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// Of a round that an earlier controller had told only some of, before it died.
TEST(Execution, NobodyWaitsForWhatOnlyAnEarlierControllerKnew) {
  plan::Case job = to_the_other_host();
  SmallCluster cluster({.reach = Reach::kNccl});
  cluster.create(job.from, 5);
  cluster.ask_all(prepare_body(job.plan(), job.to, 5));
  std::thread controller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cluster.worker(1).note_superseded();
  });
  const absl::Status status = cluster.call(1, round_body(1, 0, 0)).status();
  controller.join();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
}

// Plans that are well-formed, and yet not for these workers.
TEST(Execution, WhatDoesNotBelongTogetherIsRefused) {
  plan::Case job{.from = plan::replicas({100}, plan::devices({0})),
                 .to = plan::replicas({100}, plan::devices({0, 1})),
                 .cluster = plan::cluster_of(2, 2)};
  job.to.epoch = 1;
  SmallCluster cluster;
  cluster.create(job.from, 5);
  const auto refused = [&](const plan::Plan& plan, const Collection& to, const std::string& why) {
    const absl::Status status = cluster.call(0, prepare_body(plan, to, 5)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(message_of(status), HasSubstr(why));
  };
  const plan::Plan plan = job.plan();
  Collection other = job.to;
  other.tensors[0].name = "v";
  refused(plan, other, "tensor 0 is \"v\"");
  other = job.to;
  other.tensors.push_back(plan::tensor_of("more", {3}, {}));
  refused(plan, other, "does not lead to");
  other = plan::replicas({100}, plan::devices({0, 2}));
  other.epoch = 1;
  refused(plan, other, "does not lead to");
  other = job.to;
  other.epoch = 0;
  refused(plan, other, "epoch 0 cannot be made from itself");

  plan::Case wide = job;
  wide.cluster = plan::cluster_of(4, 2);
  wide.to = plan::replicas({100}, plan::devices({0, 7}));
  wide.to.epoch = 1;
  refused(wide.plan(), wide.to, "g7 is in the plan, but not in the cluster");
  wide.to = job.to;
  wide.from = plan::replicas({100}, plan::devices({7}));
  refused(wide.plan(), wide.to, "g7 is in the plan, but not in the cluster");

  plan::Case lost = job;
  lost.residency.lost = {DeviceId(0)};
  refused(lost.plan(), lost.to, "not feasible");
  EXPECT_THAT(cluster.verify(job.from, 5), IsEmpty()) << "what was refused has changed nothing";
}

}  // namespace
}  // namespace scalai::executor::worker
