// Known answers of resharding: what must come out whoever plans it, computed by hand. This file has the rows that no
// test beside a source has; the others are
//
//   column-parallel 4 → 2, row-parallel 2 → 4, fused gate and up,
//   vocabulary 2 → 8, experts 4 → 8, in rank order                   planner_test, KnownAnswers
//   shrink by a replica, loss of one and of both, 2 → 6 on six hosts planner_test, KnownAnswers
//   padded vocabulary sizes, ceil and balanced conventions           ptc/state/tensor/layout_test, PartOf
//   experts by global id                                             ptc/state/collection/megatron_test
//   swap under a memory cap, a cap too small                         rounds_test, MemoryCap
//
// "Best" is the optimum over all assignments of the new shards to the named devices.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ptc/plan/estimate.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/testing/support.h"

namespace scalai::plan {
namespace {

using collection::Collection;
using tensor::SplitRule;
using testing::Each;
using testing::ElementsAre;
using testing::Le;

constexpr int64_t kRowBytes = 4;  // one F32 element a row

std::map<int, int64_t> received(const Plan& plan) {
  std::map<int, int64_t> bytes;
  for (const DeviceId device : plan.dst_devices()) bytes[device.value] = 0;
  for (const Operation& operation : plan.operations()) {
    if (operation.src != Location::device(operation.dst)) bytes[operation.dst.value] += operation.bytes;
  }
  return bytes;
}

int64_t most_sent(const Plan& plan) {
  std::map<Location, int64_t> bytes;
  int64_t most = 0;
  for (const Operation& operation : plan.operations()) {
    if (operation.src == Location::device(operation.dst)) continue;
    most = std::max(most, bytes[operation.src] += operation.bytes);
  }
  return most;
}

// The job with its ranks placed on the first devices of the cluster by this rule.
Case placed(Case job, int candidates, PlacementRule rule) {
  job.placement.rule = rule;
  job.to.device_of_rank = place(job.input(), job.placement, first_devices(candidates));
  return job;
}

// Every way to give the new ranks to the first `candidates` devices, planned.
int64_t best_of_all(Case job, int candidates) {
  std::vector<DeviceId> order = first_devices(candidates);
  int64_t best = make_plan(job.input()).value().bytes().moved();
  do {
    std::copy_n(order.begin(), job.to.device_of_rank.size(), job.to.device_of_rank.begin());
    best = std::min(best, make_plan(job.input()).value().bytes().moved());
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

constexpr PlacementRule kPlacing[] = {PlacementRule::kHosts, PlacementRule::kFree};

// --- Row: column-parallel W[1024, c], TP4 → TP2 ----------------------------------------------------------------------

TEST(KnownAnswers, ColumnParallelFourToTwoBestPlacement) {
  constexpr int64_t kColumns = 3, kBytes = kColumns * 4;
  const Case job{.from = one_tensor({1024, kColumns}, cut_over("tp", 0), first_devices(4)),
                 .to = one_tensor({1024, kColumns}, cut_over("tp", 0), first_devices(2))};
  EXPECT_EQ(job.plan().bytes().moved(), 768 * kBytes);
  EXPECT_EQ(best_of_all(job, 4), 512 * kBytes);
  for (const PlacementRule rule : kPlacing) {
    const Case best = placed(job, 4, rule);
    EXPECT_EQ(best.to.device_of_rank, devices({0, 2}));
    EXPECT_THAT(received(best.plan()), ElementsAre(std::pair(0, 256 * kBytes), std::pair(2, 256 * kBytes)));
  }
}

// --- Row: row-parallel (dim 1), TP2 → TP4, 1024 columns --------------------------------------------------------------

TEST(KnownAnswers, RowParallelTwoToFourBestPlacement) {
  constexpr int64_t kRows = 3, kBytes = kRows * 4;
  const Case job{.from = one_tensor({kRows, 1024}, cut_over("tp", 1), first_devices(2)),
                 .to = one_tensor({kRows, 1024}, cut_over("tp", 1), first_devices(4))};
  EXPECT_EQ(job.plan().bytes().moved(), 768 * kBytes);
  EXPECT_EQ(best_of_all(job, 4), 512 * kBytes);
  for (const PlacementRule rule : kPlacing) EXPECT_EQ(placed(job, 4, rule).plan().bytes().moved(), 512 * kBytes);
}

// What travels is part of every row of the sender's buffer: 256 columns, then 256 that stay.
TEST(KnownAnswers, RowParallelSlicesAreStrided) {
  const Case job{.from = one_tensor({3, 1024}, cut_over("tp", 1), first_devices(2)),
                 .to = one_tensor({3, 1024}, cut_over("tp", 1), first_devices(4))};
  int moves = 0;
  for (const Operation& operation : job.plan().operations()) {
    if (operation.src == Location::device(operation.dst)) continue;
    ++moves;
    const tensor::LocalBuffer sender = job.from.pieces(TensorId(0), LogicalRank(operation.src.index));
    ASSERT_EQ(sender.pieces.size(), 1U);
    EXPECT_EQ(operation.box.hi[0] - operation.box.lo[0], 3);
    EXPECT_EQ(operation.box.hi[1] - operation.box.lo[1], 256);
    EXPECT_EQ(sender.pieces[0].strides[0], 512);
    EXPECT_EQ(sender.pieces[0].strides[1], 1);
  }
  EXPECT_EQ(moves, 3);
}

// --- Row: SwiGLU fused [gate_r; up_r], F = 1408, TP2 → TP4 -----------------------------------------------------------

constexpr int64_t kFfn = 1408;

// Row p of rank r's fused buffer over tp ranks: its share of the gate (0 … F−1), then of up (F … 2F−1).
int64_t fused_row(int tp, int64_t rank, int64_t p) {
  const int64_t share = kFfn / tp;
  return p < share ? rank * share + p : kFfn + rank * share + p - share;
}

// Rows of a rank's new buffer, tensor after tensor, that are not what fused_row wants there. row_of(tensor, index) says
// which row the old job had put there.
template <class RowOf>
int wrong_rows(const Collection& to, int rank, RowOf row_of) {
  int wrong = 0;
  int64_t p = 0;
  for (size_t tensor = 0; tensor < to.tensors.size(); ++tensor) {
    for (const auto& piece : to.pieces(TensorId(static_cast<int64_t>(tensor)), LogicalRank(rank)).pieces) {
      for (int64_t index = piece.box.lo[0]; index < piece.box.hi[0]; ++index)
        wrong += row_of(tensor, index) == fused_row(to.ranks(), rank, p++) ? 0 : 1;
    }
  }
  return wrong;
}

// Taken for one contiguous axis, the fused buffer moves as many bytes and both interpreters find the plan right: it is
// the collection that is wrong.
TEST(KnownAnswers, FusedBufferTakenForOneAxisHasWrongRows) {
  const auto two_tensors = [](int tp) {
    return collection_of(
        {{"tp", tp}}, first_devices(tp),
        {tensor_of("gate", {kFfn}, {cut_over("tp", 0)}), tensor_of("up", {kFfn}, {cut_over("tp", 0)})});
  };
  const Case right{.from = two_tensors(2), .to = two_tensors(4)};
  const Case trap{.from = one_tensor({2 * kFfn}, cut_over("tp", 0), first_devices(2)),
                  .to = one_tensor({2 * kFfn}, cut_over("tp", 0), first_devices(4))};
  for (const Case* job : {&right, &trap}) {
    EXPECT_THAT(received(job->plan()), ElementsAre(std::pair(0, 0), std::pair(1, 704 * kRowBytes),
                                                   std::pair(2, 704 * kRowBytes), std::pair(3, 704 * kRowBytes)));
  }
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(wrong_rows(right.to, rank,
                         [](size_t tensor, int64_t index) { return static_cast<int64_t>(tensor) * kFfn + index; }),
              0);
    EXPECT_EQ(wrong_rows(trap.to, rank, [](size_t, int64_t index) { return fused_row(2, index / kFfn, index % kFfn); }),
              352);
  }
}

// --- Row: vocabulary 50257 padded to 128·TP --------------------------------------------------------------------------

TEST(KnownAnswers, VocabularyPaddingStaysAtHome) {
  const tensor::Cut vocab = cut_over("tp", 0, SplitRule::kPadded, 128);
  const Case job{.from = one_tensor({50257}, vocab, first_devices(2)),
                 .to = one_tensor({50257}, vocab, first_devices(8))};
  const auto padding = [](const Collection& side, int rank) {
    const tensor::LocalBuffer buffer = side.pieces(TensorId(0), LogicalRank(rank));
    int64_t rows = buffer.elements;
    for (const auto& piece : buffer.pieces) rows -= piece.box.volume();
    return rows;
  };
  EXPECT_EQ(padding(job.from, 0), 0);
  EXPECT_EQ(padding(job.from, 1), 175);
  for (int rank = 0; rank < 7; ++rank) EXPECT_EQ(padding(job.to, rank), 0);
  EXPECT_EQ(padding(job.to, 7), 943);
  const Plan plan = job.plan();
  EXPECT_EQ(plan.bytes().moved(), 43857 * kRowBytes);
  EXPECT_EQ(received(plan)[7], (6400 - 943) * kRowBytes);
  for (const Operation& operation : plan.operations()) EXPECT_LE(operation.box.hi[0], 50257);
}

// --- Row: uneven conventions on dim 0 --------------------------------------------------------------------------------

TEST(KnownAnswers, EveryUnevenConventionOntoEveryOther) {
  const auto moved_rows = [](int64_t rows, SplitRule from, int parts, SplitRule to, int new_parts) {
    const Case job{.from = one_tensor({rows}, cut_over("x", 0, from), first_devices(parts)),
                   .to = one_tensor({rows}, cut_over("x", 0, to), first_devices(new_parts))};
    return job.plan().bytes().moved() / kRowBytes;
  };
  const SplitRule ceil = SplitRule::kCeil, balanced = SplitRule::kBalanced;
  EXPECT_EQ(moved_rows(10, ceil, 4, balanced, 4), 1);  // [3,3,3,1] → [3,3,2,2]: row 8
  EXPECT_EQ(moved_rows(10, balanced, 4, ceil, 4), 1);  // and back
  EXPECT_EQ(moved_rows(10, ceil, 3, balanced, 4), 5);  // [4,4,2] → [3,3,2,2]: row 3, rows 6-7, rows 8-9
  EXPECT_EQ(moved_rows(10, ceil, 8, ceil, 3), 8);      // [2,2,2,2,2,0,0,0] → [4,4,2]: 2 + 4 + 2
  EXPECT_EQ(moved_rows(6, ceil, 4, balanced, 4), 1);   // [2,2,2,0] → [2,2,1,1]: row 5 to the part that was empty …
  EXPECT_EQ(moved_rows(6, balanced, 4, ceil, 4), 1);   // … and back to part 2
}

// --- Row: MoE, 16 experts, EP4 → EP8 ---------------------------------------------------------------------------------

// Devices 4 to 7 have nothing and need two experts each, so that no placement moves less than eight.
TEST(KnownAnswers, SixteenExpertsFourToEightBestPlacement) {
  const auto side = [](int ep) {
    std::vector<collection::LogicalTensor> experts;
    for (int e = 0; e < 16; ++e)
      experts.push_back(tensor_of("experts." + std::to_string(e), {1}, {}, {{"ep", {e * ep / 16}}}));
    return collection_of({{"ep", ep}}, first_devices(ep), experts);
  };
  Case job{.from = side(4), .to = side(8)};
  EXPECT_EQ(job.plan().bytes().moved(), 14 * kRowBytes);
  job.cluster = cluster_of(1, 8);
  for (const PlacementRule rule : kPlacing)
    EXPECT_EQ(placed(job, 8, rule).plan().bytes().moved(), 8 * kRowBytes) << "one host";
  job.cluster = cluster_of(2, 4);
  const Plan plan = placed(job, 8, PlacementRule::kFree).plan();
  EXPECT_EQ(plan.bytes().moved(), 8 * kRowBytes) << "two hosts";
  EXPECT_THAT(received(plan), ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(2, 0), std::pair(3, 0),
                                          std::pair(4, 8), std::pair(5, 8), std::pair(6, 8), std::pair(7, 8)));
}

// --- Row: shrink (tp, pp, dp) (2, 2, 2) → (2, 2, 1) ------------------------------------------------------------------

// Four layers of eight rows, in rank order tp, dp, pp.
Collection four_layers(int dp, const std::vector<DeviceId>& devices) {
  std::vector<collection::LogicalTensor> layers;
  for (int layer = 0; layer < 4; ++layer) {
    layers.push_back(tensor_of("layers." + std::to_string(layer), {8}, {cut_over("tp", 0)}, {{"pp", {layer / 2}}}));
  }
  return collection_of({{"tp", 2}, {"dp", dp}, {"pp", 2}}, devices, layers);
}

TEST(KnownAnswers, ShrinkFindsTheSurvivorsThatHoldTheModel) {
  const Case in_order{.from = four_layers(2, first_devices(8)), .to = four_layers(1, first_devices(4))};
  EXPECT_EQ(in_order.plan().bytes().moved(), 4 * 8 * 4 / 2) << "half the model";
  const Case survivors{.from = in_order.from, .to = four_layers(1, devices({0, 1, 4, 5}))};
  EXPECT_EQ(survivors.plan().bytes(), (ClassBytes{.kept = 4 * 8 * 4}));
  for (const PlacementRule rule : kPlacing)
    EXPECT_EQ(placed(in_order, 8, rule).plan().bytes(), (ClassBytes{.kept = 4 * 8 * 4}));
}

TEST(KnownAnswers, ShrinkAfterALossKeepsWhatItsTwinHolds) {
  for (int lost = 0; lost < 8; ++lost) {
    SCOPED_TRACE(testing::Message() << "device " << lost);
    Case job{.from = four_layers(2, first_devices(8)), .to = four_layers(1, first_devices(4))};
    job.residency.lost = {DeviceId(lost)};
    std::vector<DeviceId> alive = first_devices(8);
    alive.erase(alive.begin() + lost);
    job.placement.rule = PlacementRule::kFree;
    job.to.device_of_rank.assign(alive.begin(), alive.begin() + 4);
    job.to.device_of_rank = place(job.input(), job.placement, alive);
    const Plan plan = job.plan();
    EXPECT_TRUE(plan.feasible());
    EXPECT_EQ(plan.bytes(), (ClassBytes{.kept = 4 * 8 * 4})) << "the twin stays in the job";
  }
}

// --- Row: grow DP2 → DP6, model of M bytes ---------------------------------------------------------------------------

TEST(KnownAnswers, GrowTwoReplicasToSixSharesTheSending) {
  constexpr int64_t kModel = 4000;
  const std::pair<int, int> kShapes[] = {{6, 1}, {3, 2}, {2, 3}, {1, 6}, {4, 4}};
  for (const auto& [hosts, gpus] : kShapes) {
    SCOPED_TRACE(testing::Message() << hosts << " hosts of " << gpus);
    Case job{.from = replicas({1000}, first_devices(2)), .to = replicas({1000}, first_devices(6))};
    job.cluster = cluster_of(hosts, gpus);
    const Plan plan = job.plan();
    EXPECT_EQ(plan.bytes().moved(), 4 * kModel);
    EXPECT_LE(most_sent(plan), 2 * kModel);
    EXPECT_THAT(received(plan), ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(2, kModel),
                                            std::pair(3, kModel), std::pair(4, kModel), std::pair(5, kModel)));
  }
}

// One rank that sends everything is what the rule "first replica" is for: a comparison.
TEST(KnownAnswers, GrowFromOneSenderTakesAllOfIt) {
  Case job{.from = replicas({1000}, first_devices(2)), .to = replicas({1000}, first_devices(6))};
  job.cluster = cluster_of(6, 1);
  job.options.sources = SourceRule::kFirstReplica;
  EXPECT_EQ(most_sent(job.plan()), 4 * 4000);
}

// Two chains of two hops: each link carries the model once, so that the time is M / B and a latency for each hop.
TEST(KnownAnswers, GrowByRelayTakesTheTimeOfOneModel) {
  Case job{.from = replicas({1 << 18}, first_devices(2)), .to = replicas({1 << 18}, first_devices(6))};
  job.cluster = cluster_of(6, 1);
  for (cluster::Host& host : job.cluster.hosts) host.nic_bytes_per_s = 1 << 20;
  EXPECT_NEAR(estimate_seconds(job.plan(), job.cluster), 1 + 2 * kMessageLatency_s, 1e-9);
}

// --- Row: identity, identity with ranks reversed, source and destination disjoint ------------------------------------

TEST(KnownAnswers, IdentityMovesNothing) {
  for (const Sizes sizes : {Sizes{4, 2, 2}, Sizes{3, 2, 2}, Sizes{1, 4, 1}, Sizes{1, 1, 5}}) {
    SCOPED_TRACE(sizes.str());
    const Collection same = grid_collection(sizes, first_devices(sizes.world()));
    const Plan plan = Case{.from = same, .to = same}.plan();
    EXPECT_EQ(plan.bytes(), (ClassBytes{.kept = plan.bytes().kept}));
    EXPECT_GT(plan.bytes().kept, 0);
  }
}

TEST(KnownAnswers, IdentityWithReversedRanksMovesNothingWhenPlaced) {
  for (const Sizes sizes : {Sizes{4, 2, 2}, Sizes{3, 2, 2}, Sizes{1, 4, 1}, Sizes{1, 1, 5}}) {
    SCOPED_TRACE(sizes.str());
    std::vector<DeviceId> reversed = first_devices(sizes.world());
    std::reverse(reversed.begin(), reversed.end());
    const Case job{.from = grid_collection(sizes, first_devices(sizes.world())),
                   .to = grid_collection(sizes, reversed)};
    if (sizes.tp > 1 || sizes.pp > 1) {
      EXPECT_GT(job.plan().bytes().moved(), 0) << "in rank order";
    }
    const Plan plan = placed(job, sizes.world(), PlacementRule::kFree).plan();
    EXPECT_EQ(plan.bytes(), (ClassBytes{.kept = plan.bytes().kept}));
  }
}

TEST(KnownAnswers, DisjointDevicesMoveAllBytes) {
  for (const Sizes sizes : {Sizes{4, 2, 1}, Sizes{2, 2, 2}, Sizes{1, 1, 5}}) {
    SCOPED_TRACE(sizes.str());
    const Collection from = grid_collection(sizes, first_devices(sizes.world()));
    const int64_t all = Case{.from = from, .to = from}.plan().bytes().kept;
    const Case job{.from = from, .to = grid_collection(sizes, first_devices(sizes.world(), 8))};
    const Plan plan = job.plan();
    EXPECT_EQ(plan.bytes().moved(), all);
    EXPECT_EQ(plan.bytes().kept + plan.bytes().same_device, 0);
  }
}

// --- Row: swap two one-shard layouts under 1.0 shard and one chunk ---------------------------------------------------

// The chunk is a tensor's part on a device (128 MiB), then 64 MiB; a shard has four such parts.
TEST(KnownAnswers, SwapOfBigTensorsKeepsOneShardAndOneChunk) {
  constexpr int64_t kMiB = 1 << 20, kShard = 4 * 128 * kMiB;
  std::vector<collection::LogicalTensor> tensors;
  for (int i = 0; i < 4; ++i)
    tensors.push_back(tensor_of("w" + std::to_string(i), {int64_t{1} << 20, 64}, {cut_over("tp", 0)}));
  Case job{.from = collection_of({{"tp", 2}}, devices({0, 4}), tensors),
           .to = collection_of({{"tp", 2}}, devices({4, 0}), tensors)};
  for (const int64_t chunk : {128 * kMiB, 64 * kMiB}) {
    SCOPED_TRACE(testing::Message() << "chunk " << chunk);
    job.options.memory_cap = chunk;
    const Plan plan = job.plan();
    EXPECT_EQ(plan.bytes(), (ClassBytes{.cross_host = 2 * kShard}));
    ASSERT_EQ(plan.memory().size(), 2U);
    std::vector<int64_t> high_water;
    for (const DeviceMemory& memory : plan.memory()) high_water.push_back(memory.before + memory.peak_extra);
    EXPECT_THAT(high_water, Each(Le(kShard + chunk)));
  }
}

}  // namespace
}  // namespace scalai::plan
