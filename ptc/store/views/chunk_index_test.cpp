#include "ptc/store/views/internal/chunk_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "ptc/store/views/internal/megatron_common.h"
#include "ptc/store/views/testing/test_model.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {
namespace chunk_index_test {

using ::testing::ElementsAre;

class ChunkIndexTest : public FolderTest {
 protected:
  std::shared_ptr<const Checkpoint> source(const std::string& config) const {
    write_hugging_face(path("hf"), config, {}, 4);
    auto opened = Checkpoint::open(path("hf"));
    SCALAI_CHECK(opened.ok(), message_of(opened.status()));
    return *opened;
  }
  static std::string index(const std::shared_ptr<const Checkpoint>& checkpoint, const char* form) {
    const auto view = View::make(checkpoint, form);
    SCALAI_CHECK(view.ok(), message_of(view.status()));
    const std::optional<size_t> file =
        (*view)->find((std::string(form) == "dcp" ? "" : "release/") + std::string(kDcpIndexName));
    return *read_all(**(*view)->open(*file));
  }
  static std::map<std::string, DcpTensor> tensors(const std::shared_ptr<const Checkpoint>& checkpoint,
                                                  const char* form) {
    std::map<std::string, DcpTensor> by_name;
    auto parsed = parse_dcp_index(index(checkpoint, form));
    SCALAI_CHECK(parsed.ok(), message_of(parsed.status()));
    for (DcpTensor& tensor : *parsed) {
      std::string name = tensor.path.back();
      by_name.emplace(std::move(name), std::move(tensor));
    }
    return by_name;
  }
};

// Keys and shapes as a folder of megatron-core 0.19 has them.
TEST_F(ChunkIndexTest, LayersThatAreAlikeAreOneTensor) {
  const auto checkpoint = source(mixtral_config());
  const auto found = tensors(checkpoint, "torch_dist");
  const DcpTensor& experts = found.at("decoder.layers.mlp.experts.experts.linear_fc2.weight");
  EXPECT_THAT(experts.shape, ElementsAre(2, 4, 32, 48));
  ASSERT_EQ(experts.chunks.size(), 8U);
  EXPECT_THAT(experts.chunks.back().offsets, ElementsAre(1, 3, 0, 0));
  EXPECT_THAT(experts.chunks.back().sizes, ElementsAre(1, 1, 32, 48));
  const DcpTensor& norm = found.at("decoder.layers.input_layernorm.weight");
  const DcpTensor& fused = found.at("decoder.layers.self_attention.linear_qkv.layer_norm_weight");
  EXPECT_THAT(norm.shape, ElementsAre(2, 32));
  ASSERT_EQ(norm.chunks.size(), fused.chunks.size());
  EXPECT_EQ(norm.chunks[1].begin, fused.chunks[1].begin) << "the same bytes under both names";
  EXPECT_EQ(norm.chunks[1].file, fused.chunks[1].file);
  EXPECT_EQ(found.count("decoder.layers.0.input_layernorm.weight"), 0U);
  const std::string text = index(checkpoint, "torch_dist");
  for (const char* name : {"decoder.layers.mlp.linear_fc1._extra_state/shard_1_2",
                           "decoder.layers.mlp.experts.experts.linear_fc1._extra_state/shard_1.3_2.4"})
    EXPECT_EQ(find_dcp_object(text, name)->has_value(),
              std::string_view(name).find("experts") != std::string_view::npos)
        << name;
}

TEST_F(ChunkIndexTest, TorchHasTheKeysOfItsModules) {
  const auto found = tensors(source(llama_config(8, 2)), "dcp");
  const DcpTensor& tensor = found.at("model.layers.1.mlp.up_proj.weight");
  EXPECT_THAT(tensor.path, ElementsAre("model", "model.layers.1.mlp.up_proj.weight"));
  EXPECT_THAT(tensor.chunks.front().offsets, ElementsAre(0, 0));
}

// The record of newer folders is an object in some file, that of older ones a file, and either may be in the source.
TEST_F(ChunkIndexTest, MegatronsRecordIsFound) {
  write_text(path("__0_0.distcp"), "....RECORD..");
  const std::vector<DcpObject> objects = {{kCommonObject, "__0_0.distcp", 4, 6}};
  const Folder folder(path(""), OpenOptions());
  MegatronCommon common;
  ASSERT_TRUE(take_common(folder, dcp_index_text({}, objects), common).ok());
  EXPECT_EQ(common.bytes, "RECORD");
  EXPECT_TRUE(common.listed);
  EXPECT_FALSE(
      take_common(folder, dcp_index_text({}, std::vector<DcpObject>{{kCommonObject, "__0_0.distcp", 4, 60}}), common)
          .ok())
      << "beyond the end";
  common = {};
  ASSERT_TRUE(take_common(folder, dcp_index_text({}), common).ok());
  EXPECT_TRUE(common.bytes.empty());
  write_text(path("common.pt"), "older");
  ASSERT_TRUE(take_common(folder, dcp_index_text({}, objects), common).ok());
  EXPECT_EQ(common.bytes, "older");
  EXPECT_FALSE(common.listed);
  write_text(path("common_state.pt"), "newer");
  common = {};
  ASSERT_TRUE(take_common(folder, {{"config.json", 1, ""}, {"common_state.pt", 5, ""}}, common).ok());
  EXPECT_EQ(common.bytes, "newer");
  EXPECT_TRUE(common.listed);
}

}  // namespace chunk_index_test
}  // namespace scalai::store::internal
