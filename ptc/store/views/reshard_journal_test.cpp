#include "ptc/store/views/internal/reshard_journal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "ptc/store/views/internal/reshard_writer.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store::internal {
namespace {

using ::testing::HasSubstr;

class JournalTest : public FolderTest {
 protected:
  std::unique_ptr<Journal> open(const std::string& job = "job") const {
    auto journal = Journal::open(path("journal"), job, /*restart=*/false);
    SCALAI_CHECK(journal.ok(), message_of(journal.status()));
    return *std::move(journal);
  }
};

TEST_F(JournalTest, TellsTheNextRunWhatIsDone) {
  {
    const auto journal = open();
    EXPECT_TRUE(journal->sync_point(3, {1000, "aa"}).ok());
    EXPECT_TRUE(journal->sync_point(3, {2000, "bb"}).ok());
    EXPECT_TRUE(journal->file_done(1, {"cc", {{"w \"quoted\"", "dd"}}}).ok());
    EXPECT_THAT(message_of(Journal::open(path("journal"), "job", false).status()), HasSubstr("another process"));
  }
  const auto journal = open();
  ASSERT_EQ(journal->begun().count(3), 1u);
  EXPECT_EQ(journal->begun().at(3).bytes, 2000);
  EXPECT_EQ(journal->begun().at(3).checksum, "bb");
  EXPECT_EQ(journal->done().at(1).file, "cc");
  EXPECT_EQ(journal->done().at(1).tensors.at("w \"quoted\""), "dd");
  EXPECT_FALSE(journal->publishing().has_value());
  EXPECT_TRUE(journal->publish("ee").ok());
}

// At whichever byte a kill cuts it, what is read is what whole lines say, and going on appends after these. After a
// loss of power zeros may follow.
// Others make, lock and remove it all the time: whoever gets it has the one that is there.
TEST_F(JournalTest, ALockIsThatOfTheFileWithTheName) {
  std::atomic<bool> over = false;
  std::thread others([&] {
    while (!over) {
      const FileDescriptor file(::open(path("journal").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
      if (file.get() < 0 || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) continue;
      struct stat locked {
      }, named{};
      const bool same = ::fstat(file.get(), &locked) == 0 && ::lstat(path("journal").c_str(), &named) == 0 &&
                        locked.st_ino == named.st_ino;
      if (same) ::unlink(path("journal").c_str());
    }
  });
  int opened = 0;
  for (int i = 0; i < 20000 && opened < 200; ++i) {
    const auto journal = Journal::open(path("journal"), "job", /*restart=*/false);
    if (!journal.ok()) {
      EXPECT_THAT(message_of(journal.status()), HasSubstr("writing this target"));
      continue;
    }
    ++opened;
    EXPECT_TRUE(std::filesystem::exists(path("journal"))) << "it is nobody's";
    EXPECT_TRUE((*journal)->remove().ok());
  }
  over = true;
  others.join();
  EXPECT_GT(opened, 0);
}

TEST_F(JournalTest, ALineThatWasCutShortIsNotThere) {
  {
    const auto journal = open();
    EXPECT_TRUE(journal->file_done(0, {"aa", {}}).ok());
    EXPECT_TRUE(journal->file_done(1, {"bb", {}}).ok());
  }
  const std::string whole = text_of(path("journal"));
  for (size_t i = 0; i <= 2 * whole.size(); ++i) {
    const size_t length = i / 2;
    write_text(path("journal"), whole.substr(0, length) + std::string(i % 2 * 20, '\0'));
    const auto lines =
        static_cast<size_t>(std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length), '\n'));
    {
      const auto journal = open();
      EXPECT_EQ(journal->done().size(), lines == 0 ? 0 : lines - 1) << length;
      EXPECT_TRUE(journal->file_done(7, {"cc", {}}).ok());
    }
    EXPECT_EQ(open()->done().count(7), 1u) << length;
  }
}

TEST_F(JournalTest, AFileOfAnotherKindStays) {
  for (const std::string text : {"my notes\n", "my notes", "{\"job\": 1, \"schema_version\": 1}\n"}) {
    write_text(path("journal"), text);
    for (const bool restart : {false, true}) {
      EXPECT_THAT(message_of(Journal::open(path("journal"), "job", restart).status()), HasSubstr("no journal"));
    }
    EXPECT_EQ(text_of(path("journal")), text);
  }
  std::filesystem::remove(path("journal"));
  std::filesystem::create_symlink(path("elsewhere"), path("journal"));
  EXPECT_THAT(message_of(Journal::open(path("journal"), "job", false).status()), HasSubstr("symbolic link"));
}

TEST_F(JournalTest, ForgetsAndWithdraws) {
  {
    const auto journal = open();
    EXPECT_FALSE(journal->was_there());
    EXPECT_TRUE(journal->file_done(0, {"aa", {}}).ok());
    EXPECT_TRUE(journal->publish("bb").ok());
  }
  {
    const auto journal = open();
    EXPECT_TRUE(journal->was_there());
    EXPECT_EQ(journal->publishing(), "bb");
    EXPECT_TRUE(journal->withdraw().ok());
  }
  EXPECT_FALSE(open()->publishing().has_value());
  EXPECT_EQ(open()->done().size(), 1u);
  EXPECT_TRUE(open()->forget().ok());
  EXPECT_TRUE(open()->done().empty());
  EXPECT_TRUE(open()->was_there());
}

TEST_F(JournalTest, OfAnotherJobIsRefusedUnlessRestarted) {
  EXPECT_TRUE(open()->file_done(0, {"aa", {}}).ok());
  EXPECT_THAT(message_of(Journal::open(path("journal"), "other", false).status()), HasSubstr("--restart"));
  const auto again = Journal::open(path("journal"), "other", true);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE((*again)->done().empty());
  EXPECT_TRUE((*again)->remove().ok());
  EXPECT_FALSE(std::filesystem::exists(path("journal")));
}

}  // namespace
}  // namespace scalai::store::internal
