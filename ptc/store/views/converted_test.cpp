#include "ptc/store/views/internal/converted.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/state/tensor/convert.h"
#include "ptc/store/views/testing/checkpoint_folder.h"
#include "ptc/store/views/view.h"

namespace scalai::store::internal {
namespace converted_test {

using model::StateKind;
using tensor::DType;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

std::vector<std::byte> content(const Checkpoint& checkpoint, size_t tensor) {
  const LogicalState& state = checkpoint.tensors()[tensor];
  std::vector<std::byte> bytes(static_cast<size_t>(state.shape.elements() * tensor::size_of(state.dtype)));
  SCALAI_CHECK(checkpoint.read(tensor, tensor::Box::whole(state.shape), bytes).ok(), state.name);
  return bytes;
}

class ConvertedTest : public CheckpointFolder {
 protected:
  std::string refusal(const std::string& name) const { return message_of(Checkpoint::open(path(name)).status()); }
};

TEST_F(ConvertedTest, ElementsAreThoseOfACast) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  const auto stored = open("hf");
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
    OpenOptions options;
    options.dtypes = {{StateKind::kParam, dtype}};
    const auto converted = open("hf", options);
    EXPECT_TRUE(converted->verify({}).ok());
    EXPECT_EQ(converted->files().size(), stored->files().size());
    EXPECT_EQ(converted->identity() == stored->identity(), stored->tensors().front().dtype == dtype);
    for (size_t i = 0; i < stored->tensors().size(); ++i) {
      const LogicalState& state = stored->tensors()[i];
      EXPECT_EQ(converted->tensors()[i].dtype, dtype);
      const std::vector<std::byte> from = content(*stored, i);
      std::vector<std::byte> expected(static_cast<size_t>(state.shape.elements() * tensor::size_of(dtype)));
      tensor::convert(state.dtype, dtype, state.shape.elements(), from.data(), expected.data());
      EXPECT_EQ(content(*converted, i), expected) << state.name;
    }
  }
}

// Files of a view may be read from any byte, also in the middle of an element.
TEST_F(ConvertedTest, EveryStretchIsTheSame) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  OpenOptions options;
  options.dtypes = {{StateKind::kParam, DType::kF64}};
  const auto view = View::make(open("hf", options), "tp2");
  ASSERT_TRUE(view.ok()) << view.status();
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  Random random(kSeed);
  const ByteSourcePtr source = *(*view)->open(*(*view)->find("rank_001.safetensors"));
  const std::string all = *read_all(*source);
  for (int round = 0; round < 500; ++round) {
    const int64_t begin = random.below(source->size()), count = random.below(source->size() - begin);
    std::string part(static_cast<size_t>(count), '?');
    ASSERT_TRUE(source->read(begin, std::as_writable_bytes(std::span(part))).ok());
    ASSERT_TRUE(part == all.substr(static_cast<size_t>(begin), static_cast<size_t>(count))) << begin << " " << count;
  }
}

// A weight of 5 x 7 in 8 bits with scales of blocks of 2 x 3.
struct Quantised {
  std::vector<TensorSpec> specs = {{"w_scale_inv", DType::kF32, {3, 3}}, {"w", DType::kF8E4M3, {5, 7}}};
  std::vector<float> scales = {0.5F, 2, 3, 1, 0.25F, 7, 0.125F, 1, 3};
  std::vector<std::byte> codes;

  Quantised() {
    Random random(5);
    codes = random_bytes(random, 35);
    for (std::byte& code : codes) {
      if ((code & std::byte{0x7f}) == std::byte{0x7f}) code = std::byte{1};  // no NaN, which equals nothing
    }
  }
  // Opened, and what was found, as a reader of Hugging Face's folders has them.
  void open(const std::string& file, Opened& opened, std::vector<FoundFile>& found) const {
    const absl::Status written = write_safetensors(
        file, specs, {}, [&](const StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
          return stored.dtype == DType::kF32 ? std::as_bytes(std::span(scales)) : std::span<const std::byte>(codes);
        });
    SCALAI_CHECK(written.ok(), message_of(written));
    const ByteSourcePtr source = *open_file_source(file);
    const SafetensorsHeader header = *read_safetensors_header(*source);
    opened.files.push_back({.name = "f", .source = source, .checksum = "", .tensors = {}});
    found.push_back({.name = "f", .tensors = {}});
    for (const StoredTensor& stored : header.tensors) {
      opened.files[0].tensors.push_back({.name = stored.name,
                                         .dtype = stored.dtype,
                                         .offset = stored.offset,
                                         .elements = stored.bytes / tensor::size_of(stored.dtype),
                                         .pieces = {{stored.name, {}}}});
      found[0].tensors.push_back({stored.name, stored.dtype, stored.shape});
    }
  }
};

constexpr const char* kConfig =
    R"({"dtype": "float16", "quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 3]}})";

TEST_F(ConvertedTest, WeightsInEightBitsAreTimesTheirScales) {
  const Quantised quantised;
  Opened opened;
  std::vector<FoundFile> found;
  quantised.open(path("q.safetensors"), opened, found);
  opened.info.config = kConfig;
  absl::StatusOr<BlockScales> scales = BlockScales::of_config(opened.info.config);
  ASSERT_TRUE(scales.ok()) << scales.status();
  ASSERT_TRUE(scales->take(DType::kF32, opened, found).ok());
  ASSERT_EQ(found[0].tensors.size(), 1U) << "scales are no tensors of the model";
  EXPECT_EQ(found[0].tensors[0].dtype, DType::kF32);
  scales->apply(opened);
  ASSERT_EQ(opened.files.size(), 2U);
  std::vector<float> values(35);
  ASSERT_TRUE(opened.files[1].source->read(0, std::as_writable_bytes(std::span(values))).ok());
  for (int row = 0; row < 5; ++row) {
    for (int column = 0; column < 7; ++column) {
      const auto at = static_cast<size_t>(row * 7 + column);
      float code = 0;
      tensor::convert(DType::kF8E4M3, DType::kF32, 1, &quantised.codes[at], reinterpret_cast<std::byte*>(&code));
      EXPECT_EQ(values[at], code * quantised.scales[static_cast<size_t>(row / 2 * 3 + column / 3)])
          << row << " " << column;
    }
  }
  EXPECT_THAT(opened.info.config, AllOf(Not(HasSubstr("quantization")), HasSubstr("float32")));
  EXPECT_THAT(opened.info.notes, Contains(HasSubstr("1 weights in 8 bits are read as F32")));
}

TEST_F(ConvertedTest, ScalesThatFitNoWeightAreNamed) {
  Quantised quantised;
  quantised.specs[0].shape = {9};
  quantised.specs.push_back({"v_scale_inv", DType::kF8E4M3, {35}});
  Opened opened;
  std::vector<FoundFile> found;
  quantised.open(path("q.safetensors"), opened, found);
  const std::string problem = message_of(BlockScales::of_config(kConfig)->take(DType::kF32, opened, found));
  EXPECT_THAT(problem, HasSubstr("f: \"w\" is in 8 bits and has no scale"));
  EXPECT_THAT(problem, AllOf(HasSubstr("\"w_scale_inv\" is no scale of a weight in blocks of 2 x 3"),
                             HasSubstr("\"v_scale_inv\" is no scale")));
}

// The other form of 8 bits, and a weight that is not in 8 bits.
TEST_F(ConvertedTest, ScalesBelongToWeightsInEightBitsAlone) {
  Quantised quantised;
  quantised.specs[1].dtype = DType::kF8E5M2;
  quantised.specs[0].name = "other_scale_inv";
  Opened opened;
  std::vector<FoundFile> found;
  quantised.open(path("q.safetensors"), opened, found);
  EXPECT_THAT(message_of(BlockScales::of_config(kConfig)->take(DType::kF32, opened, found)),
              HasSubstr("f: \"w\" is in 8 bits and has no scale"));
  Quantised wide;
  wide.specs[1].dtype = DType::kBF16;
  wide.codes.resize(70);
  opened = {};
  found.clear();
  wide.open(path("w.safetensors"), opened, found);
  EXPECT_THAT(message_of(BlockScales::of_config(kConfig)->take(DType::kF32, opened, found)),
              HasSubstr("\"w_scale_inv\" is no scale of a weight"));
}

TEST_F(ConvertedTest, OtherQuantisationIsRefusedByName) {
  write_hugging_face(path("hf"), llama_config(8, 2), {}, 4);
  for (const std::string method : {"gptq", "awq", "bitsandbytes", "compressed-tensors"}) {
    std::string config = llama_config(8, 2);
    config.insert(config.find('{') + 1, fmt::format(R"("quantization_config": {{"quant_method": "{}"}}, )", method));
    write_text(path("hf/config.json"), config);
    EXPECT_THAT(refusal("hf"), HasSubstr(fmt::format("weights of \"{}\" are not read here", method)));
  }
  EXPECT_THAT(message_of(BlockScales::of_config(R"({"quantization_config": {"quant_method": 5}})").status()),
              HasSubstr("weights of an unknown method are not read here"));
  EXPECT_THAT(message_of(BlockScales::of_config(R"({"quantization_config": {"quant_method": "fp8"}})").status()),
              HasSubstr("/quantization_config/weight_block_size: is not two sizes"));
}

}  // namespace converted_test
}  // namespace scalai::store::internal
