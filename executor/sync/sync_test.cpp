#include "executor/sync/sync.h"

#include <gmock/gmock.h>

#include <optional>
#include <thread>

#include "executor/controller/shown_state.h"
#include "executor/controller/testing/test_fleet.h"
#include "executor/rpc/worker_place.h"
#include "executor/worker/places.h"
#include "ptc/base/random.h"
#include "ptc/collection/collection_file.h"
#include "ptc/plan/testing/support.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {
namespace sync_test {

using collection::Collection;
using proto::CommandBody;
using testing::Death;
using testing::Fleet;
using ::testing::HasSubstr;

constexpr int32_t kTrained = 5;  // the job's number in the training run
constexpr int kHosts = 2, kGpus = 2;

// What LiveRun gives, without a server between.
class Shown final : public LiveStep {
 public:
  Shown(proto::LiveState state, Collection side) : state_(std::move(state)) {
    stamp_ = {state_.name(), state_.step()};
    checkpoint_ = checkpoint::Checkpoint::of_held({.place = "the run",
                                                   .collection = std::move(side),
                                                   .tensors = {},
                                                   .stamp = stamp_,
                                                   .id = "1",
                                                   .read = [](TensorId, const tensor::Box&, int64_t,
                                                              std::span<std::byte>) { return absl::OkStatus(); }})
                      .value();
  }
  const checkpoint::Stamp& stamp() const override { return stamp_; }
  bool is_kept() const override { return kept; }
  const std::shared_ptr<const checkpoint::Checkpoint>& checkpoint() const override { return checkpoint_; }
  const proto::LiveState& state() const override { return state_; }
  bool kept = true;

 private:
  proto::LiveState state_;
  checkpoint::Stamp stamp_;
  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
};

// A run that trains on the first hosts, and receivers on those after them.
class SyncTest : public ::testing::Test {
 protected:
  struct Setup {
    bool network = false;
    std::vector<Death> deaths;  // of receivers
    int receivers = 2;
    int64_t digest_bytes = 64;
  };
  void begin(Collection from, Collection to, Setup setup) {
    setup_ = setup;
    from_ = std::move(from);
    std::vector<int> gpus(static_cast<size_t>(setup.receivers), to.ranks() / setup.receivers);
    proto::LiveState shape;
    for (int host = 0; host < kHosts; ++host) shape.add_gpus_of_host(kGpus);
    cluster_ = joint_cluster(shape, gpus);
    training_cluster_ = joint_cluster(shape, {});
    trainers_.emplace(Fleet::Options{.hosts = kHosts, .network = setup.network});
    training_.emplace(training_cluster_, trainers_->controller(), trainers_->crew_options());
    ASSERT_TRUE(training_->start().ok());
    receivers_.emplace(Fleet::Options{.hosts = kHosts + setup.receivers,
                                      .first_host = kHosts,
                                      .deaths = std::move(setup.deaths),
                                      .network = setup.network,
                                      .loopback = &trainers_->loopback()});
    crew_.emplace(cluster_, receivers_->controller(), receivers_->crew_options());
    ASSERT_TRUE(crew_->start().ok());
    SyncTarget target;
    target.layout.collection = std::move(to);
    target.gpus_of_host = std::move(gpus);
    sync_.emplace(cluster_, receivers_->controller(), *crew_,
                  Sync::Options{.place = "the run", .target = std::move(target), .first_host = kHosts});
    CommandBody body;
    CommandBody::Create& create = *body.mutable_create();
    create.set_job(kTrained);
    create.set_name("a");
    create.set_version(StateVersion::epoch(from_.epoch).wire());
    create.set_step(1);
    create.set_collection(collection::collection_text(from_, {}));
    ASSERT_TRUE(training_->call("create", training_->living(), body).ok());
  }
  void train(int64_t step, std::set<HostId> hosts) {
    CommandBody body;
    body.mutable_advance()->set_job(kTrained);
    body.mutable_advance()->set_version(StateVersion::epoch(from_.epoch).wire());
    body.mutable_advance()->set_step(step);
    ASSERT_TRUE(training_->call("advance", hosts, body).ok());
    step_ = step;
  }
  void train(int64_t step) { train(step, training_->living()); }
  Shown shown() {
    const ShownState what{.job = kTrained,
                          .name = "a",
                          .step = step_,
                          .gpus_of_host = std::vector<int>(kHosts, kGpus),
                          .collection = &from_};
    return Shown(show_state(*training_, training_->living(), what, StateVersion::live(next_++),
                            {.digest_bytes = setup_.digest_bytes})
                     .value(),
                 from_);
  }
  void end() {
    sync_.reset();
    crew_.reset();
    receivers_.reset();
    training_.reset();
    trainers_.reset();
    step_ = 1;
  }
  // Every element at the receivers, against the closed form of this step.
  std::string wrong(int64_t step, int64_t epoch) {
    std::string text;
    for (const HostId host : crew_->living()) text += wrong_on(host, step, epoch);
    return text;
  }
  std::string wrong_on(HostId host, int64_t step, int64_t epoch) {
    CommandBody body;
    body.mutable_verify()->set_job(0);
    body.mutable_verify()->set_version(StateVersion::epoch(epoch).wire());
    body.mutable_verify()->set_step(step);
    const auto replies = crew_->call("verify", {host}, body);
    if (!replies.ok()) return std::string(replies.status().message());
    int64_t bytes = 0;
    std::string text;
    for (const proto::ReplyBody& reply : *replies) {
      bytes += reply.bytes();
      for (const std::string& line : reply.mismatches()) text += line + "\n";
    }
    if (bytes == 0) text += "nothing was looked at\n";
    return text;
  }
  // The sum of each tensor's elements, over the boxes that these workers hold.
  static std::map<int32_t, uint64_t> sums(Crew& crew, int32_t job, int64_t epoch) {
    CommandBody body;
    body.mutable_digest()->set_job(job);
    body.mutable_digest()->set_version(StateVersion::epoch(epoch).wire());
    std::map<std::pair<int32_t, std::string>, uint64_t> boxes;
    const std::vector<proto::ReplyBody> replies = crew.call("digest", crew.living(), body).value();
    for (const proto::ReplyBody& reply : replies) {
      for (const proto::PieceSum& one : reply.sums()) boxes[{one.box().tensor(), box_of(one.box())->str()}] = one.sum();
    }
    std::map<int32_t, uint64_t> all;
    for (const auto& [box, sum] : boxes) all[box.first] += sum;
    return all;
  }

  Setup setup_;
  Collection from_;
  cluster::Cluster cluster_, training_cluster_;
  std::optional<Fleet> trainers_, receivers_;
  std::optional<Crew> training_, crew_;
  std::optional<Sync> sync_;
  int64_t step_ = 1, next_ = 0;
};

Collection grid(const plan::Sizes& sizes) { return plan::grid_collection(sizes, plan::first_devices(sizes.world())); }

TEST_F(SyncTest, AnyLayoutComesToAnyOther) {
  for (uint64_t seed = 4000; seed < 4012; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    Collection from = grid(plan::random_sizes(random, kHosts * kGpus));
    from.epoch = random.between(0, 9);
    const plan::Sizes to = plan::random_sizes(random, 6);
    const int receivers = to.world() % 3 == 0 ? 3 : to.world() % 2 == 0 ? 2 : 1;
    begin(std::move(from), grid(to), {.network = random.between(0, 1) == 0, .receivers = receivers});
    for (const int64_t step : {2, 5}) {
      train(step);
      const Shown now = shown();
      if (random.between(0, 1) == 0) train(step + 1);  // the shown step is in hosts' memories then
      const auto synced = sync_->bring(now);
      ASSERT_TRUE(synced.ok()) << synced.status();
      EXPECT_EQ(synced->step, step);
      EXPECT_GE(synced->planned_bytes, synced->least_bytes);
      EXPECT_EQ(wrong(step, step == 2 ? 0 : 1), "");
    }
    end();
  }
}

TEST_F(SyncTest, WhatHasNotChangedDoesNotTravel) {
  begin(grid({.pp = 2, .dp = 2}), grid({.tp = 2}), {});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  const auto again = sync_->bring(shown());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_GT(again->planned_bytes, 0);
  EXPECT_EQ(again->moved_bytes, 0);
  EXPECT_EQ(wrong(1, 1), "");
  // Only one stage's host trains: its half is another one.
  train(2, {HostId(0)});
  const auto half = sync_->bring(shown());
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_GT(half->moved_bytes, 0);
  EXPECT_LT(half->moved_bytes, half->planned_bytes);
  EXPECT_EQ(sums(*crew_, 0, 2), sums(*training_, kTrained, 0));
  EXPECT_NE(wrong(2, 2), "");
}

TEST_F(SyncTest, WithoutDigestsAllTravels) {
  begin(grid({.tp = 2}), grid({.dp = 2}), {.digest_bytes = 0});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  const auto again = sync_->bring(shown());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->moved_bytes, again->planned_bytes);
  EXPECT_EQ(wrong(1, 1), "");
}

// At any command of the second step, before and after it was run: all or nothing, and the next step comes.
TEST_F(SyncTest, AReceiverThatDiesLeavesTheOthersAtTheStepBefore) {
  const std::vector<std::pair<const char*, int>> commands = {{"prepare", 2}, {"round", 3}, {"round", 4}};
  for (const auto& [what, nth] : commands) {
    for (const bool after : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {} {}", what, nth, after ? "after" : "before"));
      begin(grid({.pp = 2, .dp = 2}), grid({.tp = 2}),
            {.deaths = {{.host = 3, .what = what, .nth = nth, .after = after}}});
      const auto first = sync_->bring(shown());
      ASSERT_TRUE(first.ok()) << first.status();
      train(2);
      EXPECT_FALSE(sync_->bring(shown()).ok());
      EXPECT_EQ(wrong_on(HostId(2), 1, 0), "");
      sync_->rest(0.1);
      EXPECT_FALSE(sync_->is_whole());
      train(3);
      const auto next = sync_->bring(shown());
      ASSERT_TRUE(next.ok()) << next.status();
      EXPECT_TRUE(sync_->is_whole());
      EXPECT_EQ(wrong(3, 2), "");
      end();
    }
  }
}

TEST_F(SyncTest, AStepThatGoesWhileItIsReadIsGivenUp) {
  begin(grid({.tp = 2}), grid({.dp = 2}), {});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  train(2);
  Shown lost = shown();
  CommandBody body;
  body.mutable_forget()->set_job(kTrained);
  body.mutable_forget()->set_version(lost.state().version());
  ASSERT_TRUE(training_->call("forget", training_->living(), body).ok());
  EXPECT_FALSE(sync_->bring(lost).ok());
  EXPECT_EQ(wrong(1, 0), "");
  Shown unkept = shown();
  unkept.kept = false;
  EXPECT_TRUE(absl::IsUnavailable(sync_->bring(unkept).status()));
  EXPECT_EQ(wrong(1, 0), "");
  EXPECT_TRUE(sync_->is_whole());
  ASSERT_TRUE(sync_->bring(shown()).ok());
}

TEST_F(SyncTest, ARunWithAnotherClusterIsRefused) {
  begin(grid({.tp = 2}), grid({.dp = 2}), {});
  proto::LiveState other = shown().state();
  other.add_gpus_of_host(2);
  const auto refused = sync_->bring(Shown(other, from_));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("another cluster"));
}

TEST_F(SyncTest, ALayoutThatDoesNotFitIsRefused) {
  Collection other = grid({.tp = 2});
  other.tensors.pop_back();
  begin(grid({.tp = 2}), other, {});
  const auto refused = sync_->bring(shown());
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

// What they have is of one step, whatever comes meanwhile.
TEST_F(SyncTest, ReadersOfReceiversKeepTheirStep) {
  begin(grid({.pp = 2}), grid({.tp = 2}), {});
  ASSERT_TRUE(sync_->bring(shown()).ok());
  const auto ask = [&](bool wants, std::vector<int64_t> keeps) {
    std::atomic<bool> done = false;
    absl::StatusOr<std::string> text = "";
    std::thread reader([&] {
      text = sync_->answer({.kind = CtlRequest::Kind::kLive, .reader = 7, .keeps = std::move(keeps), .wants = wants});
      done = true;
    });
    while (!done) sync_->rest(0.01);
    reader.join();
    proto::LiveState state;
    SCALAI_CHECK(text.ok() && state.ParseFromString(*text));
    return state;
  };
  const proto::LiveState state = ask(true, {});
  EXPECT_EQ(state.step(), 1);
  const auto has = [&](int64_t version) {
    Places places({.host = HostId(4), .segments = {.capacity = 1 << 20}, .backend = make_host_backend().release()});
    SCALAI_CHECK(places.setup({2, 2, 1, 1, 0}).ok());
    std::vector<WorkerJoined> workers;
    for (const HostId host : crew_->living()) {
      const proto::Peer peer = crew_->peer_of(host);
      WorkerJoined& one = workers.emplace_back();
      one.host = peer.host();
      for (const proto::WorkerPlace& place : peer.places()) one.hello.places.push_back(unpack(place));
    }
    SCALAI_CHECK(places.peers(workers, false).ok());
    std::vector<float> got(19 * 2);
    const Box box({0, 0}, {10, 2});
    return places
        .read(plan::Location::device(DeviceId(4)), {0, *StateVersion::from_wire(version)}, TensorId(0), box,
              {box, DType::kF32, reinterpret_cast<std::byte*>(got.data())})
        .ok();
  };
  EXPECT_TRUE(has(state.version()));
  train(2);
  ASSERT_TRUE(sync_->bring(shown()).ok());
  EXPECT_TRUE(has(state.version()));
  EXPECT_EQ(ask(true, {state.version()}).step(), 2);
  EXPECT_EQ(ask(false, {}).gone_size(), 0);
  sync_->rest(0.1);
  EXPECT_FALSE(has(state.version()));
  EXPECT_THAT(std::string(sync_->answer({.kind = CtlRequest::Kind::kResize}).status().message()),
              HasSubstr("ask that one"));
  EXPECT_THAT(*sync_->answer({.kind = CtlRequest::Kind::kStatus}), HasSubstr("\"step\": 2"));
}

}  // namespace sync_test
}  // namespace scalai::executor
