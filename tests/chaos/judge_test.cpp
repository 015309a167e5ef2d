#include "tests/chaos/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "executor/journal/journal.h"
#include "executor/state/content.h"
#include "executor/state/copy.h"
#include "ptc/base/file.h"
#include "ptc/store/safetensors/testing/test_job.h"

namespace scalai::chaos {
namespace {

using ::testing::HasSubstr;

// A run of the job "a" that has ended at step 8 with a checkpoint of step 6, and changes to epochs 1 and 2.
class JudgeTest : public store::FolderTest {
 protected:
  JudgeTest() {
    std::filesystem::create_directories(path("checkpoints/a"));
    summary("running", 8);
    write({.step = 6});
    journal({1, 2});
  }
  void summary(const std::string& state, int steps) const {
    ASSERT_TRUE(write_file(path("summary.json"), "{\"jobs\": [{\"name\": \"a\", \"state\": \"" + state +
                                                     "\", \"steps\": " + std::to_string(steps) + "}]}")
                    .ok());
  }
  struct Written {
    int64_t step = 0;      // the content's; the checkpoint is of step 6
    std::string odd = {};  // a tensor in which one byte is wrong
  };
  void write(const Written& what) const {
    const collection::Collection collection = store::sample_collection();
    auto writer = store::Writer::begin(store::step_folder(path("checkpoints/a"), 6), collection, {"a", 6});
    ASSERT_TRUE(writer.ok()) << writer.status();
    std::vector<std::byte> keep;
    const auto provide = [&](TensorId id, const tensor::Box& box) -> absl::StatusOr<std::span<const std::byte>> {
      const collection::LogicalTensor& tensor = collection.tensors[static_cast<size_t>(id.value)];
      keep.assign(static_cast<size_t>(executor::state::packed_bytes(box, tensor.dtype)), std::byte{});
      const executor::state::Content content{
          .key = executor::state::ContentKey::of(tensor.name, "a"), .shape = tensor.shape, .step = what.step};
      executor::state::fill_box(content, box, {box, tensor.dtype, keep.data()});
      if (tensor.name == what.odd && !keep.empty()) keep.back() ^= std::byte{1};
      return std::span<const std::byte>(keep);
    };
    std::vector<std::string> parts;
    for (int rank = 0; rank < collection.ranks(); ++rank)
      parts.push_back(writer->write_rank(LogicalRank(rank), provide).value());
    ASSERT_TRUE(writer->finish(parts).ok());
  }
  void journal(const std::vector<int64_t>& epochs) const {
    for (const char* name : {"journal.db", "journal.db-wal", "journal.db-shm"}) std::filesystem::remove(path(name));
    auto journal = executor::journal::Journal::create(path("journal.db"), {"", "", "", ""});
    ASSERT_TRUE(journal.ok()) << journal.status();
    for (const int64_t epoch : epochs) {
      const int64_t id = journal->begin_transaction({.job = 0, .epoch = epoch, .plan_digest = "x"}).value();
      ASSERT_TRUE(journal->commit(id).ok());
    }
  }
  std::string judged(const std::string& state = "") const { return judge(folder_, state); }
};

TEST_F(JudgeTest, ARunWithItsStateIsRight) { EXPECT_EQ(judged(), ""); }

TEST_F(JudgeTest, OneWrongByteIsFound) {
  for (const char* name : {"w", "columns", "flat", "few", "step"}) {
    write({.step = 6, .odd = name});
    EXPECT_THAT(judged(), HasSubstr(std::string("tensor ") + name + ": element"));
  }
}

TEST_F(JudgeTest, StateOfAnotherStepIsFound) {
  write({.step = 5});
  EXPECT_THAT(judged(), HasSubstr(": element"));
}

TEST_F(JudgeTest, DamageIsFound) {
  const std::string file = store::step_folder(path("checkpoints/a"), 6) + "/rank_000.safetensors";
  std::string bytes = read_file(file).value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(write_file(file, bytes).ok());
  EXPECT_NE(judged(), "");
}

TEST_F(JudgeTest, ARealStateIsWhatItWas) {
  const std::string state = store::step_folder(path("checkpoints/a"), 6);
  EXPECT_EQ(judged(state), "");
  std::filesystem::rename(state, path("state"));
  write({.step = 6, .odd = "flat"});
  EXPECT_THAT(judged(path("state")), HasSubstr("tensor flat is not what the job began with"));
}

TEST_F(JudgeTest, AJobBehindItsCheckpointIsFound) {
  summary("running", 5);
  EXPECT_THAT(judged(), HasSubstr("ends at step 5, before its checkpoint of 6"));
  summary("failed", 8);
  EXPECT_THAT(judged(), HasSubstr("job a failed"));
}

TEST_F(JudgeTest, EpochsThatDoNotRiseAreFound) {
  journal({1, 3, 2});
  EXPECT_THAT(judged(), HasSubstr("committed epoch 2 after epoch 3"));
}

TEST_F(JudgeTest, TemporaryFilesAreFound) {
  std::filesystem::create_directories(path("checkpoints/a/step_00000008.partial.1.0"));
  EXPECT_THAT(judged(), HasSubstr("left behind: "));
}

}  // namespace
}  // namespace scalai::chaos
