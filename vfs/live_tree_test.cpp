#include "vfs/live_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "ptc/base/status.h"
#include "ptc/state/collection/collection.h"
#include "ptc/store/views/testing/test_model.h"

namespace scalai::vfs {
namespace live_tree_test {

using store::Checkpoint;

// A tiny model whose bytes all are the step's number, as long as `kept` lives.
ShownStep step_of(int64_t step, int64_t epoch = 0) {
  const store::TinyModel tiny = store::tiny_model(store::llama_config(4, 4));
  collection::Collection side;
  side.name = "tp1";
  side.epoch = epoch;
  side.meshes.push_back(collection::Mesh({{"dp", 1}}));
  side.device_of_rank = {DeviceId(0)};
  for (const store::LogicalState& state : tiny.states) {
    collection::LogicalTensor tensor;
    tensor.name = state.name;
    tensor.dtype = state.dtype;
    tensor.shape = state.shape;
    side.tensors.push_back(tensor);
  }
  const auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = kept;
  const auto read = [watched, step](TensorId, const tensor::Box&, int64_t, std::span<std::byte> dst) -> absl::Status {
    if (watched.expired()) return absl::FailedPreconditionError("gone");
    std::fill(dst.begin(), dst.end(), static_cast<std::byte>(step));
    return absl::OkStatus();
  };
  auto whole = Checkpoint::of_held({.place = "a run",
                                    .collection = side,
                                    .stamp = {"a", step},
                                    .model = store::model_file_text({tiny.family.name(), "tiny", tiny.sizes}),
                                    .id = std::to_string(step),
                                    .read = read});
  SCALAI_CHECK(whole.ok(), message_of(whole.status()));
  return {.checkpoint = *whole, .kept = kept, .id = kept.get()};
}

class LiveTreeTest : public ::testing::Test {
 protected:
  void show(double idle_s, double fresh_s = 0) {
    tree_ = std::make_unique<LiveTree>(
        std::vector<std::pair<std::string, NewestStep>>{{"a",
                                                         [this]() -> absl::StatusOr<ShownStep> {
                                                           if (!now_) return absl::UnavailableError("between steps");
                                                           if (room_ && !room_())
                                                             return absl::ResourceExhaustedError("full");
                                                           return *now_;
                                                         }}},
        LiveTimes{.idle_s = idle_s, .fresh_s = fresh_s}, [this](const std::string& line) { said_ = line; });
    job_ = std::get<std::shared_ptr<Directory>>(tree_->directory()->find("a").value());
  }
  std::string current() { return std::get<std::shared_ptr<Link>>(job_->find("step-current").value())->target(); }
  std::shared_ptr<File> file_of(const std::string& step) {
    Node node = job_->find(step).value();
    for (const char* name : {"views", "hf"}) node = std::get<std::shared_ptr<Directory>>(node)->find(name).value();
    return std::get<std::shared_ptr<File>>(
        std::get<std::shared_ptr<Directory>>(node)->find("model.safetensors").value());
  }
  static int last_of(const ByteSource& source) {
    std::byte value{};
    const absl::Status read = source.read(source.size() - 1, std::span(&value, 1));
    return read.ok() ? static_cast<int>(value) : -1;
  }
  std::vector<std::string> listed() {
    std::vector<std::string> names;
    for (int64_t i = job_->listed_from(0); i < job_->entries(); i = job_->listed_from(i + 1))
      names.push_back(job_->entry(i).name);
    return names;
  }
  static void wait_until(const std::function<bool()>& happened) {
    for (int i = 0; i < 2000 && !happened(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(happened());
  }

  std::optional<ShownStep> now_;
  std::string said_;
  std::function<bool()> room_;  // for another step; empty: there is
  std::unique_ptr<LiveTree> tree_;
  std::shared_ptr<Directory> job_;
};

TEST_F(LiveTreeTest, TheLinkFollowsAndStepsStayAsTheyWere) {
  show(1000);
  now_ = step_of(3);
  EXPECT_EQ(current(), "step-00000003");
  const ByteSourcePtr third = file_of("step-00000003")->open().value();
  now_ = step_of(7);
  EXPECT_EQ(current(), "step-00000007");
  EXPECT_EQ(last_of(*third), 3);
  EXPECT_EQ(last_of(*file_of("step-00000003")->open().value()), 3);
  EXPECT_EQ(last_of(*file_of("step-00000007")->open().value()), 7);
  EXPECT_EQ(listed(), (std::vector<std::string>{"step-current", "step-00000003", "step-00000007"}));
  EXPECT_TRUE(absl::IsNotFound(job_->find("step-00000005").status()));
}

TEST_F(LiveTreeTest, AnOpenFileKeepsItsStepAndNothingElseDoes) {
  show(0.02);
  now_ = step_of(3);
  ASSERT_EQ(current(), "step-00000003");
  const std::shared_ptr<File> file = file_of("step-00000003");
  ByteSourcePtr open = file->open().value();
  now_ = step_of(4);
  ASSERT_EQ(current(), "step-00000004");
  now_.reset();
  wait_until([&] { return listed() == std::vector<std::string>({"step-current", "step-00000003"}); });
  EXPECT_EQ(last_of(*open), 3);
  open = nullptr;
  wait_until([&] { return listed().size() == 1; });
  EXPECT_TRUE(absl::IsFailedPrecondition(file->open().status())) << "what kernels still know is stale";
  EXPECT_TRUE(absl::IsFailedPrecondition(file->size().status()));
}

TEST_F(LiveTreeTest, AStepThatIsShownOnceMoreHasAnotherName) {
  show(0.02);
  now_ = step_of(3);
  ASSERT_EQ(current(), "step-00000003");
  now_.reset();
  wait_until([&] { return listed().size() == 1; });
  now_ = step_of(3, 1);  // after a failure the job has trained it again
  EXPECT_EQ(current(), "step-00000003.1");
}

TEST_F(LiveTreeTest, TheLinkStaysForAMomentAndWhereNothingNewerIsToBeHad) {
  show(1000, 1000);
  now_ = step_of(3);
  EXPECT_EQ(current(), "step-00000003");
  now_ = step_of(4);
  EXPECT_EQ(current(), "step-00000003");
  show(1000, 0);
  EXPECT_EQ(current(), "step-00000004");
  now_.reset();
  EXPECT_EQ(current(), "step-00000004");
  EXPECT_EQ(said_, "jobs/a/step-current: between steps");
}

TEST_F(LiveTreeTest, StepsThatNobodyReadsMakeRoomForNewerOnes) {
  show(1000);
  now_ = step_of(3);
  ASSERT_EQ(current(), "step-00000003");
  now_ = step_of(4);
  ASSERT_EQ(current(), "step-00000004");
  const ByteSourcePtr open = file_of("step-00000004")->open().value();
  now_ = step_of(5);
  room_ = [&] { return listed().size() < 3; };
  EXPECT_EQ(current(), "step-00000005") << "3 was used just now, and goes a second later";
  EXPECT_EQ(last_of(*open), 4);
  EXPECT_EQ(listed(), (std::vector<std::string>{"step-current", "step-00000004", "step-00000005"}));
  const ByteSourcePtr other = file_of("step-00000005")->open().value();
  now_ = step_of(6);
  EXPECT_EQ(current(), "step-00000005") << "4 and 5 are open";
  EXPECT_EQ(said_, "jobs/a/step-current: full");
}

TEST_F(LiveTreeTest, WithoutAStepTheLinkLeadsToNothingAndSaysWhy) {
  show(1000);
  EXPECT_EQ(current(), "step-unavailable");
  EXPECT_EQ(said_, "jobs/a/step-current: between steps");
  EXPECT_TRUE(absl::IsNotFound(job_->find("step-unavailable").status()));
}

TEST_F(LiveTreeTest, AClosedTreeShowsNothingNew) {
  show(1000);
  now_ = step_of(3);
  const std::shared_ptr<Directory> job = job_;
  tree_ = nullptr;
  EXPECT_EQ(current(), "step-unavailable");
}

}  // namespace live_tree_test
}  // namespace scalai::vfs
