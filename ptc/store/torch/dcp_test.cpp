#include "ptc/store/torch/dcp.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/torch/testing/torch_writer.h"

namespace scalai::store {
namespace dcp_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kModule = "torch.distributed.checkpoint.metadata";

struct Chunk {
  std::vector<int64_t> offsets, sizes;
  std::string file = "__0_0.distcp";
};

void object(PickleWriter& to, std::string_view name) { to.name(kModule, name).op(")\x81"); }

// The index of one tensor "model.w" of these chunks, saved under the keys ("model", "w").
std::string index_of(const std::vector<int64_t>& shape, const std::vector<Chunk>& chunks,
                     std::string_view dtype = "bfloat16", bool with_places = true) {
  PickleWriter to;
  object(to, "Metadata");
  to.op("}(").text("state_dict_metadata").op("}").text("model.w");
  object(to, "TensorStorageMetadata");
  to.op("}(").text("properties");
  object(to, "TensorProperties");
  to.op("(").name("torch", dtype).op("\x89tb").text("size").numbers(shape).text("chunks").op("](");
  for (const Chunk& chunk : chunks) {
    object(to, "ChunkStorageMetadata");
    to.op("}(").text("offsets").numbers(chunk.offsets).text("sizes").numbers(chunk.sizes).op("ub");
  }
  to.op("eub").op("s").text("planner_data").op("}").text("model.w").op("(").text("model").text("w").op("ts");
  to.text("storage_data").op("}(");
  for (size_t i = 0; with_places && i < chunks.size(); ++i) {
    object(to, "MetadataIndex");
    to.op("}(").text("fqn").text("model.w").text("offset").numbers(chunks[i].offsets).op("ub");
    to.name("torch.distributed.checkpoint.filesystem", "_StorageInfo").op(")\x81}(");
    to.text("relative_path")
        .text(chunks[i].file)
        .text("offset")
        .number(100 * static_cast<int64_t>(i))
        .text("length")
        .number(90);
    to.op("ub");
  }
  to.op("uub.");
  return to.bytes();
}

std::string problem_of(const std::string& bytes) { return message_of(parse_dcp_index(bytes).status()); }

TEST(DcpIndex, HasTensorsInChunks) {
  const auto tensors =
      parse_dcp_index(index_of({4, 3}, {{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}, "__1_0.distcp"}, {{4, 0}, {0, 3}}}));
  ASSERT_TRUE(tensors.ok()) << message_of(tensors.status());
  ASSERT_EQ(tensors->size(), 1U);
  const DcpTensor& tensor = tensors->front();
  EXPECT_THAT(tensor.path, ElementsAre("model", "w"));
  EXPECT_EQ(tensor.dtype, tensor::DType::kBF16);
  EXPECT_THAT(tensor.shape, ElementsAre(4, 3));
  ASSERT_EQ(tensor.chunks.size(), 2U) << "an empty one has no bytes";
  EXPECT_EQ(tensor.chunks[1].file, "__1_0.distcp");
  EXPECT_EQ(tensor.chunks[1].begin, 100);
  EXPECT_EQ(tensor.chunks[1].bytes, 90);
}

TEST(DcpIndex, StacksOfLayersAndExpertsAreTakenApart) {
  DcpTensor stack{
      .path = {"decoder.layers.mlp.experts.experts.linear_fc1.weight"}, .shape = {2, 2, 4, 3}, .chunks = {}};
  // Of layer 1 both experts, the first two rows.
  stack.chunks.push_back({.offsets = {1, 0, 0, 0}, .sizes = {1, 2, 2, 3}, .file = "f", .elements = 12});
  const std::vector<DcpTensor> single = without_stacks({stack});
  ASSERT_EQ(single.size(), 4U);
  EXPECT_THAT(single[0].path, ElementsAre("decoder.layers.0.mlp.experts.local_experts.0.linear_fc1.weight"));
  EXPECT_TRUE(single[0].chunks.empty());
  EXPECT_THAT(single[3].path, ElementsAre("decoder.layers.1.mlp.experts.local_experts.1.linear_fc1.weight"));
  EXPECT_THAT(single[3].shape, ElementsAre(4, 3));
  ASSERT_EQ(single[3].chunks.size(), 1U);
  EXPECT_THAT(single[3].chunks[0].sizes, ElementsAre(2, 3));
  EXPECT_EQ(single[3].chunks[0].skip, 6);
  // Of one of several optimizers, too.
  for (const char* key :
       {"optimizer.state.exp_avg.output_layer.weight", "chained_12.optimizer.state.exp_avg.output_layer.weight"}) {
    const DcpTensor moment{.path = {key}, .shape = {3}, .chunks = {}};
    EXPECT_THAT(without_stacks({moment})[0].path, ElementsAre("output_layer.weight.exp_avg"));
  }
  for (const char* key : {"chained_", "chained_1", "chained_1.w", "chained_x.optimizer.state.exp_avg.w"}) {
    const DcpTensor other{.path = {key}, .shape = {3}, .chunks = {}};
    EXPECT_THAT(without_stacks({other})[0].path, ElementsAre(key));
  }
  DcpTensor counted{.path = {"decoder.layers.0.input_layernorm.weight"}, .shape = {3}, .chunks = {}};
  EXPECT_EQ(without_stacks({counted}).size(), 1U);
}

TEST(DcpIndex, StacksAreNotMoreThanAnyModelHas) {
  for (const int64_t layers : {int64_t{1} << 19, int64_t{1} << 40}) {
    const DcpTensor stack{
        .path = {"decoder.layers.mlp.experts.experts.linear_fc1.weight"}, .shape = {layers, 1 << 20}, .chunks = {}};
    EXPECT_LE(without_stacks({stack}).size(), size_t{1} << 20) << layers;
  }
}

TEST(DcpIndex, RefusesWhatCannotBe) {
  EXPECT_THAT(problem_of(index_of({4}, {{{2}, {3}}})),
              HasSubstr("tensor \"model.w\" has a chunk [3] at [2], which is not in [4]"));
  EXPECT_THAT(problem_of(index_of({4}, {{{-1}, {3}}})), HasSubstr("which is not in [4]"));
  EXPECT_THAT(problem_of(index_of({4}, {{{0}, {int64_t{1} << 62}}})), HasSubstr("which is not in [4]"));
  EXPECT_THAT(problem_of(index_of({4}, {{{0, 0}, {4, 1}}})), HasSubstr("is damaged"));
  // 4 · (2^57 + 1) · 32 bytes would be 128 in 64 bits.
  constexpr int64_t kMany = (int64_t{1} << 57) + 1;
  EXPECT_THAT(problem_of(index_of({kMany, 32}, {{{0, 0}, {kMany, 32}}})), HasSubstr("which nothing can hold"));
  EXPECT_THAT(problem_of(index_of({4}, {{{0}, {4}}}, "complex64")),
              HasSubstr("torch.complex64, which safetensors has not"));
  EXPECT_THAT(problem_of(index_of({4}, {{{0}, {4}}}, "float32", false)),
              HasSubstr("has a chunk at [0] without a place"));
  for (const char* file : {"../secret", "/etc/passwd", "a/../../b", "", "a//b", "./a"})
    EXPECT_THAT(problem_of(index_of({4}, {{{0}, {4}, file}})), HasSubstr("which is not in the folder")) << file;
  EXPECT_EQ(problem_of(std::string("\x80\x02}.", 4)), "no index of torch.distributed.checkpoint");
  EXPECT_THAT(problem_of("\x80\x02"), HasSubstr("is cut off"));
}

TEST(DcpIndex, ManyEditsAreToldOrHarmless) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const std::string bytes = index_of({4, 3}, {{{0, 0}, {2, 3}}, {{2, 0}, {2, 3}}});
  for (int round = 0; round < 20'000; ++round) {
    std::string edited = bytes;
    for (int64_t edits = random.between(1, 4); edits > 0; --edits)
      edited[static_cast<size_t>(random.below(static_cast<int64_t>(edited.size())))] =
          static_cast<char>(random.below(256));
    (void)parse_dcp_index(edited);
  }
}

}  // namespace dcp_test
}  // namespace scalai::store
