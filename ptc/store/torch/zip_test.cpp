#include "ptc/store/torch/zip.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/store/safetensors/testing/memory_source.h"
#include "ptc/store/torch/testing/torch_writer.h"

namespace scalai::store {
namespace zip_test {

using testing::HasSubstr;

std::string problem_of(const std::string& bytes) { return message_of(zip_entries(MemorySource("z", bytes)).status()); }

TEST(Zip, SaysWhereEntriesLie) {
  ZipWriter zip;
  zip.add("a/data.pkl", "pickle");
  zip.add("a/data/0", std::string(100, 'x'));
  zip.add("a/empty", "");
  const std::string bytes = zip.finish();
  EXPECT_TRUE(is_zip(MemorySource("z", bytes)).value());
  const auto entries = zip_entries(MemorySource("z", bytes));
  ASSERT_TRUE(entries.ok()) << message_of(entries.status());
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].name, "a/data.pkl");
  EXPECT_EQ(bytes.substr(static_cast<size_t>((*entries)[0].offset), 6), "pickle");
  EXPECT_EQ((*entries)[1].bytes, 100);
  EXPECT_EQ(bytes.substr(static_cast<size_t>((*entries)[1].offset), 100), std::string(100, 'x'));
  EXPECT_EQ((*entries)[2].bytes, 0);
}

TEST(Zip, RefusesWhatTorchDoesNotWrite) {
  ZipWriter packed, secret, twice;
  packed.add("a", "x", /*method=*/8);
  secret.add("a", "x", 0, /*flags=*/1);
  twice.add("a", "x");
  twice.add("a", "y");
  EXPECT_THAT(problem_of(packed.finish()), HasSubstr("z: \"a\" is compressed"));
  EXPECT_THAT(problem_of(secret.finish()), HasSubstr("\"a\" is encrypted"));
  EXPECT_THAT(problem_of(twice.finish()), HasSubstr("\"a\" is in it twice"));
  EXPECT_THAT(problem_of(std::string(100, 'x')), HasSubstr("it has no table of contents"));
  EXPECT_FALSE(is_zip(MemorySource("z", "PK")).value());
}

TEST(Zip, EveryCutAndManyEditsAreToldOrHarmless) {
  constexpr uint64_t kSeed = 20261126;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  ZipWriter zip;
  zip.add("a/data.pkl", "pickle");
  zip.add("a/data/0", std::string(40, 'x'));
  const std::string bytes = zip.finish();
  for (size_t length = 0; length < bytes.size(); ++length) EXPECT_NE(problem_of(bytes.substr(0, length)), "") << length;
  Random random(kSeed);
  for (int round = 0; round < 20'000; ++round) {
    std::string edited = bytes;
    for (int64_t edits = random.between(1, 3); edits > 0; --edits)
      edited[static_cast<size_t>(random.below(static_cast<int64_t>(edited.size())))] =
          static_cast<char>(random.below(256));
    const MemorySource source("z", edited);
    const auto entries = zip_entries(source);
    if (!entries.ok()) continue;
    for (const ZipEntry& entry : *entries) {
      ASSERT_GE(entry.offset, 0);
      ASSERT_LE(entry.offset + entry.bytes, source.size());
    }
  }
}

}  // namespace zip_test
}  // namespace scalai::store
