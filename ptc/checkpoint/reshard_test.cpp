#include "ptc/checkpoint/reshard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptc/checkpoint/internal/small_disk.h"
#include "ptc/checkpoint/internal/test_model.h"

namespace scalai::checkpoint {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::shared_ptr<const View> view_of(const std::string& folder, const std::string& name) {
  const auto checkpoint = Checkpoint::open(folder);
  SCALAI_CHECK(checkpoint.ok(), message_of(checkpoint.status()));
  auto view = View::make(*checkpoint, name);
  SCALAI_CHECK(view.ok(), message_of(view.status()));
  return *view;
}

// With chunks so small that a tiny model has many.
absl::StatusOr<ReshardResult> run(const View& view, const ReshardOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(ReshardPlan plan, plan_reshard(view, options));
  plan.chunk_bytes = 1000;
  return reshard(view, plan, options);
}

class ReshardTest : public FolderTest {
 protected:
  ReshardTest() { write_hugging_face(path("hf"), llama_config(8, 2)); }
  ReshardOptions options(const std::string& to = "out") const {
    ReshardOptions made;
    made.target = path(to);
    made.threads = 2;
    made.sync_bytes = 8000;
    return made;
  }
  // A process that ends like a killed one once it has done so many bytes.
  void killed_after(int64_t bytes, const std::string& view, ReshardOptions made) const {
    const pid_t child = ::fork();
    if (child == 0) {
      made.progress = [&](const ReshardProgress& progress) {
        if (progress.bytes_done >= bytes) ::_exit(9);
      };
      (void)run(*view_of(path("hf"), view), made);
      ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void expect_same_folder(const std::string& a, const std::string& b) const {
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(path(a))) {
      ++files;
      const std::string name = entry.path().filename();
      EXPECT_TRUE(text_of(entry.path()) == text_of(path(b) + "/" + name)) << name;
    }
    EXPECT_EQ(files, static_cast<size_t>(std::distance(fs::directory_iterator(path(b)), {})));
  }
};

TEST_F(ReshardTest, WritesVerifiesAndTidiesUp) {
  const auto view = view_of(path("hf"), "tp4-pp2");
  ReshardOptions made = options();
  made.verify = true;
  int64_t last = 0;
  made.progress = [&](const ReshardProgress& progress) { last = progress.bytes_done; };
  const auto result = run(*view, made);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->bytes_written, result->bytes_total);
  EXPECT_GT(last, 0);
  EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "out"));
  EXPECT_THAT(message_of(run(*view, options()).status()), HasSubstr("--force"));
  made.force = true;
  EXPECT_TRUE(run(*view, made).ok());
  EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "out"));
}

TEST_F(ReshardTest, GoesOnWhereAKilledRunWas) {
  const auto view = view_of(path("hf"), "tp2-pp2");
  ASSERT_TRUE(run(*view, options("reference")).ok());
  int64_t total = 0;
  for (const PlannedFile& file : plan_reshard(*view, options())->files) total += file.bytes;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Random random(seed);
    const int64_t at = random.between(1, total);
    killed_after(at, "tp2-pp2", options());
    EXPECT_FALSE(fs::exists(path("out")));
    const auto result = run(*view, options());
    ASSERT_TRUE(result.ok()) << result.status();
    // Each of the two threads may have been inside a sync interval of its file.
    EXPECT_LE(result->bytes_written, total - at + 2 * (8000 + 2 * 1000)) << at;
    expect_same_folder("reference", "out");
    EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "out", "reference"));
    fs::remove_all(path("out"));
  }
}

TEST_F(ReshardTest, WhatAKilledRunWroteIsNotTakenOnTrust) {
  const auto view = view_of(path("hf"), "hf");
  ASSERT_TRUE(run(*view, options("reference")).ok());
  killed_after(60'000, "hf", options());
  damage(path("out.partial/model.safetensors"), 20'000);
  ASSERT_TRUE(run(*view, options()).ok());
  expect_same_folder("reference", "out");
}

TEST_F(ReshardTest, AnotherSourceOrTargetDoesNotGoOn) {
  killed_after(50'000, "tp2-pp2", options());
  EXPECT_THAT(message_of(run(*view_of(path("hf"), "tp4"), options()).status()), HasSubstr("--restart"));
  ReshardOptions made = options();
  made.restart = true;
  ASSERT_TRUE(run(*view_of(path("hf"), "tp4"), made).ok());
  EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "out"));
  fs::create_directories(path("out2.partial"));
  write_text(path("out2.partial/mine.txt"), "not to be removed");
  EXPECT_THAT(message_of(run(*view_of(path("hf"), "tp4"), options("out2")).status()), HasSubstr("no journal"));
  EXPECT_EQ(text_of(path("out2.partial/mine.txt")), "not to be removed");
}

TEST_F(ReshardTest, AFullDiskLeavesWhatIsThereAndGoesOn) {
  const SmallDisk result = on_small_disk(150'000, [&](const std::string& disk) {
    ReshardOptions made = options();
    made.target = disk + "/out";
    const absl::Status status = run(*view_of(path("hf"), "tp2"), made).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_FALSE(fs::exists(disk + "/out"));
  });
  if (result == SmallDisk::kUnavailable) GTEST_SKIP() << "this user may not mount";
  EXPECT_EQ(result, SmallDisk::kPassed);
}

TEST_F(ReshardTest, ATooSmallCapIsRefusedWithTheSmallest) {
  const auto view = view_of(path("hf"), "tp2");
  ReshardOptions made = options();
  made.memory_cap = 1 << 20;
  const std::string message = message_of(plan_reshard(*view, made).status());
  EXPECT_THAT(message, HasSubstr("at least"));
  const int64_t smallest = std::stoll(message.substr(message.find("at least") + 9));
  made.memory_cap = smallest << 20;
  const auto plan = plan_reshard(*view, made);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_LE(plan->peak_memory_bytes, made.memory_cap);
}

TEST_F(ReshardTest, ASourceThatChangesMeanwhileIsAnError) {
  const auto view = view_of(path("hf"), "tp2");
  damage(path("hf/model.safetensors"), 100'000);
  const absl::Status status = run(*view, options()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(ReshardTest, ThePlanSaysRunsAndPadding) {
  write_hugging_face(path("gpt"), gpt2_config());
  const auto plan = plan_reshard(*view_of(path("gpt"), "tp2"), options());
  ASSERT_TRUE(plan.ok());
  int64_t padding = 0;
  for (const PlannedFile& file : plan->files) {
    padding += file.padding_bytes;
    EXPECT_EQ(file.source_files, file.runs > 0 ? 1 : 0);
  }
  EXPECT_EQ(padding, (50432 - 50257) * 16 * 2);  // vocabulary over two ranks, 16 columns of BF16
}

}  // namespace
}  // namespace scalai::checkpoint
