#include "ptc/store/views/internal/checked_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/testing/memory_source.h"

namespace scalai::store::internal {
namespace checked_source_test {

using ::testing::HasSubstr;

// [0, 10) has no checksum, [10, 40) and [40, 70) have one each, [70, 100) none.
struct Sample {
  std::string text;
  std::shared_ptr<MemorySource> memory;
  std::shared_ptr<CheckedSource> source;

  explicit Sample(int64_t damaged_at = -1, ChecksumKind kind = ChecksumKind::kXxh3) {
    Random random(11);
    for (int i = 0; i < 100; ++i) text.push_back(static_cast<char>(random.next()));
    std::vector<SummedRange> ranges;
    for (const int64_t begin : {10, 40}) {
      const auto part = std::string_view(text).substr(static_cast<size_t>(begin), 30);
      ranges.push_back({begin, 30, Checksum(kind).add(bytes_of(part)).hex(), 0});
    }
    std::string stored = text;
    if (damaged_at >= 0) stored[static_cast<size_t>(damaged_at)] ^= 1;
    memory = std::make_shared<MemorySource>("memory", stored);
    source = std::make_shared<CheckedSource>(memory, ranges);
  }
  absl::Status read(int64_t offset, int64_t bytes) const {
    std::string got(static_cast<size_t>(bytes), '?');
    const absl::Status status = source->read(offset, std::as_writable_bytes(std::span(got)));
    EXPECT_TRUE(!status.ok() || got == text.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
    return status;
  }
};

// Whatever is read: an error exactly if a range that it touches is damaged, whichever byte of it is.
TEST(CheckedSource, NoByteOfADamagedRangeIsGiven) {
  for (const int64_t at : {10, 27, 39, 40, 69}) {
    const int64_t begin = at < 40 ? 10 : 40;
    for (int64_t offset = 0; offset < 100; offset += 3) {
      for (int64_t end = offset; end <= 100; end += 7) {
        const Sample sample(at);
        const bool touches = offset < begin + 30 && end > begin && end > offset;
        EXPECT_EQ(sample.read(offset, end - offset).ok(), !touches) << at << " " << offset << " " << end;
        EXPECT_EQ(sample.source->has_damage(), touches);
      }
    }
  }
  EXPECT_TRUE(Sample().read(0, 100).ok());
  EXPECT_TRUE(Sample(-1, ChecksumKind::kCrc32).read(15, 50).ok());
}

TEST(CheckedSource, ARangeIsReadForItsChecksumOnce) {
  const Sample sample;
  ASSERT_TRUE(sample.read(12, 2).ok());
  EXPECT_EQ(sample.memory->bytes_read, 30 + 2);
  ASSERT_TRUE(sample.read(20, 5).ok());
  EXPECT_EQ(sample.memory->bytes_read, 30 + 2 + 5);
  ASSERT_TRUE(sample.read(35, 40).ok());  // all of the second range is among what is read
  EXPECT_EQ(sample.memory->bytes_read, 30 + 2 + 5 + 40);
  ASSERT_TRUE(sample.read(40, 1).ok());
  EXPECT_EQ(sample.memory->bytes_read, 30 + 2 + 5 + 40 + 1);
}

TEST(CheckedSource, SaysWhatIsDamagedAndWhoseChecksumItIs) {
  const Sample sample(12);
  EXPECT_THAT(message_of(sample.read(12, 1)),
              HasSubstr("memory: 30 bytes at 10: the bytes do not have the checksum of the manifest"));
  int owner = 0, other = 0;
  sample.source->describe_with(&owner, [](const SummedRange&) { return "tensor \"x\""; });
  sample.source->describe_with(&other, [](const SummedRange&) { return "?"; });
  sample.source->forget(&other);
  EXPECT_THAT(message_of(sample.read(12, 1)), HasSubstr("memory: tensor \"x\": the bytes"));
  sample.source->forget(&owner);
  EXPECT_THAT(message_of(sample.read(12, 1)), HasSubstr("30 bytes at 10"));
  EXPECT_THAT(message_of(Sample(12, ChecksumKind::kCrc32).read(0, 100)), HasSubstr("the checksum of the archive"));
}

TEST(CheckedSource, OthersMaySettleIt) {
  const Sample sample;
  sample.source->settle(0, false);
  EXPECT_FALSE(sample.read(39, 1).ok());
  sample.source->settle(0, true);
  EXPECT_TRUE(sample.read(39, 1).ok());
  EXPECT_EQ(sample.memory->bytes_read, 1);
}

TEST(CheckedSource, ThreadsThatNeedOneRangeReadItOnce) {
  const Sample sample;
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&] { good += sample.read(11, 1).ok(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 8);
  EXPECT_EQ(sample.memory->bytes_read, 30 + 8);
}

}  // namespace checked_source_test
}  // namespace scalai::store::internal
