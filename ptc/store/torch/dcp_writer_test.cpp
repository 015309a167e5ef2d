#include <gtest/gtest.h>

#include "ptc/base/status.h"
#include "ptc/store/torch/dcp.h"

namespace scalai::store {
namespace dcp_writer_test {

TEST(DcpIndex, IsReadAsItWasWritten) {
  const std::vector<DcpTensor> tensors = {
      {.path = {"model", "layers.0.weight"},
       .dtype = tensor::DType::kBF16,
       .shape = {4, 3},
       .chunks = {{.offsets = {0, 0}, .sizes = {3, 3}, .file = "__0_0.distcp", .begin = 0, .bytes = 900, .elements = 9},
                  {.offsets = {3, 0},
                   .sizes = {1, 3},
                   .file = "__1_0.distcp",
                   .begin = int64_t{5} << 32,
                   .bytes = 800,
                   .elements = 3}}},
      {.path = {"optim", "state", "layers.0.weight", "step"},
       .dtype = tensor::DType::kF32,
       .shape = {},
       .chunks = {{.offsets = {}, .sizes = {}, .file = "__0_0.distcp", .begin = 900, .bytes = 70, .elements = 1}}}};
  const std::vector<DcpObject> objects = {{"common_state/shard_0_1", "__0_0.distcp", 970, 60}};
  const auto read = parse_dcp_index(dcp_index_text(tensors, objects));
  ASSERT_TRUE(read.ok()) << message_of(read.status());
  const auto object = find_dcp_object(dcp_index_text(tensors, objects), objects[0].name);
  ASSERT_TRUE(object.ok() && object->has_value()) << object.status();
  EXPECT_EQ((*object)->file, objects[0].file);
  EXPECT_EQ((*object)->begin, objects[0].begin);
  EXPECT_EQ((*object)->bytes, objects[0].bytes);
  EXPECT_FALSE(find_dcp_object(dcp_index_text(tensors), objects[0].name)->has_value());
  ASSERT_EQ(read->size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ((*read)[i].path, tensors[i].path);
    EXPECT_EQ((*read)[i].dtype, tensors[i].dtype);
    EXPECT_EQ((*read)[i].shape, tensors[i].shape);
    ASSERT_EQ((*read)[i].chunks.size(), tensors[i].chunks.size());
    for (size_t c = 0; c < tensors[i].chunks.size(); ++c) {
      const DcpChunk &a = (*read)[i].chunks[c], &b = tensors[i].chunks[c];
      EXPECT_EQ(a.offsets, b.offsets);
      EXPECT_EQ(a.sizes, b.sizes);
      EXPECT_EQ(a.file, b.file);
      EXPECT_EQ(a.begin, b.begin);
      EXPECT_EQ(a.bytes, b.bytes);
      EXPECT_EQ(a.elements, b.elements);
    }
  }
}

}  // namespace dcp_writer_test
}  // namespace scalai::store
