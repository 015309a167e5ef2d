#include "ptc/run/control/internal/redundancy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "ptc/base/random.h"
#include "ptc/plan/testing/support.h"
#include "ptc/run/control/testing/control_fixture.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::control {
namespace {

using plan::Location;
using scenario::RedundancyPolicy;
using testing::device_ids;

// ---- known answers: a small GPT on four hosts of two GPUs -----------------------------------------------------------

const scenario::Scenario& small() {
  static const scenario::Scenario kScenario =
      testing::scenario_of(testing::kSmallCluster +
                           testing::job_text("a", "gpus: 1 steps: 1 configs { layout: \"tp1\" }"))
          .value();
  return kScenario;
}

collection::Collection state_of(const std::string& layout, const std::vector<int>& devices) {
  const scenario::JobSpec& spec = small().jobs[0];
  const auto config = collection::parse_layout(layout);
  SCALAI_CHECK(config.ok(), message_of(config.status()));
  return collection::megatron_collection(spec.model, spec.recipe, *config, device_ids(devices)).value();
}

Redundancy plan_of(const collection::Collection& state, const RedundancyPolicy& policy,
                   const std::set<HostId>& down = {}) {
  return plan_redundancy(state, small().cluster, policy, down);
}

int64_t sum(const std::vector<change::BulkFlow>& flows) {
  return std::accumulate(flows.begin(), flows.end(), int64_t{0},
                         [](int64_t total, const change::BulkFlow& flow) { return total + flow.bytes; });
}

int64_t whole(const collection::Collection& state) {
  int64_t bytes = 0;
  for (const collection::LogicalTensor& tensor : state.tensors) bytes += tensor.bytes();
  return bytes;
}

// What ZeRO-1 shards.
int64_t optimizer(const collection::Collection& state) {
  using model::StateKind;
  int64_t bytes = 0;
  for (const collection::LogicalTensor& tensor : state.tensors) {
    const bool sharded =
        tensor.kind == StateKind::kMaster || tensor.kind == StateKind::kExpAvg || tensor.kind == StateKind::kExpAvgSq;
    bytes += sharded ? tensor.bytes() : 0;
  }
  return bytes;
}

int64_t largest_tensor(const collection::Collection& state) {
  int64_t bytes = 0;
  for (const collection::LogicalTensor& tensor : state.tensors) bytes = std::max(bytes, tensor.bytes());
  return bytes;
}

std::map<int, int64_t> by_host(const std::vector<change::BulkFlow>& flows) {
  std::map<int, int64_t> bytes;
  for (const change::BulkFlow& flow : flows) bytes[flow.dst.index] += flow.bytes;
  return bytes;
}

const change::BulkFlow* find(const std::vector<change::BulkFlow>& flows, int device, int host) {
  const auto found = std::find_if(flows.begin(), flows.end(), [&](const change::BulkFlow& flow) {
    return flow.src == Location::device(DeviceId(device)) && flow.dst == Location::host_memory(HostId(host));
  });
  return found == flows.end() ? nullptr : &*found;
}

TEST(Redundancy, CopiesWhatIsOnOneHost) {
  const RedundancyPolicy once{.copies = 1, .other_host = true};
  EXPECT_TRUE(plan_of(state_of("dp2", {0, 2}), once).flows.empty());
  EXPECT_EQ(plan_of(state_of("dp2", {0, 2}), once).survives_host_losses, 1);
  const auto zero = state_of("dp2,zero1", {0, 2});
  const Redundancy found = plan_of(zero, once);
  ASSERT_EQ(found.flows.size(), 2u);
  EXPECT_NE(find(found.flows, 0, 1), nullptr);
  EXPECT_NE(find(found.flows, 2, 0), nullptr);
  for (const auto& copy : found.copies)
    EXPECT_NE(zero.tensors[static_cast<size_t>(copy.tensor.value)].kind, model::StateKind::kParam);
  EXPECT_EQ(found.survives_host_losses, 1);
}

// Two copies: every box is to lie on three hosts. Optimizer shards lie on one and need two copies; all else lies on h0
// and h1 and needs one. The job has only two hosts, so that h2 and h3 take part.
TEST(Redundancy, ReplicasOfABoxCountForAsManyCopies) {
  const auto zero = state_of("dp2,zero1", {0, 2});
  const Redundancy found = plan_of(zero, {.copies = 2, .other_host = true});
  EXPECT_EQ(sum(found.flows), 2 * optimizer(zero) + (whole(zero) - optimizer(zero)));
  EXPECT_EQ(found.survives_host_losses, 2);
  const auto both = state_of("dp2", {0, 2});
  EXPECT_EQ(sum(plan_of(both, {.copies = 2, .other_host = true}).flows), whole(both));
  EXPECT_EQ(sum(plan_of(both, {.copies = 3, .other_host = true}).flows), 2 * whole(both));
  EXPECT_EQ(plan_of(both, {.copies = 3, .other_host = true}).survives_host_losses, 3);
}

TEST(Redundancy, ReplicasOnOneHostAreNoProtectionFromLosingIt) {
  const RedundancyPolicy once{.copies = 1, .other_host = true};
  EXPECT_TRUE(plan_of(state_of("dp2", {0, 1}), {.copies = 1, .other_host = false}).flows.empty());
  EXPECT_TRUE(plan_of(state_of("dp4", {0, 1, 2, 3}), once).flows.empty()) << "two hosts hold everything";
  // Both stages hold the tied embedding, 14 bytes of state a parameter: it is on two hosts already.
  EXPECT_EQ(sum(plan_of(state_of("pp2,dp2", {0, 1, 2, 3}), once).flows), whole(state_of("tp1", {0})) - 14 * 512 * 64);
}

// Each of four hosts holds a quarter of the optimizer. The copies of each go to the hosts after it.
TEST(Redundancy, HostsThatHoldAlikeCopyToTheNextOnes) {
  const auto zero = state_of("dp4,zero1", {0, 2, 4, 6});
  for (const int copies : {1, 2, 3}) {
    const Redundancy found = plan_of(zero, {.copies = copies, .other_host = true});
    EXPECT_EQ(found.survives_host_losses, copies);
    for (int host = 0; host < 4; ++host) {
      for (int next = 1; next <= copies; ++next)
        EXPECT_NE(find(found.flows, host * 2, (host + next) % 4), nullptr) << host << " " << next;
    }
  }
}

// All state is on h0: the other three take a third each, to within a box.
TEST(Redundancy, BytesAreEven) {
  const auto state = state_of("tp2", {0, 1});
  const auto bytes = by_host(plan_of(state, {.copies = 1, .other_host = true}).flows);
  ASSERT_EQ(bytes.size(), 3u);
  for (const auto& [host, held] : bytes)
    EXPECT_NEAR(static_cast<double>(held), static_cast<double>(whole(state)) / 3,
                static_cast<double>(largest_tensor(state)))
        << host;
}

TEST(Redundancy, CopiesAreOnDifferentHosts) {
  const auto state = state_of("tp4", {0, 2, 4, 6});
  std::map<std::pair<TensorId, tensor::Box>, std::set<HostId>> hosts;
  for (const auto& copy : plan_of(state, {.copies = 3, .other_host = true}).copies)
    EXPECT_TRUE(hosts[std::pair(copy.tensor, copy.box)].insert(copy.host).second);
  EXPECT_FALSE(hosts.empty());
}

// Of three copies only one finds a host: that is what the job survives.
TEST(Redundancy, HostsThatAreDownGetNoCopies) {
  const auto state = state_of("tp2", {0, 1});
  const Redundancy found = plan_of(state, {.copies = 2, .other_host = true}, {HostId(1)});
  EXPECT_EQ(by_host(found.flows).size(), 2u);
  EXPECT_EQ(by_host(found.flows).count(1), 0u);
  EXPECT_EQ(found.survives_host_losses, 2);
  const Redundancy fewer = plan_of(state, {.copies = 3, .other_host = true}, {HostId(1), HostId(2)});
  EXPECT_EQ(by_host(fewer.flows), (std::map<int, int64_t>{{3, whole(state)}}));
  EXPECT_EQ(fewer.survives_host_losses, 1);
}

// One copy against the loss of a device lies on its own host. With two, a box on two devices gets one copy, and a box
// on one gets two: the second is elsewhere.
TEST(Redundancy, AgainstLostDevicesTheFirstCopyStaysOnTheHost) {
  const auto alone = state_of("tp1", {0});
  EXPECT_EQ(by_host(plan_of(alone, {.copies = 1, .other_host = false}).flows),
            (std::map<int, int64_t>{{0, whole(alone)}}));
  EXPECT_EQ(plan_of(alone, {.copies = 1, .other_host = false}).survives_host_losses, 0);
  const auto twice = state_of("dp2", {0, 1});
  EXPECT_EQ(by_host(plan_of(twice, {.copies = 2, .other_host = false}).flows),
            (std::map<int, int64_t>{{0, whole(twice)}}));
  const auto bytes = by_host(plan_of(alone, {.copies = 2, .other_host = false}).flows);
  EXPECT_EQ(bytes.at(0), whole(alone));
  EXPECT_EQ(std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                            [](int64_t total, const auto& entry) { return total + entry.second; }),
            2 * whole(alone));
}

// ---- brute force ----------------------------------------------------------------------------------------------------

// Whole on all, cut over one axis or two, flat shards, and on one stage only.
collection::Collection random_state(Random& random, int devices) {
  plan::Sizes sizes;
  do sizes = plan::random_sizes(random, 8);
  while (sizes.world() > devices);
  const auto cut = [](const char* axis, int dim) { return plan::cut_over(axis, dim); };
  std::vector<collection::LogicalTensor> tensors = {
      plan::tensor_of("whole", {6}, {}), plan::tensor_of("rows", {7, 3}, {cut("tp", 0)}),
      plan::tensor_of("blocks", {5, 8}, {cut("tp", 0), cut("dp", 1)}), plan::tensor_of("shards", {9}, {cut("dp", 0)}),
      plan::tensor_of("stage", {4, 4}, {cut("tp", 1)}, {{"pp", {static_cast<int>(random.below(sizes.pp))}}})};
  return plan::collection_of({{"tp", sizes.tp}, {"dp", sizes.dp}, {"pp", sizes.pp}},
                             plan::random_devices(random, sizes.world(), devices), tensors);
}

// For every element of every tensor, the hosts (bits) that have it on a device or in memory.
std::vector<uint32_t> hosts_of_elements(const collection::Collection& state, const cluster::Cluster& cluster,
                                        const std::vector<collection::ExtraHolder>& copies) {
  std::vector<uint32_t> all;
  for (size_t t = 0; t < state.tensors.size(); ++t) {
    const TensorId id(static_cast<int64_t>(t));
    const tensor::Shape& shape = state.tensors[t].shape;
    const auto strides = shape.strides();
    std::vector<uint32_t> hosts(static_cast<size_t>(shape.elements()), 0);
    const auto mark = [&](const tensor::Box& box, HostId host) {
      for (int64_t element = 0; element < shape.elements(); ++element) {
        bool inside = true;
        int64_t rest = element;
        for (size_t dim = 0; dim < static_cast<size_t>(shape.rank()); ++dim) {
          const int64_t at = rest / strides[dim];
          rest %= strides[dim];
          inside = inside && box.lo[dim] <= at && at < box.hi[dim];
        }
        if (inside) hosts[static_cast<size_t>(element)] |= 1U << host.value;
      }
    };
    for (int rank = 0; rank < state.ranks(); ++rank) {
      for (const tensor::Piece& piece : state.pieces(id, LogicalRank(rank)).pieces)
        mark(piece.box, cluster.host_of(state.device_of_rank[static_cast<size_t>(rank)]));
    }
    for (const collection::ExtraHolder& copy : copies) {
      if (copy.tensor == id) mark(copy.box, copy.host);
    }
    all.insert(all.end(), hosts.begin(), hosts.end());
  }
  return all;
}

bool covered_without(const std::vector<uint32_t>& elements, uint32_t lost) {
  return std::all_of(elements.begin(), elements.end(), [&](uint32_t hosts) { return (hosts & ~lost) != 0; });
}

// Any so many hosts may be lost, and some set of one more may not.
void expect_survives(const std::vector<uint32_t>& elements, int hosts, int losses) {
  bool more = true;
  for (uint32_t lost = 0; lost < 1U << hosts; ++lost) {
    if (std::popcount(lost) <= losses) {
      ASSERT_TRUE(covered_without(elements, lost)) << "lost " << lost;
    }
    if (std::popcount(lost) == losses + 1) more = more && covered_without(elements, lost);
  }
  EXPECT_FALSE(more) << "it survives the loss of any " << losses + 1;
}

TEST(RedundancyProperty, SurvivesExactlyWhatItSays) {
  constexpr uint64_t kSeed = 20261125;
  int copied = 0, replicated = 0;
  for (uint64_t seed = kSeed; seed < kSeed + 300; ++seed) {
    Random random(seed);
    const int hosts = static_cast<int>(random.between(2, 6));
    const cluster::Cluster cluster = plan::cluster_of(hosts, static_cast<int>(random.between(1, 3)));
    const collection::Collection state = random_state(random, cluster.device_count());
    const RedundancyPolicy policy{.copies = static_cast<int>(random.between(1, hosts - 1)),
                                  .other_host = random.below(4) != 0};
    std::set<HostId> down;
    for (int host = 0; host < hosts; ++host) {
      const bool used = std::any_of(state.device_of_rank.begin(), state.device_of_rank.end(),
                                    [&](DeviceId device) { return cluster.host_of(device) == HostId(host); });
      if (!used && random.below(4) == 0) down.insert(HostId(host));
    }
    SCOPED_TRACE(::testing::Message() << "seed " << seed << ": " << hosts << " hosts, " << down.size() << " down, "
                                      << policy.copies << " copies");
    const Redundancy found = plan_redundancy(state, cluster, policy, down);
    const std::vector<uint32_t> elements = hosts_of_elements(state, cluster, found.copies);
    expect_survives(elements, hosts, found.survives_host_losses);
    const int up = hosts - static_cast<int>(down.size());
    if (policy.other_host) {
      EXPECT_GE(found.survives_host_losses, std::min(policy.copies, up - 1));
    }
    // Not more than is missing: without the copies no box had as many hosts as the policy asks for.
    const std::vector<uint32_t> before = hosts_of_elements(state, cluster, {});
    for (size_t i = 0; policy.other_host && i < elements.size(); ++i) {
      EXPECT_EQ(std::popcount(elements[i]), std::max(std::popcount(before[i]), std::min(policy.copies + 1, up)));
    }
    for (const collection::ExtraHolder& copy : found.copies) EXPECT_EQ(down.count(copy.host), 0u);
    copied += found.copies.empty() ? 0 : 1;
    const bool some = std::any_of(before.begin(), before.end(), [](uint32_t b) { return std::popcount(b) > 1; });
    replicated += !found.copies.empty() && some ? 1 : 0;
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(copied, 100);
  EXPECT_GT(replicated, 50);
}

// ---- before devices are taken ---------------------------------------------------------------------------------------

// Senders have so many units of 12 rows, which go to `in.size()` hosts; each host carries at most `out` or `in` units.
// The most by trying every number of units for every pair.
int most_units(std::vector<int> have, std::vector<int> out, std::vector<int> in, size_t pair = 0) {
  if (pair == have.size() * in.size()) return 0;
  const size_t from = pair / in.size(), to = pair % in.size();
  int most = 0;
  for (int units = 0; units <= std::min({have[from], out[from], in[to]}); ++units) {
    std::vector<int> have_left = have, out_left = out, in_left = in;
    have_left[from] -= units;
    out_left[from] -= units;
    in_left[to] -= units;
    most = std::max(most, units + most_units(have_left, out_left, in_left, pair + 1));
  }
  return most;
}

TEST(Fill, SavesAsMuchAsAnyWay) {
  const cluster::Cluster cluster = plan::cluster_of(5, 1);
  constexpr int64_t kUnit = 12 * 4;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const auto senders = static_cast<size_t>(random.between(1, 2)), takers = static_cast<size_t>(random.between(1, 3));
    std::vector<int> have(senders), out(senders), in(takers);
    Redundancy copies;
    std::map<HostId, int64_t> out_bytes, in_bytes;
    for (size_t i = 0; i < senders; ++i) {
      have[i] = static_cast<int>(random.below(7));
      out[i] = static_cast<int>(random.below(7));
      out_bytes[HostId(static_cast<int>(i))] = out[i] * kUnit;
      for (int unit = 0; unit < have[i]; ++unit) {
        copies.copies.push_back({TensorId(0), tensor::Box({12 * unit}, {12 * unit + 12}), HostId(4)});
        copies.origins.emplace_back(DeviceId(static_cast<int>(i)), kUnit);
      }
    }
    for (size_t i = 0; i < takers; ++i)
      in_bytes[HostId(static_cast<int>(2 + i))] = (in[i] = static_cast<int>(random.below(7))) * kUnit;
    const Redundancy filled = fill(copies, cluster, out_bytes, in_bytes);
    EXPECT_EQ(sum(filled.flows), most_units(have, out, in) * kUnit);
    for (const change::BulkFlow& flow : filled.flows) {
      out_bytes[HostId(flow.src.index)] -= flow.bytes;
      in_bytes[HostId(flow.dst.index)] -= flow.bytes;
    }
    for (const auto& [host, left] : out_bytes) EXPECT_GE(left, 0) << host.value;
    for (const auto& [host, left] : in_bytes) EXPECT_GE(left, 0) << host.value;
  }
}

// A box of 10 rows of 4 bytes, 27 bytes of room: 6 rows.
TEST(Fill, CutsBetweenRows) {
  const cluster::Cluster cluster = plan::cluster_of(2, 1);
  Redundancy copies;
  copies.copies = {{TensorId(3), tensor::Box({20}, {30}), HostId(1)}};
  copies.origins = {{DeviceId(0), 40}};
  const Redundancy filled = fill(copies, cluster, {{HostId(0), 1000}}, {{HostId(1), 27}});
  ASSERT_EQ(filled.copies.size(), 1u);
  EXPECT_EQ(filled.copies[0].box, tensor::Box({20}, {26}));
  EXPECT_EQ(sum(filled.flows), 24);
}

TEST(PlanEvacuation, CopiesWhatIsNowhereElseToHostsThatStay) {
  const collection::Collection state = state_of("pp2,dp2", {0, 1, 2, 3});  // stages on h0 and h1, both replicas on one
  const Redundancy copies = plan_evacuation(state, small().cluster, {DeviceId(2), DeviceId(3)}, {HostId(1)});
  int64_t sole = 0;  // the embedding is on both ends of the pipeline
  for (size_t i = 0; i < state.tensors.size(); ++i) {
    const bool first = !state.pieces(TensorId(static_cast<int>(i)), LogicalRank(0)).pieces.empty() ||
                       !state.pieces(TensorId(static_cast<int>(i)), LogicalRank(1)).pieces.empty();
    if (!first) sole += state.tensors[i].bytes();
  }
  EXPECT_GT(sole, 0);
  EXPECT_EQ(sum(copies.flows), sole);
  for (const auto& [host, bytes] : by_host(copies.flows)) EXPECT_EQ(host, 0) << "the job's own that stays";
  EXPECT_TRUE(plan_evacuation(state, small().cluster, {DeviceId(3)}, {}).copies.empty()) << "g2 has it all";
}

}  // namespace
}  // namespace scalai::control
