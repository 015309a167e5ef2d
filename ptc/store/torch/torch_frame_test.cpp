#include "ptc/store/torch/torch_frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "ptc/base/status.h"
#include "ptc/store/torch/torch_file.h"
#include "ptc/store/torch/zip.h"

namespace scalai::store {
namespace torch_frame_test {

using tensor::DType;
using testing::HasSubstr;

// The texts of a frame, or of a stretch of it, and zeros for tensors: of any size.
class FrameSource final : public ByteSource {
 public:
  explicit FrameSource(const FileFrame& frame) : FrameSource(frame, {0, frame.bytes}) {}
  FrameSource(const FileFrame& frame, ChunkFrame::Place part) : frame_(frame), part_(part) {}
  const std::string& name() const override { return name_; }
  int64_t size() const override { return part_.bytes; }
  absl::Status read(int64_t offset, std::span<std::byte> dst) const override {
    std::memset(dst.data(), 0, dst.size());
    const int64_t begin = part_.begin + offset, end = begin + std::ssize(dst);
    auto text = std::partition_point(frame_.texts.begin(), frame_.texts.end(), [&](const FileFrame::Text& each) {
      return each.offset + std::ssize(each.bytes) <= begin;
    });
    for (; text != frame_.texts.end() && text->offset < end; ++text) {
      const int64_t from = std::max(begin, text->offset), to = std::min(end, text->offset + std::ssize(text->bytes));
      std::memcpy(dst.data() + (from - begin), text->bytes.data() + (from - text->offset),
                  static_cast<size_t>(to - from));
    }
    return absl::OkStatus();
  }

 private:
  std::string name_ = "frame.pt";
  const FileFrame& frame_;
  ChunkFrame::Place part_;
};

// Texts and tensors follow each other without a gap.
void expect_whole(const FileFrame& frame) {
  std::map<int64_t, int64_t> parts;
  for (const StoredTensor& tensor : frame.tensors) {
    if (tensor.bytes > 0) parts[tensor.offset] = tensor.bytes;  // others may lie in the middle of a text
  }
  for (const FileFrame::Text& text : frame.texts) parts[text.offset] = std::ssize(text.bytes);
  int64_t at = 0;
  for (const auto& [offset, bytes] : parts) {
    EXPECT_EQ(offset, at);
    at = offset + bytes;
  }
  EXPECT_EQ(at, frame.bytes);
}

const std::vector<TensorSpec> kTensors = {{"model.a.weight", DType::kBF16, {3, 5}},
                                          {"model.scale", DType::kF32, {}},
                                          {"model1.a.weight", DType::kF8E4M3, {2, 2, 2}},
                                          {"model.none", DType::kI64, {0, 4}},
                                          {"model.wide", DType::kU32, {7}}};

TEST(TorchFrames, AreReadAsTheyWereMeant) {
  const absl::StatusOr<FileFrame> frame = megatron_frame(kTensors, 300);
  ASSERT_TRUE(frame.ok()) << message_of(frame.status());
  expect_whole(*frame);
  const absl::StatusOr<TorchFile> file = read_torch_file(FrameSource(*frame));
  ASSERT_TRUE(file.ok()) << message_of(file.status());
  EXPECT_EQ(file->iteration, 300);
  ASSERT_EQ(file->tensors.size(), kTensors.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    EXPECT_EQ(file->tensors[i], frame->tensors[i]);
    EXPECT_EQ(file->tensors[i].name, kTensors[i].name);
    EXPECT_EQ(file->tensors[i].dtype, kTensors[i].dtype);
    EXPECT_EQ(file->tensors[i].shape, kTensors[i].shape);
    EXPECT_EQ(file->tensors[i].offset % 64, 0);
  }
}

TEST(TorchFrames, NumbersBeyond32BitsFit) {
  const std::vector<TensorSpec> large = {{"model.a", DType::kF32, {3, int64_t{1} << 30}},
                                         {"model.b", DType::kF32, {2}},
                                         {"model.c", DType::kBF16, {int64_t{1} << 31}}};
  const absl::StatusOr<FileFrame> frame = megatron_frame(large, 0);
  ASSERT_TRUE(frame.ok());
  expect_whole(*frame);
  const absl::StatusOr<TorchFile> file = read_torch_file(FrameSource(*frame));
  ASSERT_TRUE(file.ok()) << message_of(file.status());
  EXPECT_EQ(file->tensors, frame->tensors);
}

TEST(TorchFrames, MoreEntriesThan16BitsFit) {
  std::vector<TensorSpec> many;
  for (int i = 0; i < 70'000; ++i) many.push_back({"model." + std::to_string(i), DType::kU8, {1}});
  const absl::StatusOr<FileFrame> frame = megatron_frame(many, 0);
  ASSERT_TRUE(frame.ok());
  const absl::StatusOr<std::vector<ZipEntry>> entries = zip_entries(FrameSource(*frame));
  ASSERT_TRUE(entries.ok()) << message_of(entries.status());
  EXPECT_EQ(entries->size(), many.size() + 5);
}

TEST(TorchFrames, ChunksAreFilesOfTheirOwn) {
  const ChunkFrame chunks = chunk_frame(kTensors, {.step = 17, .none = true});
  expect_whole(chunks.frame);
  ASSERT_EQ(chunks.places.size(), kTensors.size());
  for (size_t i = 0; i < kTensors.size(); ++i) {
    const absl::StatusOr<TorchFile> file = read_torch_file(FrameSource(chunks.frame, chunks.places[i]));
    ASSERT_TRUE(file.ok()) << message_of(file.status());
    ASSERT_EQ(file->tensors.size(), 1U);
    EXPECT_EQ(file->tensors[0].shape, kTensors[i].shape);
    EXPECT_EQ(chunks.places[i].begin + file->tensors[0].offset, chunks.frame.tensors[i].offset);
  }
  ASSERT_TRUE(chunks.step.has_value());
  const FrameSource source(chunks.frame, *chunks.step);
  const absl::StatusOr<TorchFile> step = read_torch_file(source);
  ASSERT_TRUE(step.ok()) << message_of(step.status());
  float value = 0;
  ASSERT_TRUE(source.read(step->tensors[0].offset, std::as_writable_bytes(std::span(&value, 1))).ok());
  EXPECT_EQ(value, 17);
  ASSERT_TRUE(chunks.none.has_value());
  const absl::StatusOr<TorchFile> none = read_torch_file(FrameSource(chunks.frame, *chunks.none));
  ASSERT_TRUE(none.ok()) << message_of(none.status());
  EXPECT_TRUE(none->tensors.empty());
}

TEST(TorchFrames, NamesAreInDictsAndOnlyOnce) {
  const std::vector<TensorSpec> twice = {{"model.a", DType::kU8, {1}}, {"model.a", DType::kU8, {1}}};
  EXPECT_THAT(message_of(megatron_frame(twice, 0).status()), HasSubstr("two tensors are named \"model.a\""));
  const std::vector<TensorSpec> bare = {{"a", DType::kU8, {1}}};
  EXPECT_THAT(message_of(megatron_frame(bare, 0).status()), HasSubstr("tensor \"a\" is in no dict"));
}

}  // namespace torch_frame_test
}  // namespace scalai::store
