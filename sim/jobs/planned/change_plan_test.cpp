#include "sim/jobs/planned/change_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/plan/planner.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/state/model/catalogue.h"
#include "ptc/store/naming/family.h"
#include "sim/jobs/planned/internal/abstract_change.h"
#include "sim/jobs/planned/testing/support.h"

namespace scalai::jobs {
namespace change_plan_test {

using Source = ChangePlanner::Source;

const JobModel& small_model() {
  static const JobModel kModel = job_model({.model = "gpt2", .global_batch = 64}).value();
  return kModel;
}

const JobModel& small_experts() {
  static const JobModel kModel = [] {
    JobModel model = small_model();
    model.model = store::model_of_config(
                      R"({"architectures":["MixtralForCausalLM"],"hidden_size":64,"intermediate_size":128,
                          "num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":512,
                          "max_position_embeddings":64,"num_local_experts":4,"num_experts_per_tok":2,
                          "tie_word_embeddings":false})",
                      "tiny-mixtral")
                      .value();
    model.shape = step::shape_of(model.model);
    return model;
  }();
  return kModel;
}

Configuration configuration(const JobModel& model, const std::string& layout) {
  return {.model = &model,
          .config = collection::parse_layout(layout).value(),
          .training = model.training,
          .time = {},
          .step_s = 1};
}

HeldState held(const JobModel& model, const std::string& layout, std::vector<DeviceId> devices) {
  return {.model = &model, .config = collection::parse_layout(layout).value(), .devices = std::move(devices)};
}

std::vector<DeviceId> devices_of(const cluster::Cluster& cluster, const std::vector<int>& hosts) {
  std::vector<DeviceId> devices;
  for (const int host : hosts) {
    for (const DeviceId device : cluster.devices_of(HostId(host))) devices.push_back(device);
  }
  return devices;
}

std::vector<int> shuffled_hosts(Random& random, int hosts) {
  std::vector<int> order(static_cast<size_t>(hosts));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[static_cast<size_t>(random.below(i))]);
  return order;
}

// Bytes over each host's NICs: (host, up or down).
using Loads = std::map<std::pair<int, int>, int64_t>;

Loads loads_of(const ChangePlanner::Planned& planned) {
  Loads loads;
  for (const ChangeStage& stage : planned.shape->stages) {
    if (stage.flows == nullptr) continue;
    for (const FlowGroup::Flow& flow : stage.flows->flows) {
      if (flow.src.host == flow.dst.host) continue;
      const auto host = [&](const Place& place) {
        return place.host < 0 ? -1 : planned.hosts[static_cast<size_t>(place.host)].value;
      };
      loads[{host(flow.src), 0}] += flow.bytes;
      loads[{host(flow.dst), 1}] += flow.bytes;
    }
  }
  return loads;
}

Loads loads_of(const plan::Plan& plan, const cluster::Cluster& cluster) {
  Loads loads;
  plan.for_each_operation([&](const plan::Operation& operation) {
    if (operation.transfer_class != plan::TransferClass::kCrossHost) return;
    loads[{cluster.host_of(DeviceId(operation.src.index)).value, 0}] += operation.bytes;
    loads[{cluster.host_of(operation.dst).value, 1}] += operation.bytes;
  });
  return loads;
}

// The plan of the same placement, made where the devices are.
plan::Plan fresh_plan(const cluster::Cluster& cluster, const ChangePlanner::Question& question,
                      const ChangePlanner::Planned& planned) {
  const JobModel& model = *question.to->model;
  const auto from = collection::megatron_collection(model.model, model.recipe, question.from->config,
                                                    internal::canonical_ranks(*question.from, question.lost, cluster))
                        .value();
  const auto to =
      collection::megatron_collection(model.model, model.recipe, question.to->config, planned.device_of_rank).value();
  collection::Residency residency;
  for (const DeviceId device : question.from->devices) {
    if (question.lost.count(cluster.host_of(device)) != 0) residency.lost.insert(device);
  }
  return plan::make_plan({.from = from, .to = to, .cluster = cluster, .residency = residency, .options = {}}).value();
}

void expect_same(const ChangePlanner::Planned& a, const ChangePlanner::Planned& b) {
  EXPECT_EQ(a.hosts, b.hosts);
  EXPECT_EQ(a.device_of_rank, b.device_of_rank);
  EXPECT_EQ(a.shape->digest, b.shape->digest);
  EXPECT_EQ(a.shape->bytes, b.shape->bytes);
  EXPECT_EQ(a.shape->rounds, b.shape->rounds);
  ASSERT_EQ(a.shape->stages.size(), b.shape->stages.size());
  for (size_t s = 0; s < a.shape->stages.size(); ++s) {
    const ChangeStage &one = a.shape->stages[s], &other = b.shape->stages[s];
    EXPECT_EQ(one.wait_s, other.wait_s);
    ASSERT_EQ(one.flows == nullptr, other.flows == nullptr);
    if (one.flows == nullptr) continue;
    EXPECT_EQ(one.flows->flows, other.flows->flows);
  }
}

const std::vector<std::string> kLayouts = {"tp4,dp2",       "tp2,pp2,dp2", "tp4,pp2",        "pp2,dp4,zero1",
                                           "tp2,dp4,zero1", "tp4,dp3",     "tp2,pp3,dp2",    "tp4,pp2,dp2,zero1",
                                           "dp8",           "tp4,cp2",     "tp2,pp2,cp2,dp2"};

struct RandomChange {
  HeldState from;
  Configuration to;
  std::set<HostId> lost;
  std::vector<DeviceId> devices;
};

// Whole hosts in any order, some of them lost, some of the new ones the old ones.
RandomChange random_change(Random& random, const cluster::Cluster& cluster) {
  const auto pick = [&] { return kLayouts[static_cast<size_t>(random.below(static_cast<int64_t>(kLayouts.size())))]; };
  RandomChange change{.from = held(small_model(), pick(), {}), .to = configuration(small_model(), pick())};
  const auto hosts = static_cast<int>(cluster.hosts.size());
  std::vector<int> order = shuffled_hosts(random, hosts);
  order.resize(static_cast<size_t>((change.from.config.world() + 3) / 4));
  change.from.devices = devices_of(cluster, order);
  change.from.devices.resize(static_cast<size_t>(change.from.config.world()));
  for (const int host : order) {
    if (random.below(4) == 0) change.lost.insert(HostId(host));
  }
  if (!survives(change.from, change.lost, cluster)) change.lost.clear();
  std::vector<int> target;
  for (const int host : order) {
    if (change.lost.count(HostId(host)) == 0 && random.below(3) != 0) target.push_back(host);
  }
  for (const int host : shuffled_hosts(random, hosts)) {
    const bool known = std::find(target.begin(), target.end(), host) != target.end();
    if (static_cast<int>(target.size()) * 4 >= change.to.config.world()) break;
    if (!known && change.lost.count(HostId(host)) == 0) target.push_back(host);
  }
  change.devices = devices_of(cluster, target);
  return change;
}

// Whatever the planner has seen before: the answer is that of a plan made for this very change, and moves the bytes of
// a plan between the real devices, over the same NICs.
TEST(ChangePlanner, AnswersAreThoseOfFreshPlans) {
  for (const int rack_hosts : {0, 3}) {
    cluster::Cluster cluster = testing::cluster_of({.hosts = 9});
    cluster.rack_hosts = rack_hosts;
    ChangePlanner planner(cluster, {});
    for (uint64_t seed = 1; seed <= 150; ++seed) {
      SCOPED_TRACE(fmt::format("seed {}, racks of {}", seed, rack_hosts));
      Random random(seed % 60);  // the same again: the cache must answer
      const RandomChange change = random_change(random, cluster);
      if (static_cast<int>(change.devices.size()) < change.to.gpus()) continue;
      const ChangePlanner::Question question{
          .from = &change.from, .lost = change.lost, .to = &change.to, .devices = change.devices};
      const ChangePlanner::Planned planned = planner.plan(question).value();
      expect_same(planned, planner.plan_anew(question).value());
      const plan::Plan fresh = fresh_plan(cluster, question, planned);
      EXPECT_EQ(planned.shape->bytes, fresh.bytes());
      EXPECT_TRUE(fresh.feasible());
      const Loads loads = loads_of(planned), real = loads_of(fresh, cluster);
      int64_t sum = 0, real_sum = 0, most = 0, real_most = 0;
      for (const auto& [end, bytes] : loads) sum += bytes, most = std::max(most, bytes);
      for (const auto& [end, bytes] : real) real_sum += bytes, real_most = std::max(real_most, bytes);
      EXPECT_EQ(sum, real_sum);
      // Shares that do not divide leave their rest with the lowest number.
      EXPECT_NEAR(static_cast<double>(most), static_cast<double>(real_most), 1e-4 * static_cast<double>(real_most));
    }
    EXPECT_GT(planner.hits(), 80);
    EXPECT_GT(planner.made(), 30);
  }
}

// Numbers in the order of the hosts: nothing at all may differ from the plan on the real devices.
TEST(ChangePlanner, WithHostsInOrderTheLoadOfEachNicIsTheSame) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 9});
  ChangePlanner planner(cluster, {});
  for (const auto& [from_layout, to_layout] : std::vector<std::pair<std::string, std::string>>{
           {"tp4,dp2", "tp4,dp4"}, {"tp4,pp2,dp2,zero1", "tp4,pp2,dp3,zero1"}, {"tp2,pp2,dp2", "tp4,pp2"}}) {
    const HeldState from = held(small_model(), from_layout, devices_of(cluster, {2, 4, 5, 7}));
    HeldState fitting = from;
    fitting.devices.resize(static_cast<size_t>(from.config.world()));
    const Configuration to = configuration(small_model(), to_layout);
    const ChangePlanner::Question question{
        .from = &fitting, .lost = {}, .to = &to, .devices = devices_of(cluster, {2, 4, 5, 7, 8, 3})};
    const ChangePlanner::Planned planned = planner.plan(question).value();
    EXPECT_EQ(loads_of(planned), loads_of(fresh_plan(cluster, question, planned), cluster)) << to_layout;
  }
}

TEST(ChangePlanner, NamesOfHostsMakeNoShape) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 9});
  ChangePlanner planner(cluster, {});
  const Configuration to = configuration(small_model(), "tp4,dp3,zero1");
  const HeldState first = held(small_model(), "tp4,dp2,zero1", devices_of(cluster, {0, 1}));
  const HeldState second = held(small_model(), "tp4,dp2,zero1", devices_of(cluster, {7, 3}));
  const auto one =
      planner.plan({.from = &first, .lost = {}, .to = &to, .devices = devices_of(cluster, {0, 1, 2})}).value();
  const auto other =
      planner.plan({.from = &second, .lost = {}, .to = &to, .devices = devices_of(cluster, {3, 5, 7})}).value();
  EXPECT_EQ(planner.made(), 1);
  EXPECT_EQ(planner.hits(), 1);
  EXPECT_EQ(one.shape, other.shape);
  EXPECT_EQ(other.hosts, (std::vector<HostId>{HostId(7), HostId(3), HostId(5)}));
}

// Replicas that hold the same may change places: whichever is lost, one shape. With ZeRO-1 they hold different shards.
TEST(ChangePlanner, LossesInDifferentReplicasAreOneShape) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 9});
  ChangePlanner planner(cluster, {});
  const Configuration to = configuration(small_model(), "tp4,pp2,dp3");
  const HeldState from = held(small_model(), "tp4,pp2,dp3", devices_of(cluster, {0, 1, 2, 3, 4, 5}));
  for (const int lost : {0, 1, 2}) {  // of the first stage
    std::vector<int> hosts = {0, 1, 2, 3, 4, 5, 8};
    std::erase(hosts, lost);
    const auto planned =
        planner.plan({.from = &from, .lost = {HostId(lost)}, .to = &to, .devices = devices_of(cluster, hosts)}).value();
    EXPECT_GT(planned.shape->bytes.cross_host, 0);
    // Only what the lost host had moves: a third of one stage's replica.
    std::set<HostId> used;
    for (const DeviceId device : planned.device_of_rank) used.insert(cluster.host_of(device));
    EXPECT_EQ(used.count(HostId(lost)), 0U);
    EXPECT_EQ(used.size(), 6U);
  }
  EXPECT_EQ(planner.made(), 1);
  EXPECT_EQ(planner.hits(), 2);
}

TEST(ChangePlanner, FromStorageItDoesNotMatterWhereItWas) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 9});
  ChangePlanner planner(cluster, {});
  const Configuration to = configuration(small_model(), "tp4,dp2,zero1");
  for (const int lost : {0, 1, 2}) {
    const HeldState from = held(small_model(), "tp4,dp3,zero1", devices_of(cluster, {0, 1, 2}));
    std::vector<int> hosts = {0, 1, 2};
    std::erase(hosts, lost);
    const auto planned = planner
                             .plan({.from = &from,
                                    .lost = {HostId(lost)},
                                    .to = &to,
                                    .devices = devices_of(cluster, hosts),
                                    .source = Source::kStorage})
                             .value();
    EXPECT_EQ(planned.shape->bytes.kept, 0);
    EXPECT_GT(planned.shape->bytes.from_storage, 0);
  }
  EXPECT_EQ(planner.made(), 1);
}

TEST(ChangePlanner, StateWithoutAHolderIsAnError) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 4});
  ChangePlanner planner(cluster, {});
  const HeldState from = held(small_model(), "tp4,dp2,zero1", devices_of(cluster, {0, 1}));
  const Configuration to = configuration(small_model(), "tp4,zero1");
  const auto made = planner.plan({.from = &from, .lost = {HostId(0)}, .to = &to, .devices = devices_of(cluster, {1})});
  EXPECT_TRUE(absl::IsFailedPrecondition(made.status()));
  EXPECT_THAT(message_of(made.status()), ::testing::HasSubstr("no survivor"));
}

// survives() against the planner: where it says so, the plan is complete; where it does not, the plan lacks something.
TEST(Survives, AgreesWithThePlanner) {
  const cluster::Cluster cluster = testing::cluster_of({.hosts = 6});
  int lost_some = 0, kept_all = 0;
  const std::vector<std::string> experts = {"tp2,dp4,ep4", "tp4,dp2,ep2,zero1", "pp2,dp4,ep2", "tp2,pp2,dp2,ep4"};
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const bool mixture = seed % 3 == 0;
    const std::vector<std::string>& layouts = mixture ? experts : kLayouts;
    const JobModel& model = mixture ? small_experts() : small_model();
    HeldState state = held(model, layouts[static_cast<size_t>(random.below(static_cast<int64_t>(layouts.size())))], {});
    std::vector<int> order = shuffled_hosts(random, 6);
    state.devices = devices_of(cluster, order);
    state.devices.resize(static_cast<size_t>(state.config.world()));
    std::set<HostId> lost;
    for (const int host : order) {
      if (random.below(3) == 0) lost.insert(HostId(host));
    }
    const auto from = collection::megatron_collection(model.model, model.recipe, state.config, state.devices).value();
    collection::Residency residency;
    for (const DeviceId device : state.devices) {
      if (lost.count(cluster.host_of(device)) != 0) residency.lost.insert(device);
    }
    const plan::Plan plan =
        plan::make_plan({.from = from, .to = from, .cluster = cluster, .residency = residency, .options = {}}).value();
    EXPECT_EQ(survives(state, lost, cluster), plan.feasible());
    ++(plan.feasible() ? kept_all : lost_some);
  }
  EXPECT_GT(lost_some, 20);
  EXPECT_GT(kept_all, 20);
}

}  // namespace change_plan_test
}  // namespace scalai::jobs
