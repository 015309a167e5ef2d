#include "ptc/store/views/internal/sharded_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/store/views/testing/test_model.h"

namespace scalai::store::internal {
namespace sharded_folder_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ShardedFolder : public FolderTest {
 protected:
  // A file with a matrix "w" of so many rows, which begins at `row` of the whole.
  void write(const std::string& name, int64_t rows, const std::string& sharding,
             tensor::DType dtype = tensor::DType::kU8) {
    std::map<std::string, std::string> metadata;
    if (!sharding.empty()) metadata["DCP_SHARDING_INFO"] = sharding;
    const std::vector<std::byte> bytes(static_cast<size_t>(rows * 3 * tensor::size_of(dtype)));
    const absl::Status written =
        write_safetensors(path(name), {{"w", dtype, {rows, 3}}}, metadata,
                          [&](const StoredTensor&) -> absl::StatusOr<std::span<const std::byte>> {
                            return std::span<const std::byte>(bytes);
                          });
    SCALAI_CHECK(written.ok(), message_of(written));
  }
  static std::string at(int64_t row) { return fmt::format(R"({{"w": {{"saved_offsets": [{}, 0]}}}})", row); }
  auto read(const std::vector<std::string>& files) const {
    const OpenOptions options;
    return sharded_tensors(Folder(path(""), options), files);
  }
};

TEST_F(ShardedFolder, ShardsAreOneTensor) {
  write("a", 2, at(0));
  write("b", 3, at(2));
  const auto tensors = read({"a", "b"});
  ASSERT_TRUE(tensors.ok() && tensors->has_value()) << tensors.status();
  ASSERT_EQ((*tensors)->size(), 1U);
  const DcpTensor& tensor = (*tensors)->front();
  EXPECT_THAT(tensor.shape, ElementsAre(5, 3));
  ASSERT_EQ(tensor.chunks.size(), 2U);
  EXPECT_THAT(tensor.chunks[1].offsets, ElementsAre(2, 0));
  EXPECT_TRUE(tensor.chunks[1].bare);
  EXPECT_EQ(tensor.chunks[1].bytes, 9);
}

TEST_F(ShardedFolder, OthersSayNothingOfShards) {
  write("a", 2, "");
  const auto tensors = read({"a"});
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_FALSE(tensors->has_value());
}

TEST_F(ShardedFolder, WhatDoesNotFitTogetherIsNamed) {
  write("a", 2, at(0));
  write("b", 2, at(2), tensor::DType::kF32);
  write("c", 2, "");
  write("d", 2, R"({"w": {"saved_offsets": [-1, 0]}})");
  write("e", 2, R"({"w": {"saved_offsets": [1]}})");
  write("f", 2, "[[[");
  EXPECT_THAT(message_of(read({"a", "b", "c", "d", "e", "f"}).status()),
              AllOf(HasSubstr("b: the shard of \"w\" is not one of the same tensor as others"),
                    HasSubstr("c: does not say where its shard of \"w\" lies"), HasSubstr("d: does not say"),
                    HasSubstr("e: the shard of"), HasSubstr("f: does not say")));
}

}  // namespace sharded_folder_test
}  // namespace scalai::store::internal
