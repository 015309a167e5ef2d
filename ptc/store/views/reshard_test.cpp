#include "ptc/store/views/reshard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ptc/state/collection/collection_file.h"
#include "ptc/store/safetensors/checksum.h"
#include "ptc/store/safetensors/testing/small_disk.h"
#include "ptc/store/safetensors/testing/write_safetensors.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::store {
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
  void killed_after(int64_t bytes, const std::string& view, const ReshardOptions& made) const {
    killed_after(bytes, view_of(path("hf"), view), made);
  }
  void killed_after(int64_t bytes, const std::shared_ptr<const View>& view, ReshardOptions made) const {
    const pid_t child = ::fork();
    if (child == 0) {
      made.progress = [&](const ReshardProgress& progress) {
        if (progress.bytes_done >= bytes) ::_exit(9);
      };
      (void)run(*view, made);
      ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    ASSERT_EQ(WEXITSTATUS(status), 9);
  }
  // Everything is written and said to be about to be published, and DST is not there.
  void killed_at_publishing(const View& view, const ReshardOptions& made) const {
    ReshardOptions elsewhere = made;
    elsewhere.target = path("whole");
    SCALAI_CHECK(run(view, elsewhere).ok());
    fs::remove_all(path("out"));
    killed_after(plan_reshard(view, made)->bytes_total, view.name(), made);
    fs::remove_all(path("out.partial"));
    fs::rename(path("whole"), path("out.partial"));
    const std::string manifest = text_of(path("out.partial/manifest.json"));
    std::ofstream(path("out.partial.journal"), std::ios::app | std::ios::binary)
        << fmt::format(R"({{"publish":true,"xxh3_128":"{}"}})"
                       "\n",
                       Checksum().add(bytes_of(manifest)).hex());
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
  for (const char* other : {"thesis.txt", "best.safetensors"}) {
    write_text(path("out/") + other, "mine");
    EXPECT_THAT(message_of(run(*view, made).status()), HasSubstr("which is not of a checkpoint")) << other;
    std::filesystem::remove(path("out/") + other);
  }
  EXPECT_TRUE(run(*view, made).ok());
  EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "out"));
}

TEST_F(ReshardTest, GoesOnWhereAKilledRunWas) {
  const auto view = view_of(path("hf"), "tp2-pp2");
  ASSERT_TRUE(run(*view, options("reference")).ok());
  int64_t total = 0;
  const auto planned = plan_reshard(*view, options());
  for (const PlannedFile& file : planned->files) total += file.bytes;
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

// A file that the journal calls done is not, either.
TEST_F(ReshardTest, AFinishedFileIsNotTakenOnTrust) {
  const auto view = view_of(path("hf"), "tp2-pp2");
  ASSERT_TRUE(run(*view, options("reference")).ok());
  const ReshardPlan plan = *plan_reshard(*view, options());
  killed_after(plan.bytes_total * 3 / 4, "tp2-pp2", options());
  damage(path("out.partial/rank_000.safetensors"), 20'000);
  ASSERT_TRUE(run(*view, options()).ok());
  expect_same_folder("reference", "out");
}

// The journal of a run that was killed right before or after the exchange, with what lies where then.
// Nobody can tell whether what a killed run wrote is of the same source.
TEST_F(ReshardTest, WithoutVersionsARunBeginsAnew) {
  const auto view = [&] {
    OpenOptions options;
    options.opener = [](const std::string& location) -> absl::StatusOr<ByteSourcePtr> {
      if (!fs::exists(location)) return missing(location);
      return text_source(location, text_of(location));
    };
    const auto checkpoint = Checkpoint::open(path("hf"), options);
    SCALAI_CHECK(checkpoint.ok(), message_of(checkpoint.status()));
    return *View::make(*checkpoint, "tp2");
  };
  killed_after(60'000, view(), options());
  write_hugging_face(path("hf"), llama_config(8, 2), {}, /*seed=*/2);
  ASSERT_TRUE(run(*view(), options()).ok());
  ASSERT_TRUE(run(*view_of(path("hf"), "tp2"), options("reference")).ok());
  expect_same_folder("reference", "out");
}

TEST_F(ReshardTest, ASourceThatWasReplacedMeanwhileIsNotPublished) {
  const auto view = view_of(path("hf"), "tp2");
  write_hugging_face(path("other"), llama_config(8, 2), {}, /*seed=*/2);
  fs::rename(path("other/model.safetensors"), path("hf/model.safetensors"));
  const absl::Status status = run(*view, options()).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(message_of(status), HasSubstr("model.safetensors: was replaced by another file"));
  EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "other"));
}

TEST_F(ReshardTest, FinishesWhatIsThereAndNothingElse) {
  const auto view = view_of(path("hf"), "tp2");
  ReshardOptions made = options();
  made.force = true;
  ASSERT_TRUE(run(*view, options("reference")).ok());
  // Not yet exchanged, and what has the name is damaged: the good copy is the other one.
  killed_at_publishing(*view, made);
  fs::copy(path("out.partial"), path("out"));
  damage(path("out/rank_001.safetensors"), 20'000);
  made.verify = true;
  auto result = run(*view, made);
  ASSERT_TRUE(result.ok()) << result.status();
  expect_same_folder("reference", "out");
  // Exchanged: DST.partial is what DST was before.
  killed_at_publishing(*view, made);
  fs::remove_all(path("out"));
  fs::rename(path("out.partial"), path("out"));
  write_hugging_face(path("out.partial"), llama_config(8, 2), {}, 7);
  result = run(*view, made);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->was_complete);
  expect_same_folder("reference", "out");
  // The same, and what was published has been moved away: the old state must not get the new manifest.
  killed_at_publishing(*view, made);
  fs::remove_all(path("out"));
  fs::rename(path("out.partial"), path("moved"));
  fs::copy(path("moved"), path("out.partial"));
  damage(path("out.partial/rank_001.safetensors"), 20'000);
  write_text(path("out.partial/manifest.json"), "{}");
  EXPECT_THAT(message_of(run(*view, made).status()), HasSubstr("--restart"));
  EXPECT_FALSE(fs::exists(path("out")));
  made.restart = true;
  ASSERT_TRUE(run(*view, made).ok());
  expect_same_folder("reference", "out");
}

TEST_F(ReshardTest, VerifyFindsADamagedSourceBeforeItIsCopied) {
  ASSERT_TRUE(run(*view_of(path("hf"), "tp2"), options("a")).ok());
  ReshardOptions made = options();
  made.verify = true;
  damage(path("a/rank_001.safetensors"), 50'000);
  EXPECT_THAT(message_of(run(*view_of(path("a"), "hf"), made).status()), HasSubstr("The source is damaged"));
  EXPECT_THAT(entries(), ::testing::ElementsAre("a", "hf"));
  fs::remove_all(path("a"));
  ASSERT_TRUE(run(*view_of(path("hf"), "tp2"), options("a")).ok());
  write_text(path("a/config.json"), text_of(path("a/config.json")) + " ");
  EXPECT_THAT(message_of(run(*view_of(path("a"), "hf"), made).status()), HasSubstr("config.json"));
  EXPECT_THAT(entries(), ::testing::ElementsAre("a", "hf"));
}

// Both collections have the same name, and files of the same names and sizes.
TEST_F(ReshardTest, AViewOfAnotherContentDoesNotGoOn) {
  std::vector<std::byte> bytes(50'000);
  const absl::Status written = write_safetensors(
      path("plain.safetensors"), {{"a", tensor::DType::kU8, {50'000}}, {"b", tensor::DType::kU8, {50'000}}}, {},
      [&](const StoredTensor& stored) -> absl::StatusOr<std::span<const std::byte>> {
        std::fill(bytes.begin(), bytes.end(), static_cast<std::byte>(stored.name.front()));
        return std::span<const std::byte>(bytes);
      });
  ASSERT_TRUE(written.ok()) << written;
  const auto view_with = [&](int stage_of_a) {
    const std::string text = fmt::format(
        R"(schema_version: 1 name: "one" meshes {{ name: "m" axes {{ name: "pp" size: 2 }} }} devices: "0,1"
           tensors {{ name: "a" dtype: "U8" shape: [50000] pins {{ axis: "pp" at: {} }} }}
           tensors {{ name: "b" dtype: "U8" shape: [50000] pins {{ axis: "pp" at: {} }} }})",
        stage_of_a, 1 - stage_of_a);
    auto file = collection::parse_collection(text, "test", collection::FileRole::kPlanned);
    SCALAI_CHECK(file.ok(), message_of(file.status()));
    ViewSpec spec;
    spec.collection = std::move(file->collection);
    auto view = View::make(Checkpoint::open(path("plain.safetensors")).value(), std::move(spec));
    SCALAI_CHECK(view.ok(), message_of(view.status()));
    return *view;
  };
  EXPECT_EQ(plan_reshard(*view_with(0), options())->content, plan_reshard(*view_with(0), options())->content);
  killed_after(70'000, view_with(0), options());
  EXPECT_THAT(message_of(run(*view_with(1), options()).status()), HasSubstr("--restart"));
  EXPECT_TRUE(run(*view_with(0), options()).ok());
}

TEST_F(ReshardTest, NothingOfOthersIsRemoved) {
  const auto view = view_of(path("hf"), "tp2");
  const auto forced = [&](const std::string& target) {
    ReshardOptions made = options();
    made.target = target;
    made.force = true;
    made.restart = true;
    return made;
  };
  const ReshardOptions made = forced(path("out"));
  // A folder of the temporary name that holds just what the view has.
  fs::create_directories(path("out.partial"));
  write_text(path("out.partial/rank_000.safetensors"), "mine");
  EXPECT_THAT(message_of(run(*view, options()).status()), HasSubstr("--restart"));
  EXPECT_THAT(message_of(run(*view, options()).status()), HasSubstr("--restart"));
  EXPECT_EQ(text_of(path("out.partial/rank_000.safetensors")), "mine");
  write_text(path("out.partial/notes.txt"), "mine");
  EXPECT_THAT(message_of(run(*view, made).status()), HasSubstr("notes.txt"));
  EXPECT_THAT(entries(), ::testing::ElementsAre("hf", "out.partial"));
  fs::remove_all(path("out.partial"));
  // The source, its parent, and the source as the temporary folder.
  EXPECT_THAT(message_of(run(*view, forced(path("hf"))).status()), HasSubstr("the source is read from it"));
  EXPECT_THAT(message_of(run(*view, forced(path("hf/.."))).status()), HasSubstr("names no folder to write"));
  EXPECT_THAT(message_of(run(*view, forced(folder_)).status()), HasSubstr("the source is read from it"));
  fs::rename(path("hf"), path("out.partial"));
  EXPECT_THAT(message_of(run(*view_of(path("out.partial"), "tp2"), made).status()),
              HasSubstr("the source is read from it"));
  EXPECT_TRUE(fs::exists(path("out.partial/model.safetensors")));
  EXPECT_THAT(entries(), ::testing::ElementsAre("out.partial"));
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
    EXPECT_FALSE(fs::exists(disk + "/out.partial"));
    EXPECT_FALSE(fs::exists(disk + "/out.partial.journal"));
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
}  // namespace scalai::store
