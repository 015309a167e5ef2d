#include "ptc/state/collection/distributed_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::collection {
namespace {

using model::Param;
using model::TpRule;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<BucketPlace> place(std::vector<BufferParam> params, int ranks, const BucketOptions& options = {}) {
  return place_in_buckets(params, ranks, options);
}

TEST(PlaceInBuckets, ReverseOrderAlignedStartsPaddedEnd) {
  // Backwards: 10 from 0, 64 from 64, 100 from 128 to 228.
  EXPECT_THAT(place({{100}, {64}, {10}}, 4),
              ElementsAre(BucketPlace{128, 256}, BucketPlace{64, 256}, BucketPlace{0, 256}));
  EXPECT_EQ(place({{100}, {64}, {10}}, 3)[0].bucket, 384);  // lcm(128, 3)
  EXPECT_EQ(place({{100}}, 1, {.pad_to_64k = true})[0].bucket, 65536);
  EXPECT_EQ(place({{100}}, 3, {.pad_to_64k = true})[0].bucket, 196608);
  EXPECT_EQ(place({{65536}}, 256)[0].bucket, 65536) << "nothing to pad";
  EXPECT_TRUE(place({}, 2).empty());
}

TEST(PlaceInBuckets, AFullBucketIsClosed) {
  const auto places = place({{50}, {70}, {64}, {64}}, 2, {.bucket_elements = 128});
  EXPECT_THAT(places,
              ElementsAre(BucketPlace{128, 256}, BucketPlace{0, 256}, BucketPlace{64, 128}, BucketPlace{0, 128}));
}

TEST(PlaceInBuckets, OwnBucketStandsAlone) {
  const auto places = place({{10}, {20, true}, {30}}, 2);
  EXPECT_THAT(places, ElementsAre(BucketPlace{0, 128}, BucketPlace{0, 128}, BucketPlace{0, 128}));
}

// Two layers and tied embeddings of odd sizes, optionally with experts.
model::Model odd_model(int experts) {
  model::Model model{.name = "odd", .layers = 4, .hidden = 6, .heads = 2, .kv_heads = 2, .ffn = 10};
  model.experts = experts;
  model.tied = true;
  model.params.push_back({.name = "embedding", .shape = {77, 6}, .rule = TpRule::kVocab, .layer = Param::kBothEnds});
  model.params.push_back({.name = "position", .shape = {7, 6}, .layer = Param::kFirst});
  for (int layer = 0; layer < 4; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer);
    model.params.push_back({.name = prefix + ".norm", .shape = {6}, .layer = layer});
    model.params.push_back({.name = prefix + ".up", .shape = {10, 6}, .rule = TpRule::kColumn, .layer = layer});
    model.params.push_back({.name = prefix + ".down", .shape = {6, 10}, .rule = TpRule::kRow, .layer = layer});
    for (int expert = 0; expert < experts; ++expert) {
      model.params.push_back({.name = prefix + ".expert" + std::to_string(expert),
                              .shape = {10, 6},
                              .rule = TpRule::kColumn,
                              .layer = layer,
                              .expert = expert});
    }
  }
  model.params.push_back({.name = "final_norm", .shape = {6}, .layer = Param::kLast});
  return model;
}

Collection build(const model::Model& model, const ParallelConfig& config, const MegatronOptions& options) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < config.world(); ++i) devices.push_back(DeviceId(i));
  const auto built = megatron_collection(model, {.param = tensor::DType::kBF16}, config, devices, options);
  EXPECT_TRUE(built.ok()) << message_of(built.status());
  EXPECT_EQ(message_of(validate(*built)), "") << canonical(config);
  return *built;
}

int64_t held(const Collection& collection, const LogicalTensor& tensor, int rank) {
  int64_t elements = 0;
  const TensorId id(&tensor - collection.tensors.data());
  for (const tensor::Piece& piece : collection.pieces(id, LogicalRank(rank)).pieces) elements += piece.box.volume();
  return elements;
}

// An oracle that fills each rank's buffer element by element: what a share of it holds of every parameter.
std::map<std::string, int64_t> shares_of(const std::vector<std::pair<std::string, int64_t>>& forward, int ranks,
                                         int share) {
  std::vector<std::string> buffer;
  for (auto param = forward.rbegin(); param != forward.rend(); ++param) {
    while (buffer.size() % 64 != 0) buffer.emplace_back();
    buffer.insert(buffer.end(), static_cast<size_t>(param->second), param->first);
  }
  while (buffer.size() % 128 != 0 || buffer.size() % static_cast<size_t>(ranks) != 0) buffer.emplace_back();
  std::map<std::string, int64_t> owned;
  const size_t length = buffer.size() / static_cast<size_t>(ranks);
  for (size_t i = 0; i < length; ++i) ++owned[buffer[static_cast<size_t>(share) * length + i]];
  return owned;
}

TEST(DistributedOptimizer, SharesAreThoseOfTheBuffer) {
  const model::Model model = odd_model(0);
  for (const ParallelConfig& config :
       {ParallelConfig{.tp = 2, .dp = 3, .cp = 2, .zero = 1}, ParallelConfig{.dp = 4, .zero = 2},
        ParallelConfig{.tp = 2, .dp = 2, .zero = 1}}) {
    SCOPED_TRACE(canonical(config));
    const Collection collection = build(model, config, {.distributed_optimizer_buckets = true});
    std::vector<std::pair<std::string, int64_t>> forward;
    for (const Param& param : model.params) {
      const int64_t rows = param.rule == TpRule::kVocab ? 128 * config.tp : param.shape[0];
      const int64_t elements = param.shape.rank() == 1 ? rows : rows * param.shape[1];
      forward.emplace_back(param.name, param.rule == TpRule::kReplicated ? elements : elements / config.tp);
    }
    const int ranks = config.cp * config.dp;
    for (int rank = 0; rank < config.world(); ++rank) {
      const int tp = rank % config.tp;  // then cp, then dp
      std::map<std::string, int64_t> want = shares_of(forward, ranks, rank / config.tp);
      for (const LogicalTensor& tensor : collection.tensors) {
        if (tensor.kind != model::StateKind::kExpAvg) continue;
        const std::string name = tensor.name.substr(0, tensor.name.rfind('.'));
        if (name == "embedding") continue;  // padding rows are in the buffer, not in the tensor
        EXPECT_EQ(held(collection, tensor, rank), want[name]) << name << " rank " << rank << " tp " << tp;
      }
    }
  }
}

// Both homes of a tied embedding cut it alike, whatever else lies in their buffers.
TEST(DistributedOptimizer, ATiedEmbeddingHasABucketOfItsOwnInAPipeline) {
  const Collection collection =
      build(odd_model(0), {.pp = 2, .dp = 2, .zero = 1}, {.distributed_optimizer_buckets = true});
  const LogicalTensor& tensor = *std::find_if(collection.tensors.begin(), collection.tensors.end(),
                                              [](const auto& t) { return t.name == "embedding.exp_avg"; });
  // 128 rows of 6 with their padding; the second half has only the last 13 rows of the 77.
  EXPECT_EQ(tensor.layout.cuts.back(), bucket_cut("dp", {0, 768}));
  EXPECT_EQ(held(collection, tensor, 0), 384);
  EXPECT_EQ(held(collection, tensor, 1), 78);
  EXPECT_EQ(held(collection, tensor, 2), 384);
  EXPECT_EQ(held(collection, tensor, 3), 78);
}

TEST(DistributedOptimizer, ExpertsHaveABufferOverExpertDataParallelism) {
  const Collection collection =
      build(odd_model(4), {.tp = 2, .pp = 2, .dp = 4, .ep = 2, .zero = 1}, {.distributed_optimizer_buckets = true});
  for (const LogicalTensor& tensor : collection.tensors) {
    if (tensor.kind != model::StateKind::kMaster) continue;
    const bool expert = tensor.name.find("expert") != std::string::npos;
    EXPECT_EQ(tensor.layout.cuts.back().axis, expert ? "edp" : "dp") << tensor.name;
    // Two layers of two experts of 60: from 0, 64, 128, 192 to 252.
    if (expert) {
      EXPECT_EQ(tensor.layout.cuts.back().bucket, 256);
    }
  }
}

TEST(DistributedOptimizer, EveryConfigurationOfThisListIsValid) {
  for (const int experts : {0, 4}) {
    for (const int pp : {1, 2, 4}) {
      for (const int dp : {1, 2, 3}) {
        for (const int64_t bucket : {0, 100}) {
          const ParallelConfig config{.tp = 2, .pp = pp, .dp = dp, .vpp = pp == 2 ? 2 : 1, .zero = 1};
          build(odd_model(experts), config, {.distributed_optimizer_buckets = true, .bucket_elements = bucket});
        }
      }
    }
  }
}

TEST(DistributedOptimizer, IsOffUnlessAskedForAndNotForShardedParameters) {
  const model::Model model = odd_model(0);
  const ParallelConfig config{.dp = 2, .zero = 1};
  EXPECT_EQ(build(model, config, {}).tensors[1].layout.cuts.back().rule, tensor::SplitRule::kBalanced);
  const ParallelConfig replicas{.dp = 2};
  EXPECT_EQ(build(model, replicas, {.distributed_optimizer_buckets = true}), build(model, replicas, {}));
  const auto refused = megatron_collection(model, {}, {.dp = 2, .zero = 3}, {DeviceId(0), DeviceId(1)},
                                           {.distributed_optimizer_buckets = true});
  EXPECT_THAT(message_of(refused.status()), HasSubstr("zero3"));
}

}  // namespace
}  // namespace scalai::collection
