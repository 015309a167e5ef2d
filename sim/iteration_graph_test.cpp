#include "sim/internal/iteration_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/testing/iteration_fixture.h"

namespace scalai::sim {
namespace {

using step::Communication;
using step::StepParts;
using testing::cluster_of;
using ::testing::ElementsAre;
using testing::layout;
using testing::plain_parts;

Communication traffic(Communication::Link link) { return {.link = link, .latency_s = 0, .bytes = 1, .seconds = 1}; }

// A job with traffic of every kind, on hosts of 4 GPUs with a NIC each.
struct Setting {
  cluster::Cluster cluster;
  change::Platform platform;
  collection::ParallelConfig config;
  StepParts parts;
  std::vector<DeviceId> devices;
  std::vector<int> parts_of_rank = {};

  Setting(const std::string& layout_name, int hosts)
      : cluster(cluster_of("h100-80g", hosts, {.gpus = 4, .nics = 4, .nic_bytes_per_s = 1})),
        platform(cluster),
        config(layout(layout_name)),
        parts(plain_parts(config, config.pp, 1, 1)),
        devices(testing::devices_from(0, config.world())) {
    for (step::StageWork& stage : parts.stages) {
      stage.forward[0].tp = traffic(Communication::Link::kGpuLink);
      stage.gradients = traffic(Communication::Link::kNetwork);
    }
  }

  IterationGraph graph() const {
    const std::vector<StepParts> both = {parts, parts};
    const IterationJob job{.config = config, .devices = devices, .parts = both, .parts_of_rank = parts_of_rank};
    return graph_of(platform, {&job, 1});
  }
  Symmetry symmetry(const IterationGraph& graph) const { return symmetry_of(graph, platform.spec()); }
  // Names of the links that a rank's flow takes.
  std::vector<std::string> way(const IterationGraph& graph, int rank, Traffic what, int between) const {
    const FlowEnds ends =
        graph.ranks[static_cast<size_t>(rank)].flows[static_cast<size_t>(what)][static_cast<size_t>(between)];
    std::vector<std::string> names;
    if (ends.src < 0) return names;
    const change::NetworkSpec& spec = platform.spec();
    for (const int link : spec.endpoints[static_cast<size_t>(ends.src)].up)
      names.push_back(spec.links[static_cast<size_t>(link)].name);
    for (const int link : spec.endpoints[static_cast<size_t>(ends.dst)].down)
      names.push_back(spec.links[static_cast<size_t>(link)].name);
    return names;
  }
};

TEST(IterationGraph, RingsStayInHostsOrGoThroughThem) {
  const Setting setting("tp2,dp4", 2);
  const IterationGraph graph = setting.graph();
  EXPECT_THAT(setting.way(graph, 0, Traffic::kTp, 0), ElementsAre("h0.g0.up", "h0.g1.down"));
  EXPECT_THAT(setting.way(graph, 1, Traffic::kTp, 0), ElementsAre("h0.g1.up", "h0.g0.down"));
  // Ranks 0 and 2 are the group's members of host 0, ranks 4 and 6 those of host 1.
  EXPECT_THAT(setting.way(graph, 2, Traffic::kDp, 1),
              ElementsAre("h0.g2.pcie.up", "h0.nic2.up", "h1.nic2.down", "h1.g2.pcie.down"));
  EXPECT_THAT(setting.way(graph, 4, Traffic::kDp, 1),
              ElementsAre("h1.g0.pcie.up", "h1.nic0.up", "h0.nic0.down", "h0.g0.pcie.down"));
  // What no part of the step uses does not flow.
  EXPECT_TRUE(setting.way(graph, 0, Traffic::kTp, 1).empty());
  EXPECT_TRUE(setting.way(graph, 0, Traffic::kDp, 0).empty());
  EXPECT_TRUE(setting.way(graph, 0, Traffic::kForward, 0).empty());
  EXPECT_THAT(graph.group_members, ElementsAre(2, 2, 2, 2, 4, 4));
}

TEST(IterationGraph, MessagesGoToTheNeighbouringStages) {
  const Setting setting("tp2,pp4", 2);
  const IterationGraph graph = setting.graph();
  EXPECT_EQ(graph.ranks[3].next, 5);
  EXPECT_EQ(graph.ranks[3].previous, 1);
  EXPECT_EQ(graph.ranks[7].next, 1) << "the last stage's next chunk is on the first";
  EXPECT_THAT(setting.way(graph, 1, Traffic::kForward, 0), ElementsAre("h0.g1.up", "h0.g3.down"));
  EXPECT_THAT(setting.way(graph, 4, Traffic::kBackward, 0),
              ElementsAre("h1.g0.pcie.up", "h1.nic0.up", "h0.nic2.down", "h0.g2.pcie.down"));
}

TEST(IterationGraph, RanksThatDoTheSameAreOneClass) {
  const Setting setting("tp4,pp2,dp2", 4);
  const IterationGraph graph = setting.graph();
  const Symmetry symmetry = setting.symmetry(graph);
  EXPECT_EQ(symmetry.rank_classes, 2) << "a class a stage";
  const FoldedIteration folded = fold(graph, setting.platform.spec(), symmetry);
  EXPECT_EQ(folded.graph.ranks.size(), 2u);
  EXPECT_EQ(folded.graph.ranks[0].next, 1);
  EXPECT_TRUE(change::check_network(folded.network).ok());
}

TEST(IterationGraph, OneSlowRankIsAClassOfItsOwn) {
  Setting setting("tp4,dp2", 2);
  setting.parts_of_rank = {0, 0, 0, 0, 0, 1, 0, 0};
  const IterationGraph graph = setting.graph();
  const Symmetry symmetry = setting.symmetry(graph);
  const int slow = symmetry.class_of_rank[5];
  for (size_t rank = 0; rank < 8; ++rank) {
    if (rank == 5) continue;
    EXPECT_NE(symmetry.class_of_rank[rank], slow) << rank;
  }
}

// Without links to tell them apart: who gets messages from a slow rank is not like who gets them from others.
TEST(IterationGraph, NeighboursOfASlowRankAreClassesOfTheirOwn) {
  const cluster::Cluster cluster = testing::ideal_cluster(3, 2);
  const change::Platform platform(cluster);
  const collection::ParallelConfig config = layout("pp3,dp2");
  const StepParts parts = plain_parts(config, 3, 1, 1);
  const std::vector<StepParts> both = {parts, parts};
  const std::vector<DeviceId> devices = testing::devices_from(0, 6);
  const std::vector<int> parts_of_rank = {1, 0, 0, 0, 0, 0};
  const IterationJob job{.config = config, .devices = devices, .parts = both, .parts_of_rank = parts_of_rank};
  const IterationGraph graph = graph_of(platform, {&job, 1});
  EXPECT_EQ(symmetry_of(graph, platform.spec()).rank_classes, 6);
}

// Four replicas on one host send over one NIC each to the next host, over one spine: weights count them.
TEST(IterationGraph, WeightsCountFlowsOnSharedLinks) {
  Setting setting("tp1,dp8", 2);
  setting.cluster.fabric = cluster::FabricKind::kStar;
  setting.cluster.backbone_bytes_per_s = 3;
  const change::Platform platform(setting.cluster);
  const IterationJob job{.config = setting.config, .devices = setting.devices, .parts = {&setting.parts, 1}};
  const IterationGraph graph = graph_of(platform, {&job, 1});
  const FoldedIteration folded = fold(graph, platform.spec(), symmetry_of(graph, platform.spec()));
  ASSERT_EQ(folded.graph.ranks.size(), 1u);
  const FlowEnds ends = folded.graph.ranks[0].flows[static_cast<size_t>(Traffic::kDp)][1];
  const change::EndpointSpec& src = folded.network.endpoints[static_cast<size_t>(ends.src)];
  bool shared = false;
  for (size_t i = 0; i < src.up.size(); ++i) {
    const bool is_fabric = folded.network.links[static_cast<size_t>(src.up[i])].name == "fabric";
    EXPECT_EQ(src.up_weights[i], is_fabric ? 8 : 1) << folded.network.links[static_cast<size_t>(src.up[i])].name;
    shared = shared || is_fabric;
  }
  EXPECT_TRUE(shared);
}

}  // namespace
}  // namespace scalai::sim
