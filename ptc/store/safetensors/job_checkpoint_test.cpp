#include "ptc/store/safetensors/job_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>

#include "ptc/base/file.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::store {
namespace {

using ::testing::ElementsAre;

class LatestTest : public FolderTest {
 protected:
  void write(int64_t step) const {
    ASSERT_TRUE(write_checkpoint(step_folder(folder_, step), collection_, {"job", step}).ok());
  }
  int64_t latest_step() const {
    const std::optional<FoundCheckpoint> found = latest(folder_);
    if (!found) return -1;
    EXPECT_EQ(found->path, step_folder(folder_, found->step));
    return found->step;
  }
  collection::Collection collection_ = sample_collection();
};

TEST(StepFolder, IsNamedByTheStep) {
  EXPECT_EQ(step_folder("a", 12), "a/step_00000012");
  EXPECT_EQ(step_folder("a/", 0), "a/step_00000000");
  EXPECT_EQ(step_folder("a", 1'234'567'890), "a/step_1234567890");
}

TEST_F(LatestTest, IsTheNewestCompleteOne) {
  EXPECT_EQ(latest(path("nothing")), std::nullopt);
  EXPECT_EQ(latest_step(), -1);
  write(2);
  write(10);
  write(123'456'789);
  EXPECT_EQ(latest_step(), 123'456'789);
  // As a copy that was interrupted leaves it.
  std::filesystem::remove(step_folder(folder_, 123'456'789) + "/rank_001.safetensors");
  EXPECT_EQ(latest_step(), 10);
  std::filesystem::resize_file(step_folder(folder_, 10) + "/rank_001.safetensors", 100);
  EXPECT_EQ(latest_step(), 2);
  std::filesystem::remove(step_folder(folder_, 2) + "/manifest.json");
  EXPECT_EQ(latest_step(), -1);
}

TEST_F(LatestTest, PassesOverOtherNames) {
  write(2);
  for (const char* name : {"step_3", "step_0000000x", "step_-0000003", "step_00000004.partial.1.0", "step_000000005"}) {
    std::filesystem::copy(step_folder(folder_, 2), path(name));
  }
  std::filesystem::rename(path("step_3"), step_folder(folder_, 7));  // the step inside is another
  EXPECT_EQ(latest_step(), 2);
}

// A kill in the middle leaves no half of a checkpoint under its name.
TEST_F(LatestTest, ARemovedOneLosesItsNameFirst) {
  write(2);
  write(3);
  const int watch = ::inotify_init1(IN_NONBLOCK);
  ASSERT_GE(watch, 0);
  ASSERT_GE(::inotify_add_watch(watch, folder_.c_str(), IN_MOVED_FROM | IN_DELETE), 0);
  remove_checkpoint(step_folder(folder_, 3) + "/");
  alignas(inotify_event) std::array<char, 4096> buffer{};
  ASSERT_GT(::read(watch, buffer.data(), buffer.size()), 0);
  ::close(watch);
  const auto* first = reinterpret_cast<const inotify_event*>(buffer.data());
  EXPECT_EQ(first->mask & IN_MOVED_FROM, IN_MOVED_FROM);
  EXPECT_STREQ(first->name, "step_00000003");
  EXPECT_EQ(latest_step(), 2);
  EXPECT_TRUE(clean(folder_)->empty()) << "nothing is left";
}

TEST_F(LatestTest, TemporariesCanBeCleaned) {
  write(2);
  std::string temporary;
  {
    absl::StatusOr<Writer> writer = Writer::begin(step_folder(folder_, 3), collection_, {"job", 3});
    ASSERT_TRUE(writer.ok());
    temporary = writer->temporary();
    // As if the process were killed: a copy stays.
    std::filesystem::copy(temporary, step_folder(folder_, 3) + ".partial.1.0");
    std::filesystem::copy(temporary, step_folder(folder_, 3) + ".partial.1.gone");
  }
  ASSERT_TRUE(make_folders(path("other.partial.1.0")).ok());
  EXPECT_EQ(latest_step(), 2);
  const absl::StatusOr<std::vector<std::string>> removed = clean(folder_);
  ASSERT_TRUE(removed.ok());
  EXPECT_THAT(*removed,
              ElementsAre(step_folder(folder_, 3) + ".partial.1.0", step_folder(folder_, 3) + ".partial.1.gone"));
  EXPECT_TRUE(std::filesystem::exists(path("other.partial.1.0")));
  EXPECT_TRUE(clean(folder_)->empty());
  EXPECT_EQ(latest_step(), 2);
}

}  // namespace
}  // namespace scalai::store
