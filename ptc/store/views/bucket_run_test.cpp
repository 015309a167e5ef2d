#include "ptc/store/views/internal/bucket_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/collection/distributed_optimizer.h"

namespace scalai::store::internal {
namespace bucket_run_test {

using ::testing::ElementsAreArray;

// Parameters with values of one byte, and a bucket of some of them.
struct Buffer {
  std::vector<std::vector<std::byte>> values;
  std::vector<BucketParam> params;
  std::vector<std::byte> bucket;

  void add(std::vector<std::byte> param) {
    const size_t count = std::min<size_t>(param.size(), 4);
    const auto sample = [&](auto begin) {
      return Sample{{begin, begin + static_cast<std::ptrdiff_t>(count)}, std::vector<bool>(count, true)};
    };
    params.push_back({std::ssize(param), sample(param.begin()), sample(param.end() - static_cast<int64_t>(count))});
    values.push_back(std::move(param));
  }
  void add_random(int64_t least, Random& random) {
    std::vector<std::byte> param(static_cast<size_t>(random.between(least, 200)));
    for (std::byte& value : param) value = static_cast<std::byte>(random.below(200));
    add(std::move(param));
  }
  std::vector<InBucket> fill(size_t first, size_t last) {
    std::vector<collection::BufferParam> sizes;
    for (size_t i = last; i-- > first;) sizes.push_back({params[i].elements});
    std::vector<collection::BucketPlace> places = collection::place_in_buckets(sizes, 1);
    std::reverse(places.begin(), places.end());
    bucket.clear();
    std::vector<InBucket> expected;
    for (size_t i = first; i < last; ++i) {
      expected.push_back({i, places[i - first].start});
      bucket.resize(static_cast<size_t>(expected.back().begin), std::byte{255});
      bucket.insert(bucket.end(), values[i].begin(), values[i].end());
    }
    return expected;
  }
  absl::StatusOr<std::vector<InBucket>> find(Joined joined = Joined::kNo) const {
    return find_in_bucket(params, std::ssize(bucket), joined, [&](const Sample& sample, int64_t begin) {
      return std::equal(sample.bytes.begin(), sample.bytes.end(), bucket.begin() + begin);
    });
  }
};

TEST(FindInBucket, EveryStretchIsFoundOrTold) {
  int found = 0, told = 0;
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Buffer buffer;
    const int64_t count = random.between(1, 12);
    for (int64_t i = 0; i < count; ++i) {
      // Norms are alike in size and, at first, in values.
      if (random.below(3) == 0)
        buffer.add(std::vector<std::byte>(16, std::byte{1}));
      else
        buffer.add_random(1, random);
    }
    const auto first = static_cast<size_t>(random.below(count));
    const auto last = static_cast<size_t>(random.between(static_cast<int64_t>(first) + 1, count));
    const std::vector<InBucket> expected = buffer.fill(first, last);
    const auto result = buffer.find();
    if (result.ok()) {
      EXPECT_THAT(*result, ElementsAreArray(expected));
      ++found;
    } else {
      EXPECT_TRUE(absl::IsFailedPrecondition(result.status()));
      ++told;
    }
  }
  EXPECT_GT(found, 300);
  EXPECT_GT(told, 10) << "alike parameters never stood alone";
}

TEST(FindInBucket, OtherValuesAndSizesAreNone) {
  Buffer buffer;
  for (int i = 0; i < 3; ++i) buffer.add(std::vector<std::byte>(100, static_cast<std::byte>(i)));
  const auto expected = buffer.fill(1, 3);
  EXPECT_THAT(*buffer.find(), ElementsAreArray(expected));
  for (const size_t at : {size_t{0}, buffer.bucket.size() - 1}) {
    Buffer other = buffer;
    other.bucket[at] = std::byte{9};
    EXPECT_TRUE(other.find()->empty()) << at;
  }
  Buffer shorter = buffer;
  shorter.bucket.pop_back();
  EXPECT_TRUE(shorter.find()->empty());
  Buffer longer = buffer;
  longer.bucket.resize(256, std::byte{255});  // up to where the next would begin
  EXPECT_THAT(*longer.find(), ElementsAreArray(expected));
  longer.bucket.push_back(std::byte{255});
  EXPECT_TRUE(longer.find()->empty());
}

TEST(FindInBucket, JoinedBucketsHaveNoPaddingAtTheirEnds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    Buffer buffer;
    const int64_t count = random.between(2, 10);
    for (int64_t i = 0; i < count; ++i) buffer.add_random(4, random);
    // From any place on, and from the last on with the first: an embedding that is the head, too.
    const auto first = static_cast<size_t>(random.below(count));
    const auto length = static_cast<size_t>(random.between(1, count));
    std::vector<InBucket> expected;
    size_t bucket = 0;
    for (size_t each = 0; each < length; ++each) {
      const size_t i = (first + each) % buffer.params.size();
      if (random.below(3) == 0) bucket = buffer.bucket.size();
      buffer.bucket.resize(bucket + (buffer.bucket.size() - bucket + 63) / 64 * 64, std::byte{255});
      expected.push_back({i, std::ssize(buffer.bucket)});
      buffer.bucket.insert(buffer.bucket.end(), buffer.values[i].begin(), buffer.values[i].end());
    }
    const auto found = buffer.find(Joined::kYes);
    ASSERT_TRUE(found.ok()) << message_of(found.status());
    EXPECT_THAT(*found, ElementsAreArray(expected));
  }
}

// As named_parameters() of megatron-core's GPTModel gives them.
TEST(RegistrationOrder, IsThatOfTheModules) {
  const std::vector<std::string> local = {"embedding.word_embeddings.weight",
                                          "embedding.position_embeddings.weight",
                                          "decoder.layers.0.input_layernorm.weight",
                                          "decoder.layers.0.input_layernorm.bias",
                                          "decoder.layers.0.self_attention.linear_proj.weight",
                                          "decoder.layers.0.self_attention.linear_proj.bias",
                                          "decoder.layers.0.self_attention.linear_qkv.weight",
                                          "decoder.layers.0.self_attention.linear_qkv.bias",
                                          "decoder.layers.0.self_attention.q_layernorm.weight",
                                          "decoder.layers.0.self_attention.k_layernorm.weight",
                                          "decoder.layers.0.pre_mlp_layernorm.weight",
                                          "decoder.layers.0.mlp.linear_fc1.weight",
                                          "decoder.layers.0.mlp.linear_fc2.weight",
                                          "decoder.layers.2.input_layernorm.weight",
                                          "decoder.layers.10.self_attention.linear_proj.weight",
                                          "decoder.layers.10.self_attention.linear_q_down_proj.weight",
                                          "decoder.layers.10.self_attention.linear_q_up_proj.weight",
                                          "decoder.layers.10.self_attention.linear_kv_down_proj.weight",
                                          "decoder.layers.10.self_attention.linear_kv_up_proj.weight",
                                          "decoder.layers.10.self_attention.q_layernorm.weight",
                                          "decoder.layers.10.self_attention.kv_layernorm.weight",
                                          "decoder.layers.10.mlp.router.weight",
                                          "decoder.layers.10.mlp.experts.local_experts.0.linear_fc1.weight",
                                          "decoder.layers.10.mlp.experts.local_experts.0.linear_fc2.weight",
                                          "decoder.layers.10.mlp.experts.local_experts.1.linear_fc1.weight",
                                          "decoder.layers.10.mlp.experts.local_experts.1.linear_fc2.weight",
                                          "decoder.layers.10.mlp.shared_experts.gate_weight",
                                          "decoder.layers.10.mlp.shared_experts.linear_fc1.weight",
                                          "decoder.layers.10.mlp.shared_experts.linear_fc2.weight",
                                          "decoder.final_layernorm.weight",
                                          "output_layer.weight"};
  const auto is_in_order = [](const std::vector<std::string>& names, Experts experts) {
    for (size_t i = 1; i < names.size(); ++i) {
      if (registration_order(names[i - 1], experts) >= registration_order(names[i], experts)) return names[i];
    }
    return std::string();
  };
  EXPECT_EQ(is_in_order(local, Experts::kSequential), "");
  const std::vector<std::string> engine = {"decoder.layers.0.self_attention.linear_proj.weight",
                                           "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight",
                                           "decoder.layers.0.self_attention.linear_qkv.layer_norm_bias",
                                           "decoder.layers.0.self_attention.linear_qkv.weight",
                                           "decoder.layers.0.self_attention.linear_qkv.bias",
                                           "decoder.layers.0.mlp.linear_fc1.layer_norm_weight",
                                           "decoder.layers.0.mlp.linear_fc1.weight",
                                           "decoder.layers.0.mlp.linear_fc2.weight",
                                           "decoder.layers.1.mlp.experts.local_experts.0.linear_fc1.weight",
                                           "decoder.layers.1.mlp.experts.local_experts.1.linear_fc1.weight",
                                           "decoder.layers.1.mlp.experts.local_experts.0.linear_fc2.weight",
                                           "decoder.layers.1.mlp.experts.local_experts.1.linear_fc2.weight"};
  EXPECT_EQ(is_in_order(engine, Experts::kGrouped), "");
}

}  // namespace bucket_run_test
}  // namespace scalai::store::internal
