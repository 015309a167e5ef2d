// The checker must be able to fail: publishers with and without their flushes, recorded and explored.

#include "tests/crash/explorer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "ptc/base/file.h"
#include "ptc/base/status.h"

namespace scalai::crash {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

// Replaces a file's 5000 bytes, three times: under another name, then rename.
enum class Care { kNone, kFile, kAll, kOurs, kStream, kMapped };

std::string version(int number) { return std::string(5000, static_cast<char>('a' + number)); }

absl::Status publish(const std::string& root, int number, Care care) {
  const std::string place = root + "/file", temporary = root + "/temporary";
  const std::string bytes = version(number);
  if (care == Care::kOurs) return write_file(place, bytes);
  if (care == Care::kStream) {
    std::FILE* stream = std::fopen(place.c_str(), "w");
    std::fwrite(bytes.data(), 1, bytes.size(), stream);
    std::fclose(stream);
    return absl::OkStatus();
  }
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (care == Care::kMapped) {
    (void)::ftruncate(fd, 5000);
    void* memory = ::mmap(nullptr, 5000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::munmap(memory, 5000);
  }
  SCALAI_CHECK(::write(fd, bytes.data(), bytes.size()) == std::ssize(bytes));
  if (care != Care::kNone) ::fsync(fd);
  ::close(fd);
  SCALAI_CHECK(::rename(temporary.c_str(), place.c_str()) == 0);
  if (care == Care::kAll) sync_folder_of(place);
  return absl::OkStatus();
}

class Publisher : public Subject {
 public:
  explicit Publisher(Care care) : care_(care) {}
  std::string name() const override { return "publisher"; }
  absl::Status play(const std::string& root) override {
    for (int i = 0; i < 3; ++i) {
      mark("begin");
      SCALAI_RETURN_IF_ERROR(publish(root, i, care_));
      mark("end");
    }
    return absl::OkStatus();
  }
  absl::StatusOr<Found> check(const std::string& root, std::span<const std::string> marks) override {
    const Progress progress = progress_of(marks);
    const absl::StatusOr<std::string> bytes = read_file(root + "/file");
    if (!bytes.ok() && progress.ended == 0) return Found::kOld;
    if (!bytes.ok()) return failed("the file is gone");
    if (progress.begun > 0 && *bytes == version(static_cast<int>(progress.begun) - 1)) return Found::kNew;
    if (progress.ended > 0 && *bytes == version(static_cast<int>(progress.ended) - 1)) return Found::kOld;
    return failed("neither the old nor the new file");
  }

 private:
  const Care care_;
};

class ExplorerTest : public testing::Test {
 protected:
  ExplorerTest() {
    std::string pattern = testing::TempDir() + "scalai-crash-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~ExplorerTest() override { fs::remove_all(folder_); }

  // This program, again, under the recorder.
  absl::StatusOr<std::vector<Operation>> recording(Care care) {
    ::setenv("SCALAI_CRASH_CARE", std::to_string(static_cast<int>(care)).c_str(), 1);
    subject_ = std::make_unique<Publisher>(care);
    return record({SCALAI_RECORDER, "/proc/self/exe", {"--gtest_filter=Played.*"}}, *subject_, folder_ + "/recorded");
  }
  // "": old or new in every state.
  std::string explored(Care care) {
    const auto operations = recording(care);
    if (!operations.ok()) return message_of(operations.status());
    Explorer explorer(*operations, *subject_, folder_);
    Random random(1);
    const absl::StatusOr<bool> good = explorer.explore(1000, random);
    EXPECT_TRUE(good.ok()) << good.status();
    EXPECT_EQ(*good, explorer.failure().empty());
    EXPECT_EQ(fs::exists(folder_ + "/description.txt"), !*good);
    return explorer.failure();
  }

  std::string folder_;
  std::unique_ptr<Subject> subject_;
};

// Not a test but the work that the others record.
TEST(Played, UnderTheRecorder) {
  const char* care = std::getenv("SCALAI_CRASH_CARE");
  const char* root = std::getenv("SCALAI_RECORD_ROOT");
  if (care == nullptr || root == nullptr) GTEST_SKIP() << "the work of another test's child";
  EXPECT_TRUE(Publisher(static_cast<Care>(std::stoi(care))).play(root).ok());
}

TEST_F(ExplorerTest, APublisherWithoutFlushesIsCaught) {
  EXPECT_THAT(explored(Care::kNone), HasSubstr("neither the old nor the new file"));
}
TEST_F(ExplorerTest, APublisherThatForgetsTheFolderIsCaught) {
  const std::string failure = explored(Care::kFile);
  EXPECT_THAT(failure, HasSubstr("the file is gone"));
  EXPECT_THAT(failure, HasSubstr("0 of 1  rename temporary to file"));  // which change is missing
}
TEST_F(ExplorerTest, APublisherWithBothPasses) { EXPECT_EQ(explored(Care::kAll), ""); }
TEST_F(ExplorerTest, WriteFilePasses) { EXPECT_EQ(explored(Care::kOurs), ""); }

TEST_F(ExplorerTest, WritesThatTheRecorderCannotSeeAreNoticed) {
  EXPECT_THAT(explored(Care::kStream), HasSubstr("was not seen"));
  EXPECT_THAT(explored(Care::kMapped), HasSubstr("a shared mapping for writing"));
}

TEST_F(ExplorerTest, RecordsCallsInTheirOrder) {
  const auto operations = recording(Care::kAll);
  ASSERT_TRUE(operations.ok()) << operations.status();
  std::vector<std::string> lines;
  for (size_t i = 0; i < 7; ++i) lines.push_back(operations->at(i).str());
  EXPECT_THAT(lines, ::testing::ElementsAre("mark \"begin\"", "create temporary", "write temporary [0, 5000)",
                                            "fsync temporary", "rename temporary to file", "fsync .", "mark \"end\""));
  EXPECT_EQ(operations->size(), 21u);
}

}  // namespace
}  // namespace scalai::crash
