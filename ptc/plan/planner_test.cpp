#include "ptc/plan/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "ptc/plan/plan_draft.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace planner_test {

using tensor::Box;
using tensor::SplitRule;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kRowBytes = 4;  // tensors of the known answers have one F32 element a row

Case cut_case(tensor::Shape shape, const tensor::Cut& from, int parts, const tensor::Cut& to, int new_parts) {
  return {.from = one_tensor(shape, from, first_devices(parts)), .to = one_tensor(shape, to, first_devices(new_parts))};
}

// Bytes that arrive at each device over a link.
std::map<int, int64_t> arrivals(const Plan& plan) {
  std::map<int, int64_t> bytes;
  for (const DeviceId device : plan.dst_devices()) bytes[device.value] = 0;
  for (const Operation& operation : plan.operations()) {
    const bool moved =
        operation.transfer_class == TransferClass::kSameHost || operation.transfer_class == TransferClass::kCrossHost;
    if (moved) bytes[operation.dst.value] += operation.bytes;
  }
  return bytes;
}

std::map<std::string, int64_t> departures(const Plan& plan) {
  std::map<std::string, int64_t> bytes;
  for (const Operation& operation : plan.operations()) {
    if (operation.transfer_class != TransferClass::kKept) bytes[operation.src.str()] += operation.bytes;
  }
  return bytes;
}

// --- Known answers: what |needed \ held| comes to by hand ------------------------------------------------------------

TEST(KnownAnswers, ColumnParallelFourToTwo) {
  const Plan plan = cut_case({1024}, cut_over("tp", 0), 4, cut_over("tp", 0), 2).plan();
  EXPECT_EQ(plan.bytes().moved(), 768 * kRowBytes);
  EXPECT_THAT(arrivals(plan), ElementsAre(std::pair(0, 256 * kRowBytes), std::pair(1, 512 * kRowBytes)));
}

TEST(KnownAnswers, RowParallelTwoToFour) {
  const Plan plan = cut_case({3, 1024}, cut_over("tp", 1), 2, cut_over("tp", 1), 4).plan();
  EXPECT_THAT(arrivals(plan),
              ElementsAre(std::pair(0, 0), std::pair(1, 256 * 12), std::pair(2, 256 * 12), std::pair(3, 256 * 12)));
}

TEST(KnownAnswers, FusedGateAndUpAsTwoTensors) {
  const auto side = [](int tp) {
    return collection_of(
        {{"tp", tp}}, first_devices(tp),
        {tensor_of("gate", {1408}, {cut_over("tp", 0)}), tensor_of("up", {1408}, {cut_over("tp", 0)})});
  };
  const Plan plan = Case{.from = side(2), .to = side(4)}.plan();
  EXPECT_THAT(arrivals(plan), ElementsAre(std::pair(0, 0), std::pair(1, 704 * kRowBytes), std::pair(2, 704 * kRowBytes),
                                          std::pair(3, 704 * kRowBytes)));
}

TEST(KnownAnswers, VocabularyTwoToEight) {
  const tensor::Cut vocab = cut_over("tp", 0, SplitRule::kPadded, 128);
  const Plan plan = cut_case({50257}, vocab, 2, vocab, 8).plan();
  EXPECT_EQ(plan.bytes().moved(), 43857 * kRowBytes);
  EXPECT_EQ(arrivals(plan)[7], (50257 - 7 * 6400) * kRowBytes) << "padding does not travel";
}

TEST(KnownAnswers, UnevenConventionsMix) {
  // [3,3,3,1] to [3,3,2,2]: only row 8 changes hands.
  const Plan plan = cut_case({10}, cut_over("tp", 0, SplitRule::kCeil), 4, cut_over("tp", 0), 4).plan();
  EXPECT_THAT(arrivals(plan), ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(2, 0), std::pair(3, kRowBytes)));
  EXPECT_EQ(plan.bytes().kept, 6 * kRowBytes);
  EXPECT_EQ(plan.bytes().same_device, 3 * kRowBytes);
  // [2,2,2,2,2,0,0,0] to [4,4,2].
  EXPECT_EQ(cut_case({10}, cut_over("tp", 0, SplitRule::kCeil), 8, cut_over("tp", 0, SplitRule::kCeil), 3)
                .plan()
                .bytes()
                .moved(),
            (2 + 4 + 2) * kRowBytes);
}

TEST(KnownAnswers, SixteenExpertsFourToEight) {
  const auto side = [](int ep) {
    std::vector<collection::LogicalTensor> experts;
    for (int e = 0; e < 16; ++e)
      experts.push_back(tensor_of("expert" + std::to_string(e), {1}, {}, {{"ep", {e * ep / 16}}}));
    return collection_of({{"ep", ep}}, first_devices(ep), experts);
  };
  EXPECT_EQ(Case({.from = side(4), .to = side(8)}).plan().bytes().moved(), 14 * kRowBytes);
}

// Four layers of [8] under tp2, pp2 and dp replicas, in rank order tp, dp, pp.
collection::Collection halves(int dp, const std::vector<DeviceId>& devices) {
  std::vector<collection::LogicalTensor> layers;
  for (int layer = 0; layer < 4; ++layer) {
    layers.push_back(tensor_of("layers." + std::to_string(layer), {8}, {cut_over("tp", 0)}, {{"pp", {layer / 2}}}));
  }
  return collection_of({{"tp", 2}, {"dp", dp}, {"pp", 2}}, devices, layers);
}
constexpr int64_t kHalfModel = 2 * 8 * 4;

TEST(KnownAnswers, ShrinkByOneReplica) {
  EXPECT_EQ(Case({.from = halves(2, first_devices(8)), .to = halves(1, first_devices(4))}).plan().bytes().moved(),
            kHalfModel);
  EXPECT_EQ(Case({.from = halves(2, first_devices(8)), .to = halves(1, devices({0, 1, 4, 5}))}).plan().bytes().moved(),
            0);
}

TEST(KnownAnswers, LossOfOneReplicaAndOfBoth) {
  Case job{.from = halves(2, first_devices(8)), .to = halves(1, devices({0, 1, 4, 6}))};
  job.residency.lost = {DeviceId(5)};
  const Plan plan = job.plan();
  EXPECT_TRUE(plan.feasible());
  EXPECT_GT(departures(plan)["g7"], 0) << "only device 7 still has that half";
  job.residency.lost = {DeviceId(5), DeviceId(7)};
  EXPECT_THAT(job.plan().missing(),
              ElementsAre(Missing{TensorId(2), Box({4}, {8})}, Missing{TensorId(3), Box({4}, {8})}));
  job.residency.storage = true;
  EXPECT_EQ(job.plan().bytes().from_storage, 2 * 4 * 4);
}

TEST(KnownAnswers, GrowTwoReplicasToSix) {
  Case job{.from = replicas({100}, first_devices(2)), .to = replicas({100}, first_devices(6))};
  job.cluster = cluster_of(6, 1);
  const Plan plan = job.plan();
  EXPECT_EQ(plan.bytes().cross_host, 4 * 400);
  // Two chains, g0 → g2 → g4 and g1 → g3 → g5: nobody sends twice.
  EXPECT_THAT(departures(plan),
              ElementsAre(std::pair("g0", 400), std::pair("g1", 400), std::pair("g2", 400), std::pair("g3", 400)));
}

TEST(KnownAnswers, IdentityAndDisjoint) {
  const Plan same = cut_case({64}, cut_over("tp", 0), 4, cut_over("tp", 0), 4).plan();
  EXPECT_EQ(same.bytes(), (ClassBytes{.kept = 256}));
  const Case job{.from = one_tensor({64}, cut_over("tp", 0), first_devices(4)),
                 .to = one_tensor({64}, cut_over("tp", 0), first_devices(4, 4))};
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.cross_host = 256}));
}

// --- Sources ---------------------------------------------------------------------------------------------------------

TEST(Planner, NearestHolderFirst) {
  Case job{.from = replicas({8}, devices({0, 4, 9})), .to = replicas({8}, devices({5}))};
  const Plan plan = job.plan();
  ASSERT_EQ(plan.operations().size(), 1u);
  EXPECT_EQ(plan.operations()[0].src.str(), "g4");
  EXPECT_EQ(plan.operations()[0].transfer_class, TransferClass::kSameHost);
  job.residency.lost = {DeviceId(4)};
  EXPECT_EQ(job.plan().operations()[0].src.str(), "g0");
}

TEST(Planner, HostMemoryCopiesAreHoldersLikeAnyOther) {
  Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({5}))};
  job.residency.extra = {{TensorId(0), Box({0}, {6}), HostId(1)}};
  job.residency.storage = true;
  // The copy is on the host that wants it, the device is not.
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.same_host = 24, .cross_host = 8}));
  job.residency.lost = {DeviceId(0)};
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.same_host = 24, .from_storage = 8}));
}

TEST(Planner, LoadIsEvenOverHolders) {
  Case job{.from = replicas({7}, devices({0, 1, 2, 3})), .to = replicas({7}, first_devices(8, 4))};
  const Plan plan = job.plan();
  // Twice over the network (to each host once), then from device to device inside the hosts.
  EXPECT_EQ(plan.bytes(), (ClassBytes{.same_host = 6 * 28, .cross_host = 2 * 28}));
  for (const auto& [source, bytes] : departures(plan)) EXPECT_LE(bytes, 2 * 28) << source;
}

TEST(Planner, FirstReplicaTakesAllFromTheLowestRank) {
  Case job{.from = replicas({7}, devices({2, 0, 5})), .to = replicas({7}, first_devices(4, 6))};
  job.options.sources = SourceRule::kFirstReplica;
  EXPECT_THAT(departures(job.plan()), ElementsAre(std::pair("g2", 4 * 28)));
}

TEST(Planner, StorageRuleReadsEverythingFromStorage) {
  Case job = cut_case({8}, cut_over("tp", 0), 2, cut_over("tp", 0), 4);
  job.options.sources = SourceRule::kStorage;
  job.residency.storage = true;
  EXPECT_EQ(job.plan().bytes(), (ClassBytes{.from_storage = 32}));
}

TEST(Planner, OutOfPlacePullsEverythingOutOfHostMemory) {
  Case job = cut_case({8}, cut_over("tp", 0), 2, cut_over("tp", 0), 8);
  job.options = {.name = "tenplex", .in_place = false, .sources = SourceRule::kFirstReplica};
  const Plan plan = job.plan();
  EXPECT_EQ(plan.bytes(), (ClassBytes{.same_host = 16, .cross_host = 16}));
  EXPECT_THAT(departures(plan), ElementsAre(std::pair("h0.mem", 32)));
}

TEST(Planner, HubServesAllHosts) {
  Case job{.from = replicas({8}, devices({0, 4})), .to = replicas({8}, devices({1, 5, 9}))};
  job.options = {.name = "central", .in_place = false, .hub = HostId(1)};
  const Plan plan = job.plan();
  EXPECT_EQ(plan.bytes(), (ClassBytes{.same_host = 32, .cross_host = 64}));
  EXPECT_THAT(departures(plan), ElementsAre(std::pair("h1.mem", 96)));
}

// --- Form of the plan ------------------------------------------------------------------------------------------------

// Flat shards of a row-major 4 x 4 tensor are boxes of part rows and whole rows; a receiver of columns gets from each
// sender two neighbours that are one box together.
TEST(Planner, NeighboursOfOnePairMerge) {
  const tensor::Cut flat{.dim = tensor::Cut::kFlat, .rule = SplitRule::kExplicit, .bounds = {0, 6, 16}};
  const Plan plan = Case({.from = one_tensor({4, 4}, flat, devices({0, 1})),
                          .to = one_tensor({4, 4}, cut_over("x", 1), devices({2, 3}))})
                        .plan();
  std::vector<Box> boxes;
  for (const Operation& operation : plan.operations()) boxes.push_back(operation.box);
  EXPECT_THAT(boxes, ElementsAre(Box({0, 0}, {2, 2}), Box({0, 2}, {1, 4}), Box({1, 2}, {4, 4}), Box({2, 0}, {4, 2})));
}

TEST(Planner, InstancesAreSortedByRoundTensorBoxAndPattern) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const Sizes from = random_sizes(random, 16), to = random_sizes(random, 16);
    Case job{.from = grid_collection(from, random_devices(random, from.world(), 16)),
             .to = grid_collection(to, random_devices(random, to.world(), 16))};
    job.options.round_bytes = seed % 2 == 0 ? 100 : 0;
    const Plan plan = job.plan();
    const auto key = [&](const Instance& instance) {
      return std::tuple(instance.round, plan.tensors_of(instance).front(), instance.box, instance.pattern);
    };
    EXPECT_TRUE(std::is_sorted(plan.instances().begin(), plan.instances().end(),
                               [&](const Instance& a, const Instance& b) { return key(a) < key(b); }));
  }
}

TEST(Planner, RoundsBoundWhatADeviceReceives) {
  Case job{.from = grid_collection({2, 2, 1}, first_devices(4)), .to = grid_collection({1, 2, 2}, first_devices(4, 4))};
  EXPECT_EQ(job.plan().rounds(), 1);
  job.options.round_bytes = 200;
  const Plan plan = job.plan();
  std::map<std::pair<int, int>, std::vector<int64_t>> received;
  for (const Operation& operation : plan.operations())
    received[{operation.round, operation.dst.value}].push_back(operation.bytes);
  int last = 0;
  for (const auto& [key, bytes] : received) {
    last = std::max(last, key.first);
    int64_t sum = 0;
    for (const int64_t b : bytes) sum += b;
    EXPECT_TRUE(sum <= 200 || bytes.size() == 1) << "round " << key.first << " device " << key.second;
  }
  EXPECT_GT(last, 1);
  EXPECT_EQ(plan.rounds(), last + 1);
}

TEST(Planner, KeptOperationsStayInTheFirstRound) {
  Case job{.from = grid_collection({2, 1, 1}, first_devices(2)), .to = grid_collection({2, 1, 2}, first_devices(4))};
  job.options.round_bytes = 50;
  const Plan plan = job.plan();
  EXPECT_GT(plan.rounds(), 3);
  for (const Operation& operation : plan.operations()) {
    if (operation.transfer_class == TransferClass::kKept) {
      EXPECT_EQ(operation.round, 0);
    }
  }
}

TEST(Planner, FillsInWhatThePlanIsFor) {
  Case job{.from = grid_collection({2, 1, 1}, first_devices(2)), .to = grid_collection({1, 1, 2}, first_devices(2, 1))};
  job.from.epoch = 3;
  job.to.epoch = 4;
  job.options.name = "mine";
  const Plan plan = job.plan();
  EXPECT_EQ(plan.planner(), "mine");
  EXPECT_EQ(plan.from(), "tp2,pp1,dp1");
  EXPECT_EQ(plan.to(), "tp1,pp1,dp2");
  EXPECT_EQ(plan.from_epoch(), 3);
  EXPECT_EQ(plan.to_epoch(), 4);
  EXPECT_EQ(plan.src_devices(), devices({0, 1}));
  EXPECT_EQ(plan.dst_devices(), devices({1, 2}));
  EXPECT_EQ(plan.digest(), seal(plan.draft()).digest());
}

// Nothing of a plan can change; whoever wants another one changes a copy of its fields.
static_assert(!std::is_assignable_v<decltype(std::declval<Plan&>().digest()), std::string>);
static_assert(!std::is_assignable_v<decltype(std::declval<Plan&>().draft()), PlanDraft>);
static_assert(!std::is_default_constructible_v<Plan>);
static_assert(std::is_nothrow_move_constructible_v<Plan>);

TEST(Planner, DigestCoversEveryPart) {
  Case job{.from = grid_collection({2, 1, 1}, first_devices(2)), .to = grid_collection({1, 1, 2}, first_devices(2, 1))};
  const Plan plan = job.plan();
  const std::vector<std::function<void(PlanDraft&)>> changes = {
      [](PlanDraft& p) { p.planner += "x"; },
      [](PlanDraft& p) { p.from += "x"; },
      [](PlanDraft& p) { p.to += "x"; },
      [](PlanDraft& p) { ++p.from_epoch; },
      [](PlanDraft& p) { ++p.to_epoch; },
      [](PlanDraft& p) { p.tensors[0].name += "x"; },
      [](PlanDraft& p) { p.tensors[0].dtype = tensor::DType::kBF16; },
      [](PlanDraft& p) { p.tensors[0].shape = {1}; },
      [](PlanDraft& p) { p.src_devices[0] = DeviceId(9); },
      [](PlanDraft& p) { p.dst_devices[0] = DeviceId(9); },
      [](PlanDraft& p) { ++p.rounds; },
      [](PlanDraft& p) { ++p.memory_cap; },
      [](PlanDraft& p) { p.tensors[0].from_dtype = tensor::DType::kBF16; },
      [](PlanDraft& p) { p.tensors[0].derived_from = TensorId(1); },
      [](PlanDraft& p) { p.tensor_sets[0].push_back(TensorId(9)); },
      [](PlanDraft& p) { p.patterns.add({}, {}); },
      [](PlanDraft& p) { p.patterns.add(std::vector<Leg>(1), {}); },
      [](PlanDraft& p) { p.patterns.add({}, p.dst_devices); },
      [](PlanDraft& p) { p.instances.pop_back(); },
      [](PlanDraft& p) { ++p.instances[0].round; },
      [](PlanDraft& p) { ++p.instances[0].pattern; },
      [](PlanDraft& p) { ++p.instances[0].tensors; },
      [](PlanDraft& p) { ++p.instances[0].box.hi[0]; },
      [](PlanDraft& p) { ++p.memory[0].before; },
      [](PlanDraft& p) { ++p.memory[0].after; },
      [](PlanDraft& p) { ++p.memory[0].peak_extra; },
      [](PlanDraft& p) { ++p.bytes.derived; },
      [](PlanDraft& p) {
        p.missing.push_back({TensorId(0), Box({0, 0}, {1, 1})});
      },
      [](PlanDraft& p) { ++p.bytes.kept; },
      [](PlanDraft& p) { ++p.lower_bound.cross_host; },
      [](PlanDraft& p) { ++p.lower_bound_any_placement_cross_host; },
      [](PlanDraft& p) { ++p.survives_host_losses; }};
  std::set<std::string> digests = {plan.digest()};
  for (size_t i = 0; i < changes.size(); ++i) {
    PlanDraft changed = plan.draft();
    changes[i](changed);
    EXPECT_TRUE(digests.insert(seal(changed).digest()).second) << "change " << i;
  }
}

TEST(Planner, SaysNamesOfLocationsAndClasses) {
  EXPECT_EQ(Location::device(DeviceId(3)).str(), "g3");
  EXPECT_EQ(Location::host_memory(HostId(1)).str(), "h1.mem");
  EXPECT_EQ(Location::storage().str(), "storage");
  EXPECT_EQ(name_of(TransferClass::kSameDevice), "same_device");
  EXPECT_EQ(name_of(TransferClass::kFromStorage), "from_storage");
}

TEST(Planner, RefusesCollectionsThatDoNotMatch) {
  const auto problem_of = [](const Case& job) { return message_of(make_plan(job.input()).status()); };
  Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({1}))};
  EXPECT_EQ(problem_of(job), "");
  Case more = job;
  more.to.tensors.push_back(tensor_of("v", {8}, {}));
  EXPECT_THAT(problem_of(more), HasSubstr("1 tensors, the new one 2"));
  Case renamed = job;
  renamed.to.tensors[0].name = "v";
  EXPECT_THAT(problem_of(renamed), HasSubstr("\"w\" in the old collection and \"v\""));
  Case reshaped = job;
  reshaped.to.tensors[0].shape = {4, 2};
  EXPECT_THAT(problem_of(reshaped), HasSubstr("[4, 2]"));
  Case outside = job;
  outside.to.device_of_rank = devices({16});
  EXPECT_THAT(problem_of(outside), HasSubstr("device 16 is not one of the cluster's 16"));
}

TEST(Planner, RefusesACopyOnAHostThatIsNotThere) {
  Case job{.from = replicas({8}, devices({0})), .to = replicas({8}, devices({1}))};
  job.residency.extra = {{TensorId(0), {{0}, {8}}, HostId(4)}};
  const auto plan = make_plan(job.input());
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(message_of(plan.status()), "tensor 0 [0:8] has a copy on host 4, which is not one of the cluster's 4");
}

// 520 tensors alike on 160 devices go to 4,096 others in as many parts: by themselves each part would take 160 ways.
// Five tensors go one way, and holders still send the same.
TEST(MakePlan, TensorsAlikeGoTogetherWhereBoxesAreMany) {
  constexpr int kTensors = 520, kHolders = 160, kParts = 4096;
  std::vector<collection::LogicalTensor> whole, cut;
  for (int i = 0; i < kTensors; ++i) {
    whole.push_back(tensor_of("w" + std::to_string(i), {kParts}, {}));
    cut.push_back(tensor_of("w" + std::to_string(i), {kParts}, {cut_over("x", 0)}));
  }
  const Case job{.from = collection_of({{"x", kHolders}}, first_devices(kHolders), std::move(whole)),
                 .to = collection_of({{"x", kParts}}, first_devices(kParts, kHolders), std::move(cut)),
                 .cluster = cluster_of((kHolders + kParts) / 8, 8)};
  const auto plan = make_plan(job.input());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->instances().size(), size_t{kParts} * kTensors / 5);
  EXPECT_EQ(message_of(interpret(*plan, job.oracle())), "");
  std::map<int32_t, int64_t> sent;
  for (const Instance& instance : plan->instances()) {
    for (const Leg& leg : plan->patterns().legs(instance.pattern))
      sent[leg.src.index] += instance.box.volume() * std::ssize(plan->tensors_of(instance));
  }
  ASSERT_EQ(sent.size(), size_t{kHolders});
  for (const auto& [device, elements] : sent) EXPECT_NEAR(elements, 1.0 * kTensors * kParts / kHolders, 40) << device;
}

// The host that sends what each host gets, one GPU a host.
std::map<int, int> senders(const Case& job) {
  std::map<int, int> from;
  for (const Operation& operation : job.plan().operations()) from[operation.dst.value] = operation.src.index;
  return from;
}

TEST(Nearest, OfSameLeafThenSamePod) {
  Case job{.from = replicas({64}, devices({0, 6})), .to = replicas({64}, devices({0, 6, 1, 2, 3, 5, 7}))};
  job.cluster = cluster_of(8, 1);
  job.cluster.fabric = cluster::FabricKind::kFatTree;
  job.cluster.leaf_hosts = 2;
  job.cluster.group_hosts = 4;
  std::map<int, int> from = senders(job);
  EXPECT_EQ(from[1], 0) << "same leaf";
  EXPECT_EQ(from[7], 6);
  EXPECT_EQ(from[5], 6) << "same pod";
  EXPECT_LT(from[2], 4);
  EXPECT_LT(from[3], 4);
}

TEST(Nearest, OfSameNvlinkDomainThenSameRack) {
  Case job{.from = replicas({64}, devices({0, 2, 6})), .to = replicas({64}, devices({0, 2, 6, 1, 3, 4, 5, 7}))};
  job.cluster = cluster_of(8, 1);
  job.cluster.rack_hosts = 4;
  for (size_t h = 0; h < 8; ++h) job.cluster.hosts[h].nvlink_domain = static_cast<int>(h / 2);
  std::map<int, int> from = senders(job);
  EXPECT_EQ(from[1], 0);
  EXPECT_EQ(from[3], 2);
  EXPECT_EQ(from[7], 6);
  EXPECT_GE(from[4], 4) << "from the other domain of its rack";
  EXPECT_GE(from[5], 4);
}

}  // namespace planner_test
}  // namespace scalai::plan
