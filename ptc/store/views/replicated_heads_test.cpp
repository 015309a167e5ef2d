#include "ptc/store/views/internal/replicated_heads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ptc/base/json.h"
#include "ptc/state/collection/megatron.h"
#include "ptc/store/safetensors/job_checkpoint.h"
#include "ptc/store/views/testing/test_model.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {
namespace replicated_heads_test {

using ::testing::Contains;
using ::testing::HasSubstr;

// 8 heads, 2 of keys and values, of 4 rows each.
class ReplicatedHeads : public FolderTest {
 protected:
  ReplicatedHeads() { write_hugging_face(path("hf"), llama_config(8, 2), {}, 3); }
  absl::StatusOr<std::shared_ptr<const Checkpoint>> open(const std::string& name, int64_t kv_heads) const {
    OpenOptions options;
    options.kv_heads = kv_heads;
    return Checkpoint::open(path(name), options);
  }
  // A tensor of a safetensors file in a view.
  static std::string rows(const View& view, const std::string& file, const std::string& name) {
    const ByteSourcePtr source = *view.open(*view.find(file));
    const SafetensorsHeader header = *read_safetensors_header(*source);
    const std::string all = *read_all(*source);
    for (const StoredTensor& tensor : header.tensors) {
      if (tensor.name == name) return all.substr(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
    }
    return "none";
  }
};

TEST_F(ReplicatedHeads, EachRankHasWholeOnes) {
  const auto plain = View::make(*open("hf", 0), "hf");
  const auto checkpoint = open("hf", 8);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE((*checkpoint)->verify({}).ok());
  EXPECT_THAT((*checkpoint)->info().config, HasSubstr("\"num_key_value_heads\": 8"));
  EXPECT_THAT((*checkpoint)->info().notes, Contains("each of 2 heads of keys and values is there 4 times"));
  const auto view = View::make(*checkpoint, "tp8,hf");
  ASSERT_TRUE(view.ok()) << view.status();
  const std::string layer = "model.layers.1.self_attn.";
  for (const std::string part : {"q_proj", "k_proj", "v_proj"}) {
    const std::string name = layer + part + ".weight";
    const std::string all = rows(**plain, "model.safetensors", name);
    const size_t head = size_t{4} * 32 * 2;  // bytes
    for (size_t rank = 0; rank < 8; ++rank) {
      const size_t at = part == "q_proj" ? rank : rank / 4;
      EXPECT_EQ(rows(**view, rank_file_name(LogicalRank(static_cast<int>(rank))), name), all.substr(at * head, head))
          << part << " " << rank;
    }
  }
}

TEST_F(ReplicatedHeads, EnoughHeadsStayAsTheyAre) {
  const auto checkpoint = open("hf", 2);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ((*checkpoint)->identity(), (*open("hf", 0))->identity());
}

TEST_F(ReplicatedHeads, WhatDoesNotDivideIsRefused) {
  EXPECT_THAT(message_of(open("hf", 3).status()), HasSubstr("tp3 is not a multiple of the 2 heads"));
  EXPECT_THAT(message_of(open("hf", 6).status()), HasSubstr("tp6 does not divide the 8 heads"));
  const auto model = model_of_config(llama_config(8, 2), "tiny");
  const auto collection = collection::megatron_collection(*model, {}, {.tp = 2}, {DeviceId(0), DeviceId(1)});
  ASSERT_TRUE(write_checkpoint(path("job"), *collection, {"job", 1}).ok());
  EXPECT_THAT(message_of(open("job", 4).status()), HasSubstr("the model's family has to be known"));
  write_text(path("job/config.json"), llama_config(8, 2));
  EXPECT_THAT(message_of(open("job", 4).status()), HasSubstr("copies of heads have no state such as"));
  const auto parameters = Checkpoint::open(path("job"), {.kv_heads = 4, .drop_optimizer = true});
  ASSERT_TRUE(parameters.ok()) << parameters.status();
  EXPECT_EQ((*parameters)->model()->model.kv_heads, 4);
}

// A norm over all of them.
TEST_F(ReplicatedHeads, WhatWouldNotFitAfterwardsIsRefused) {
  nlohmann::json config = *read_json(llama_config(8, 2));
  config["architectures"] = {"Olmo2ForCausalLM"};
  write_hugging_face(path("olmo"), config.dump(), {}, 3);
  EXPECT_THAT(message_of(open("olmo", 4).status()), HasSubstr("is of all heads of keys and values together"));
}

}  // namespace replicated_heads_test
}  // namespace scalai::store::internal
