#include "executor/worker/background_write.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <string>
#include <thread>

#include "ptc/base/status.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::worker {
namespace {

using store::Reader;
using store::Writer;
using ::testing::HasSubstr;

// Types of several sizes, so that the files have another order than the collection; the last tensor on rank 1 only.
constexpr const char* kText = R"(schema_version: 1 name: "two" devices: "0-1" meshes { axes { name: "tp" size: 2 } }
tensors { name: "small" dtype: "U8" shape: [5] }
tensors { name: "wide" dtype: "F32" shape: [4, 6] cuts { axis: "tp" dim: 1 rule: CEIL } }
tensors { name: "half" dtype: "BF16" shape: [7] cuts { axis: "tp" dim: 0 rule: CEIL } }
tensors { name: "count" dtype: "I64" }
tensors { name: "last" dtype: "F32" shape: [3] pins { axis: "tp" at: 1 } })";

class BackgroundWriteTest : public testing::Test {
 protected:
  BackgroundWriteTest() : folder_(std::filesystem::temp_directory_path() / ("background_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
    auto parsed = collection::parse_collection(kText, "two");
    SCALAI_CHECK(parsed.ok(), message_of(parsed.status()));
    side_ = std::move(parsed->collection);
  }
  ~BackgroundWriteTest() override { std::filesystem::remove_all(folder_); }

  // Element i of every tensor has the bytes of 100 * tensor + i + add_.
  absl::Status read(LogicalRank, TensorId tensor, const tensor::Box& box, std::byte* dst) {
    ++reads_;
    const auto& info = side_.tensors[static_cast<size_t>(tensor.value)];
    const int64_t size = tensor::size_of(info.dtype);
    const auto strides = info.shape.strides();
    for (int64_t i = 0; i < box.volume(); ++i) {
      int64_t rest = i, index = 0;
      for (int dim = box.rank - 1; dim >= 0; --dim) {
        const auto d = static_cast<size_t>(dim);
        index += (box.lo[d] + rest % box.extent(dim)) * strides[d];
        rest /= box.extent(dim);
      }
      const int64_t value = 100 * tensor.value + index + add_;
      std::memcpy(dst + i * size, &value, static_cast<size_t>(size));
    }
    return failure_;
  }
  ReadState reader() {
    return [this](LogicalRank rank, TensorId tensor, const tensor::Box& box, std::byte* dst) {
      return read(rank, tensor, box, dst);
    };
  }
  std::string place() const { return store::step_folder(folder_.string(), 4); }
  Writer begin() const {
    auto writer = Writer::begin(place(), side_, {"job", 4});
    SCALAI_CHECK(writer.ok(), message_of(writer.status()));
    return *std::move(writer);
  }
  Writer join(const Writer& writer) const { return Writer::join(writer.temporary(), side_, {"job", 4}).value(); }

  static absl::StatusOr<Written> result_of(const BackgroundWrite& write) {
    for (;;) {
      if (auto result = write.poll()) return *std::move(result);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void expect_right(int64_t added) {
    const auto opened = Reader::open(place());
    ASSERT_TRUE(opened.ok()) << opened.status();
    EXPECT_TRUE(opened->verify().ok());
    add_ = added;
    for (size_t i = 0; i < side_.tensors.size(); ++i) {
      const TensorId tensor(static_cast<int64_t>(i));
      const tensor::Box whole = tensor::Box::whole(side_.tensors[i].shape);
      std::vector<std::byte> wanted(static_cast<size_t>(whole.volume() * tensor::size_of(side_.tensors[i].dtype)));
      std::vector<std::byte> found(wanted.size());
      ASSERT_TRUE(read(LogicalRank(0), tensor, whole, wanted.data()).ok());
      ASSERT_TRUE(opened->read(tensor, whole, found).ok());
      EXPECT_EQ(found, wanted) << side_.tensors[i].name;
    }
  }

  const std::filesystem::path folder_;
  collection::Collection side_;
  std::atomic<int> reads_ = 0;
  int64_t add_ = 0;
  absl::Status failure_;
};

TEST_F(BackgroundWriteTest, WhatIsWrittenIsTheStateAtTheBeginning) {
  Writer writer = begin();
  auto write = BackgroundWrite::begin(join(writer), {0, 1}, reader(), 2, int64_t{1} << 30);
  ASSERT_TRUE(write.ok()) << write.status();
  const int reads = reads_;
  add_ = 1000;  // training goes on
  const absl::StatusOr<Written> written = result_of(**write);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(reads_, reads) << "nothing is read later";
  EXPECT_EQ(written->bytes, writer.state_bytes(LogicalRank(0)) + writer.state_bytes(LogicalRank(1)));
  EXPECT_EQ((*write)->poll()->value().parts, written->parts) << "asked once more";
  ASSERT_TRUE(writer.finish(written->parts).ok());
  expect_right(0);
}

TEST_F(BackgroundWriteTest, WithoutMemoryForACopyItIsWrittenAtOnce) {
  Writer writer = begin();
  auto write = BackgroundWrite::begin(join(writer), {0, 1}, reader(), 2, 16);
  ASSERT_TRUE(write.ok()) << write.status();
  const auto written = (*write)->poll();
  ASSERT_TRUE(written && written->ok());
  ASSERT_TRUE(writer.finish((*written)->parts).ok());
  expect_right(0);
}

TEST_F(BackgroundWriteTest, FailuresAreTold) {
  failure_ = absl::AbortedError("torn");
  Writer writer = begin();
  EXPECT_EQ(BackgroundWrite::begin(join(writer), {0}, reader(), 1, int64_t{1} << 30).status(), failure_);
  failure_ = absl::OkStatus();
  Writer joined = join(writer);
  std::filesystem::remove_all(writer.temporary());  // its controller was killed, and another one has cleaned up
  auto write = BackgroundWrite::begin(std::move(joined), {0}, reader(), 1, int64_t{1} << 30);
  ASSERT_TRUE(write.ok()) << write.status();
  const absl::StatusOr<Written> written = result_of(**write);
  EXPECT_THAT(message_of(written.status()), HasSubstr("rank_000.safetensors"));
}

TEST_F(BackgroundWriteTest, ItsEndWaitsForTheFiles) {
  const Writer writer = begin();
  { ASSERT_TRUE(BackgroundWrite::begin(join(writer), {0, 1}, reader(), 1, int64_t{1} << 30).ok()); }
  EXPECT_TRUE(std::filesystem::exists(writer.temporary() + "/rank_001.safetensors"));
}

}  // namespace
}  // namespace scalai::executor::worker
