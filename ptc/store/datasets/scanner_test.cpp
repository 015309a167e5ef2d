#include "ptc/store/datasets/internal/scanner.h"

#include <gtest/gtest.h>

#include "ptc/base/random.h"
#include "ptc/store/datasets/testing/test_data.h"

namespace scalai::datasets {
namespace {

TEST(Scanner, TakesAndSkipsWhatIsThere) {
  const test::TempFolder folder;
  Random random(4);
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(random.next());
  const ByteSourcePtr source = open_file_source(folder.write("f", bytes)).value();
  for (int round = 0; round < 50; ++round) {
    const int64_t begin = random.below(100), end = random.between(4000, 5000);
    Scanner scanner(source, begin, end, random.between(1, 300));
    int64_t reads = 0, at = begin;
    scanner.watch([&](int64_t position) {
      EXPECT_EQ(position, at);
      ++reads;
    });
    while (scanner.remaining() > 0) {
      const int64_t n = random.between(0, std::min(scanner.most(), scanner.remaining()));
      if (random.below(5) == 0) {
        scanner.skip(n);
      } else {
        const auto taken = scanner.take(n);
        ASSERT_TRUE(taken.ok()) << taken.status();
        ASSERT_EQ(std::string(reinterpret_cast<const char*>(taken->data()), taken->size()),
                  bytes.substr(static_cast<size_t>(at), static_cast<size_t>(n)));
      }
      at += n;
      ASSERT_EQ(scanner.position(), at);
    }
    EXPECT_EQ(at, end);
    EXPECT_GT(reads, 0);
  }
}

TEST(ScannerDeath, NothingBehindTheEnd) {
  const test::TempFolder folder;
  Scanner scanner(open_file_source(folder.write("f", "abc")).value());
  EXPECT_EXIT((void)scanner.take(4), testing::ExitedWithCode(70), "n <= remaining");
  EXPECT_EXIT(scanner.skip(4), testing::ExitedWithCode(70), "n <= remaining");
}

}  // namespace
}  // namespace scalai::datasets
