// Readers of a job that trains, in one process: workers and readers are threads, and all state crosses transports.

#include "executor/live/live_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>

#include "executor/controller/shown_state.h"
#include "executor/controller/testing/test_fleet.h"
#include "executor/live/live_stats.h"
#include "ptc/base/status.h"
#include "ptc/plan/testing/support.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::live {
namespace live_run_test {

using collection::Collection;
using controller::testing::Fleet;
using proto::CommandBody;
using ::testing::HasSubstr;

constexpr int32_t kJob = 0;
constexpr int kHosts = 2, kGpus = 2;

// 25 MB in some 30 blocks, two thirds of them whole; two replicas of all.
Collection trained() {
  Collection side = plan::grid_collection({.tp = 2, .dp = 2}, plan::first_devices(kHosts * kGpus));
  for (const char* name : {"wide", "high"})
    side.tensors.push_back(plan::tensor_of(name, {1536, 2048}, {plan::cut_over("tp", *name == 'h' ? 0 : 1)}));
  return side;
}

class LiveRunTest : public ::testing::Test {
 protected:
  struct Reader {
    explicit Reader(LiveRunTest& test, int64_t kept_bytes = int64_t{1} << 30, bool shares = true, bool stats = false)
        : transport(test.fleet_.loopback(), [this](std::string_view request) { return served->answer(request); }),
          run({.place = "the run",
               .stats = stats,
               .patience_s = 60,
               .word_s = 0.05,
               .kept_bytes = kept_bytes,
               .transport = &transport,
               .served = shares ? served : nullptr,
               .wait_s = 60,
               .ask = [&test](const proto::CtlRequest& request) { return test.answer(request); }}) {}
    std::shared_ptr<const LiveStep> newest(int64_t after_step = -1) {
      auto step = run.newest("a", after_step);
      EXPECT_TRUE(step.ok()) << step.status();
      return step.ok() ? *step : nullptr;
    }
    const std::shared_ptr<ServedBlocks> served = std::make_shared<ServedBlocks>();
    transport::LoopbackTransport transport;
    LiveRun run;
  };

  void SetUp() override {
    ASSERT_TRUE(pool_.start().ok());
    CommandBody body;
    CommandBody::Create& create = *body.mutable_create();
    create.set_job(kJob);
    create.set_name("a");
    create.set_version(state::StateVersion::epoch(side_.epoch).wire());
    create.set_step(step_);
    create.set_collection(collection::collection_text(side_, {}));
    ASSERT_TRUE(pool_.call("create", pool_.living(), body).ok());
    runs_ = std::thread([this] { serve(); });
  }
  void TearDown() override {
    over_ = true;
    if (runs_.joinable()) runs_.join();
  }
  // The run's thread: the job rests, but for train().
  void serve() {
    while (!over_) {
      {
        const std::lock_guard lock(mutex_);
        if (steps_.waits(kJob)) {
          const controller::ShownState what{.job = kJob,
                                            .name = "a",
                                            .step = step_,
                                            .gpus_of_host = std::vector<int>(kHosts, kGpus),
                                            .collection = &side_};
          EXPECT_TRUE(steps_
                          .serve(kJob, side_.epoch, step_,
                                 [&](state::StateVersion version, const controller::LiveSteps::Kind& kind) {
                                   return controller::show_state(pool_, pool_.living(), what, version, kind);
                                 })
                          .ok());
        }
        for (const state::StateVersion version : steps_.take_unkept(kJob)) {
          CommandBody body;
          body.mutable_forget()->set_job(kJob);
          body.mutable_forget()->set_version(version.wire());
          EXPECT_TRUE(pool_.call("forget", pool_.living(), body).ok());
        }
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void train() {
    const std::lock_guard lock(mutex_);
    CommandBody body;
    body.mutable_advance()->set_job(kJob);
    body.mutable_advance()->set_version(state::StateVersion::epoch(side_.epoch).wire());
    body.mutable_advance()->set_step(++step_);
    ASSERT_TRUE(pool_.call("advance", pool_.living(), body).ok());
  }
  absl::StatusOr<std::string> answer(const proto::CtlRequest& request) {
    const bool touches = request.live().has_touch();
    if (touches && touches_.fetch_add(1) == kill_at_) fleet_.loopback().kill(killed_);
    absl::StatusOr<std::string> text = steps_.answer(kJob, request.live(), [] {});
    proto::LiveState live;
    if (!edit_ || touches || !text.ok() || !live.ParseFromString(*text)) return text;
    edit_(live);
    return live.SerializeAsString();
  }

  static std::string content(const LiveStep& step) {
    const store::Checkpoint& whole = *step.checkpoint();
    std::string all;
    std::map<std::string, size_t> in_order;  // as in files
    for (size_t i = 0; i < whole.tensors().size(); ++i) in_order[whole.tensors()[i].name] = i;
    for (const auto& [name, i] : in_order) {
      const store::LogicalState& tensor = whole.tensors()[i];
      std::string bytes(static_cast<size_t>(tensor::Box::whole(tensor.shape).volume() * tensor::size_of(tensor.dtype)),
                        '?');
      const absl::Status read =
          whole.read(i, tensor::Box::whole(tensor.shape), std::as_writable_bytes(std::span(bytes)));
      EXPECT_TRUE(read.ok()) << tensor.name << ": " << read;
      all += bytes;
    }
    return all;
  }
  // By a reader that shares nothing.
  std::string truth() {
    Reader alone(*this, int64_t{1} << 30, false);
    std::string all = content(*alone.newest());
    state_bytes_ = alone.run.bytes().from_workers;
    EXPECT_EQ(alone.run.bytes().from_readers + alone.run.bytes().from_memory, 0);
    EXPECT_GT(state_bytes_, int64_t{20} << 20);
    return all;
  }

  const Collection side_ = trained();
  int64_t step_ = 1;
  int64_t state_bytes_ = 0;  // as truth() has read them
  const cluster::Cluster cluster_ = plan::cluster_of(kHosts, kGpus);
  Fleet fleet_{{.hosts = kHosts, .network = true}};
  controller::WorkerPool pool_{cluster_, fleet_.controller(), fleet_.pool_options()};
  controller::LiveSteps steps_;
  std::mutex mutex_;
  std::atomic<bool> over_ = false;
  std::thread runs_;
  std::atomic<int> touches_ = 0;
  int kill_at_ = -1;
  std::string killed_;                           // address
  std::function<void(proto::LiveState&)> edit_;  // of what the controller answers
};

TEST_F(LiveRunTest, AnAnswerToAnotherQuestionIsNone) {
  const auto refused = [&](const std::function<void(proto::LiveState&)>& edit) {
    Reader reader(*this, int64_t{1} << 20, false);
    edit_ = edit;
    const absl::Status status = reader.run.newest("a", 0).status();
    edit_ = {};
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return message_of(status);
  };
  EXPECT_THAT(refused([](auto& live) { live.set_name("b"); }), HasSubstr("step 1 of job b, which was not asked for"));
  EXPECT_THAT(refused([](auto& live) { live.set_step(0); }), HasSubstr("step 0 of job a, which was not asked for"));
  EXPECT_THAT(refused([](auto& live) { live.add_tensors(99); }),
              HasSubstr("the run: the controller's answer has tensor"));
  EXPECT_THAT(refused([](auto& live) { live.mutable_peers(0)->set_host(7); }), HasSubstr("host 7 of 2"));
  EXPECT_THAT(refused([](auto& live) { live.add_digests()->mutable_box()->set_tensor(0); }), HasSubstr("digests of 0"));
}

TEST_F(LiveRunTest, WorkersGiveOnceWhatReadersReadOneAfterAnother) {
  const std::string all = truth();
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<std::shared_ptr<const LiveStep>> steps;
  LiveBytes sum;
  for (int i = 0; i < 4; ++i) {
    readers.push_back(std::make_unique<Reader>(*this));
    steps.push_back(readers.back()->newest());
    EXPECT_TRUE(content(*steps.back()) == all) << i;
  }
  for (const auto& reader : readers) {
    const LiveBytes bytes = reader->run.bytes();
    sum.from_workers += bytes.from_workers;
    sum.from_readers += bytes.from_readers;
    sum.to_readers += bytes.to_readers;
    EXPECT_LE(bytes.to_readers, 2 * state_bytes_) << "no reader gives it to all others";
  }
  EXPECT_LE(touches_, 4 * 8) << "questions to the controller for 54 blocks a reader";
  EXPECT_EQ(sum.from_workers, state_bytes_);
  EXPECT_EQ(sum.from_readers, 3 * state_bytes_);
  EXPECT_EQ(sum.to_readers, sum.from_readers);
}

TEST_F(LiveRunTest, AlsoAtTheSameTime) {
  const std::string all = truth();
  constexpr int kReaders = 6;
  std::vector<std::unique_ptr<Reader>> readers;
  std::vector<std::shared_ptr<const LiveStep>> steps;
  for (int i = 0; i < kReaders; ++i) {
    readers.push_back(std::make_unique<Reader>(*this));
    steps.push_back(readers.back()->newest());
  }
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < kReaders; ++i) threads.emplace_back([&, i] { right += content(*steps[i]) == all ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kReaders);
  int64_t from_workers = 0, most_given = 0;
  for (const auto& reader : readers) {
    from_workers += reader->run.bytes().from_workers;
    most_given = std::max(most_given, reader->run.bytes().to_readers);
  }
  EXPECT_LE(from_workers, state_bytes_ * 6 / 5);
  EXPECT_LE(most_given, 2 * state_bytes_) << "of five copies that readers give each other";
}

TEST_F(LiveRunTest, AReaderThatIsKilledCostsARetry) {
  const std::string all = truth();
  Reader first(*this), second(*this), third(*this);
  const auto one = first.newest(), two = second.newest(), three = third.newest();
  EXPECT_TRUE(content(*one) == all);
  killed_ = first.transport.address();
  kill_at_ = touches_ + 3;
  EXPECT_TRUE(content(*two) == all);
  EXPECT_GT(second.run.bytes().from_readers, 0) << "before";
  EXPECT_GT(second.run.bytes().from_workers, 0) << "and after";
  EXPECT_TRUE(content(*three) == all);
  EXPECT_LE(third.run.bytes().from_workers, state_bytes_ / 5) << "the second one has it";
}

TEST_F(LiveRunTest, NothingOfAnotherStepIsServed) {
  Reader first(*this), second(*this);
  std::string before;
  for (int i = 0; i < 3; ++i) {
    const auto old = first.newest();
    const std::string all = content(*old);
    EXPECT_TRUE(all != before) << "each step has other bytes";
    train();
    const auto fresh = second.newest(step_ - 1);
    const std::string next = content(*fresh);
    EXPECT_TRUE(next == truth()) << step_;
    EXPECT_TRUE(content(*second.newest()) == next);
    const auto late = first.newest(step_ - 1);
    EXPECT_TRUE(content(*late) == next);
    Reader third(*this);
    const int64_t given = first.run.bytes().to_readers;
    EXPECT_TRUE(content(*third.newest(step_ - 1)) == next);
    EXPECT_GT(first.run.bytes().to_readers, given) << "who keeps both steps";
    EXPECT_TRUE(content(*old) == all) << "it is kept";
    before = all;
    train();
  }
}

// What nobody keeps any more is given to nobody.
TEST_F(LiveRunTest, WhatIsLetGoIsDropped) {
  const std::string all = truth();
  Reader first(*this), second(*this);
  auto one = first.newest();
  const auto two = second.newest();
  EXPECT_TRUE(content(*one) == all);
  one.reset();
  EXPECT_TRUE(content(*two) == all);
  EXPECT_EQ(first.run.bytes().to_readers, 0);
  EXPECT_EQ(second.run.bytes().from_workers, state_bytes_);
}

int open_segments() {
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the directory's own
    found +=
        std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:scalai") != std::string::npos ? 1 : 0;
  }
  return found;
}

// A kernel remembers files of steps for as long as it likes.
TEST_F(LiveRunTest, ViewsOfWhatIsLetGoHaveNothingMapped) {
  Reader reader(*this);
  const int before = open_segments();
  std::vector<std::shared_ptr<const store::Checkpoint>> views;
  for (int i = 0; i < 5; ++i) {
    const auto step = reader.newest(step_ - 1);
    ASSERT_NE(step, nullptr);
    (void)content(*step);
    views.push_back(step->checkpoint());
    train();
  }
  EXPECT_EQ(open_segments(), before);
  const store::LogicalState& tensor = views.front()->tensors().front();
  std::vector<std::byte> bytes(
      static_cast<size_t>(tensor::Box::whole(tensor.shape).volume() * tensor::size_of(tensor.dtype)));
  EXPECT_TRUE(absl::IsFailedPrecondition(views.front()->read(0, tensor::Box::whole(tensor.shape), bytes)));
}

TEST_F(LiveRunTest, AReaderServesWhatItHasRoomFor) {
  const std::string all = truth();
  const int64_t room = state_bytes_ / 4;
  Reader small(*this, room), large(*this), last(*this);
  const auto one = small.newest(), two = large.newest(), three = last.newest();
  EXPECT_TRUE(content(*one) == all);
  EXPECT_TRUE(content(*two) == all);
  EXPECT_GT(small.run.bytes().to_readers, 0);
  EXPECT_LE(small.run.bytes().to_readers, room);
  EXPECT_EQ(large.run.bytes().from_readers, small.run.bytes().to_readers);
  EXPECT_EQ(large.run.bytes().from_workers, state_bytes_ - small.run.bytes().to_readers);
  EXPECT_TRUE(content(*three) == all);
  EXPECT_EQ(last.run.bytes().from_workers, 0);
}

// A step of which something was said that is not so.
class Misreported final : public LiveStep {
 public:
  explicit Misreported(const LiveStep& step) : step_(step), state_(step.state()) {}
  const store::Stamp& stamp() const override { return step_.stamp(); }
  bool is_kept() const override { return step_.is_kept(); }
  const std::shared_ptr<const store::Checkpoint>& checkpoint() const override { return step_.checkpoint(); }
  const proto::LiveState& state() const override { return state_; }
  proto::LiveState& said() { return state_; }

 private:
  const LiveStep& step_;
  proto::LiveState state_;
};

TEST_F(LiveRunTest, WorkersLookAtWhatTheyHold) {
  Reader asking(*this, 0, false, true), reading(*this);
  const auto told = asking.newest(), whole = reading.newest();
  train();  // what was said stays said, and what is read is kept
  std::vector<size_t> tensors;
  for (size_t i = told->checkpoint()->tensors().size(); i-- > 0;) tensors.push_back(i);
  const auto stats = stats_of_step(*told, tensors);
  ASSERT_TRUE(stats.ok()) << stats.status();
  const auto expected = store::stats_of(*whole->checkpoint(), tensors, {});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(stats->size(), expected->size());
  for (size_t i = 0; i < stats->size(); ++i) {
    const tensor::ElementStats &ours = (*stats)[i].elements, &theirs = (*expected)[i].elements;
    EXPECT_EQ((*stats)[i].tensor, tensors[i]);
    EXPECT_GT(ours.elements, 0);
    EXPECT_EQ(ours.elements, theirs.elements);
    EXPECT_EQ(ours.nans, theirs.nans);
    EXPECT_EQ(ours.infinities, theirs.infinities);
    EXPECT_EQ(ours.zeros, theirs.zeros);
    EXPECT_EQ(ours.min, theirs.min);
    EXPECT_EQ(ours.max, theirs.max);
    EXPECT_EQ(ours.magnitudes, theirs.magnitudes);
    EXPECT_NEAR(ours.sum, theirs.sum, 1e-9 * std::sqrt(theirs.squares * static_cast<double>(theirs.elements)));
    EXPECT_NEAR(ours.squares, theirs.squares, 1e-9 * theirs.squares);
  }
  EXPECT_EQ(asking.run.bytes().from_workers + asking.run.bytes().from_memory, 0);
  std::vector<std::byte> bytes(static_cast<size_t>(told->checkpoint()->state_bytes()));
  const store::LogicalState& first = told->checkpoint()->tensors().front();
  const auto size = static_cast<size_t>(tensor::Box::whole(first.shape).volume() * tensor::size_of(first.dtype));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      told->checkpoint()->read(0, tensor::Box::whole(first.shape), std::span(bytes).first(size))))
      << "only numbers were asked for";
  Misreported lacking(*told), wrong(*told);
  lacking.said().mutable_stats()->RemoveLast();
  EXPECT_TRUE(absl::IsUnavailable(stats_of_step(lacking, tensors).status()));
  wrong.said().mutable_stats(0)->set_elements(1);
  EXPECT_FALSE(stats_of_step(wrong, tensors).ok());
}

TEST_F(LiveRunTest, TheEndOfTheRunIsNoEndOfWhatReadersHave) {
  const std::string all = truth();
  Reader first(*this);
  const auto one = first.newest();
  EXPECT_TRUE(content(*one) == all);
  steps_.end();
  EXPECT_TRUE(content(*one) == all) << "out of its own memory";
}

}  // namespace live_run_test
}  // namespace scalai::executor::live
