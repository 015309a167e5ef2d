#include "executor/worker/worker.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "executor/worker/testing/support.h"
#include "ptc/plan/lowering.h"
#include "ptc/proto/control.pb.h"
#include "ptc/store/safetensors/job_checkpoint.h"

namespace scalai::executor::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// grid_collection from tp2,dp2 on all four devices to pp2 on g3 and g0.
plan::Case shrinking() {
  plan::Case job{.from = plan::grid_collection({.tp = 2, .dp = 2}, plan::devices({0, 1, 2, 3})),
                 .to = plan::grid_collection({.pp = 2}, plan::devices({3, 0})),
                 .cluster = plan::cluster_of(2, 2)};
  job.from.epoch = 4;
  job.to.epoch = 5;
  return job;
}

using Held = std::array<int64_t, 3>;  // job, version, step
std::vector<Held> held_by(SmallCluster& cluster, int host) {
  proto::Hello hello;
  cluster.worker(host).introduce(hello);
  std::vector<Held> all;
  for (const proto::HeldState& one : hello.held()) all.push_back({one.job(), one.version(), one.step()});
  return all;
}

// Flips a bit of the element that is first in the device's piece of the tensor.
void flip(SmallCluster& cluster, DeviceId device, const state::VersionKey& key, TensorId tensor) {
  state::Store& store = cluster.store(Location::device(device));
  const std::vector<state::Piece> pieces = store.pieces(key).at(tensor);
  store.target(pieces.front()).data[0] ^= std::byte{4};
}

TEST(Worker, EveryCommandMayComeTwice) {
  SmallCluster cluster({.twice = true});
  plan::Case job = shrinking();
  job.options.round_bytes = 200;
  cluster.create(job.from, 10);
  cluster.advance(job.from, 12);
  cluster.snapshot(job.from, kSnapshot);
  cluster.change(job.plan(), job.to, 12);
  EXPECT_THAT(cluster.verify(job.to, 12), IsEmpty());
  cluster.commit(5);
  EXPECT_THAT(cluster.verify(job.to, 12), IsEmpty());
  EXPECT_THAT(held_by(cluster, 0), ElementsAre(Held{kJob, 5, 12}));
  cluster.forget(5);
  EXPECT_THAT(held_by(cluster, 0), IsEmpty());
}

TEST(Worker, APlanUnderACapMayBeAskedForTwice) {
  SmallCluster cluster({.twice = true});
  plan::Case job = shrinking();
  job.options.memory_cap = 100;
  const plan::Plan plan = job.plan();
  ASSERT_GT(plan.rounds(), 2);
  cluster.create(job.from, 10);
  cluster.change(plan, job.to, 10);
  EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());
}

TEST(Worker, AFlippedBitIsFoundWithItsTensorAndElement) {
  SmallCluster cluster;
  const Collection side = shrinking().from;
  cluster.create(side, 10);
  flip(cluster, DeviceId(3), epoch_of_job(4), TensorId(3));
  const std::vector<std::string> wrong = cluster.verify(side, 10);
  ASSERT_THAT(wrong, SizeIs(1));
  const tensor::Box box = side.pieces(TensorId(3), LogicalRank(3)).pieces.front().box;
  EXPECT_THAT(wrong.front(), HasSubstr("g3: tensor \"" + side.tensors[3].name + "\" element [" +
                                       std::to_string(box.lo[0]) + ", " + std::to_string(box.lo[1]) + "] is "));
  EXPECT_GT(box.lo[0], 0) << "the index is the tensor's, not the piece's";
  cluster.advance(side, 10);
  EXPECT_THAT(cluster.verify(side, 10), IsEmpty());
}

TEST(Worker, VerifyingAnotherStepFindsEveryPiece) {
  SmallCluster cluster;
  const Collection side = shrinking().from;
  cluster.create(side, 10);
  CommandBody body;
  body.mutable_verify()->set_job(kJob);
  body.mutable_verify()->set_version(4);
  body.mutable_verify()->set_step(11);
  const ReplyBody reply = cluster.ask(1, body);
  EXPECT_GT(reply.mismatch_count(), 20);
  EXPECT_EQ(reply.mismatches_size(), 20);
  body.mutable_verify()->set_mode(proto::VERIFY_SAMPLE);
  const ReplyBody sample = cluster.ask(1, body);
  EXPECT_EQ(sample.mismatch_count(), reply.mismatch_count()) << "a row of every piece";
  EXPECT_LT(sample.bytes(), reply.bytes());
}

TEST(Worker, VerifyingFindsWhatIsNotThere) {
  SmallCluster cluster;
  const Collection side = shrinking().from;
  cluster.create(side, 10);
  state::Store& store = cluster.store(Location::device(DeviceId(1)));
  ASSERT_OK(store.give_back(epoch_of_job(4), std::vector<state::TensorBox>{{TensorId(2), tensor::Box({1}, {3})}}));
  EXPECT_THAT(cluster.verify(side, 10), ElementsAre(HasSubstr("g1: tensor \"layers.2.norm\" [0:5] is not all there")));
  cluster.lose({1});
  EXPECT_THAT(cluster.verify(side, 10), SizeIs(17))
      << "tensors of a rank that is not the first replica's owner of step";
}

// Given up at any round and hop, the old epoch is whole, and nothing of the new one is left.
TEST(Worker, AGivenUpChangeLeavesTheOldEpoch) {
  plan::Case job = shrinking();
  job.options.round_bytes = 150;
  const plan::Plan plan = job.plan();
  ASSERT_GT(plan.rounds(), 3);
  for (int32_t rounds = -1; rounds <= plan.rounds(); ++rounds) {
    SCOPED_TRACE(rounds);
    SmallCluster cluster;
    cluster.create(job.from, 10);
    if (rounds >= 0) cluster.ask_all(prepare_body(plan, job.to, 10));
    for (int32_t round = 0; round < rounds; ++round)
      for (int32_t hop = 0; hop <= plan::last_hop(plan, round); ++hop) cluster.ask_all(round_body(5, round, hop));
    cluster.forget(5);
    EXPECT_THAT(cluster.verify(job.from, 10), IsEmpty());
    for (int host = 0; host < 2; ++host) {
      EXPECT_THAT(held_by(cluster, host), ElementsAre(Held{kJob, 4, 10}));
      for (const state::Store* store : cluster.worker(host).places().stores())
        for (const state::VersionKey& key : store->versions()) EXPECT_EQ(key, epoch_of_job(4));
      EXPECT_TRUE(absl::IsFailedPrecondition(cluster.call(host, round_body(5, 0, 0)).status()));
    }
    cluster.advance(job.from, 11);  // training goes on, and the change is made later
    cluster.change(plan, job.to, 11);
    EXPECT_THAT(cluster.verify(job.to, 11), IsEmpty());
  }
}

TEST(Worker, CommitForgetsAllOthersOfTheJobOnly) {
  SmallCluster cluster;
  const plan::Case job = shrinking();
  cluster.create(job.from, 10);
  cluster.snapshot(job.from, kSnapshot);
  cluster.stage(job.from, HostId(0), state::StateVersion::staged());
  CommandBody other;
  other.mutable_create()->set_job(kJob + 1);
  other.mutable_create()->set_name("other");
  other.mutable_create()->set_version(1);
  other.mutable_create()->set_collection(text_of(at_epoch(job.from, 1)));
  cluster.ask_all(other);
  const state::VersionKey others{kJob + 1, state::StateVersion::epoch(1)};
  cluster.change(job.plan(), job.to, 10);
  cluster.commit(5);
  EXPECT_THAT(cluster.store(Location::device(DeviceId(0))).versions(), ElementsAre(epoch_of_job(5), others));
  EXPECT_THAT(cluster.store(Location::device(DeviceId(1))).versions(), ElementsAre(others));
  EXPECT_THAT(cluster.store(Location::host_memory(HostId(0))).versions(),
              ElementsAre(state::VersionKey{kJob, kSnapshot}));
  EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());
}

// A rollback: devices fail, and those that did not have trained on; all is read from the copy in hosts' memories.
TEST(Worker, RestoreFromHostMemory) {
  for (const bool network : {false, true}) {
    SmallCluster cluster({.reach = network ? Reach::kNetwork : Reach::kSegments});
    plan::Case job = shrinking();
    job.from = at_epoch(plan::grid_collection({.tp = 4}, plan::devices({0, 1, 2, 3})), 4);
    cluster.create(job.from, 10);
    cluster.snapshot(job.from, kSnapshot);
    cluster.advance(job.from, 15);
    cluster.lose({1, 3});
    const plan::Plan plan = job.plan();
    CommandBody body = prepare_body(plan, job.to, 10);
    body.mutable_prepare()->set_restore(true);
    cluster.ask_all(body);
    cluster.run_rounds(plan, 5);
    EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());
    cluster.commit(5);
    EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());
    EXPECT_EQ(cluster.fetches() > 0, network);
  }
}

// The same under a memory cap: what devices have lost they need not give back.
TEST(Worker, RestoreUnderACap) {
  SmallCluster cluster;
  plan::Case job = shrinking();
  job.options.memory_cap = 100;
  const plan::Plan plan = job.plan();
  cluster.create(job.from, 10);
  cluster.snapshot(job.from, kSnapshot);
  cluster.advance(job.from, 15);
  cluster.lose({0, 1, 3});
  CommandBody body = prepare_body(plan, job.to, 10);
  body.mutable_prepare()->set_restore(true);
  cluster.ask_all(body);
  cluster.run_rounds(plan, 5);
  EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());
}

// Redundant copies of what one device has alone lie in the other host's memory; the device goes.
TEST(Worker, RedundantCopiesReplaceALostDevice) {
  SmallCluster cluster;
  plan::Case job{.from = at_epoch(plan::grid_collection({.tp = 2}, plan::devices({0, 2})), 4),
                 .to = at_epoch(plan::grid_collection({.dp = 2}, plan::devices({1, 3})), 5),
                 .cluster = plan::cluster_of(2, 2)};
  cluster.create(job.from, 10);
  CommandBody body;
  CommandBody::Copy& copy = *body.mutable_copy();
  copy.set_job(kJob);
  copy.set_from_version(4);
  copy.set_to_version(kSnapshot.wire());
  CommandBody::Copy::From& from = *copy.add_from();
  from.set_place("g0");
  int64_t bytes = 0;
  for (size_t i = 0; i < job.from.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    for (const tensor::Piece& piece : job.from.pieces(tensor, LogicalRank(0)).pieces) {
      set_box(piece.box, tensor, job.from.tensors[i].dtype, *from.add_boxes());
      job.residency.extra.push_back({tensor, piece.box, HostId(1)});
      bytes += 4 * piece.box.volume();
    }
  }
  EXPECT_EQ(cluster.ask(1, body).bytes(), bytes);
  cluster.lose({0});
  job.residency.lost = {DeviceId(0)};
  const plan::Plan plan = job.plan();
  ASSERT_TRUE(plan.feasible());
  cluster.change(plan, job.to, 10);
  EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());
}

class WithFolder : public testing::Test {
 protected:
  WithFolder() : folder_(std::filesystem::temp_directory_path() / ("scalai_worker_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(folder_);
  }
  ~WithFolder() override { std::filesystem::remove_all(folder_); }

  // What the controller does: begins, lets each worker write its ranks, and finishes.
  std::string write(SmallCluster& cluster, const Collection& side, int64_t step) {
    const std::string folder = store::step_folder(folder_.string(), step);
    store::Writer writer = state::value_or_die(store::Writer::begin(folder, side, {"job", step}));
    std::vector<std::string> parts;
    for (int host = 0; host < 2; ++host) {
      CommandBody body = write_body(side, step, writer.temporary());
      for (int rank = 0; rank < side.ranks(); ++rank) {
        const bool here = side.device_of_rank[static_cast<size_t>(rank)].value / 2 == host;
        if (here && writer.has_file(LogicalRank(rank))) body.mutable_write()->add_ranks(rank);
      }
      const ReplyBody reply = cluster.ask(host, body);
      parts.insert(parts.end(), reply.parts().begin(), reply.parts().end());
    }
    EXPECT_OK(writer.finish(parts));
    return folder;
  }
  static CommandBody write_body(const Collection& side, int64_t step, const std::string& temporary) {
    CommandBody body;
    CommandBody::Write& write = *body.mutable_write();
    write.set_job(kJob);
    write.set_name("job");
    write.set_version(side.epoch);
    write.set_step(step);
    write.set_folder(temporary);
    return body;
  }

  const std::filesystem::path folder_;
};

TEST_F(WithFolder, ACheckpointBringsBackWhatEverybodyLost) {
  SmallCluster cluster;
  plan::Case job = shrinking();
  cluster.create(job.from, 10);
  const std::string folder = write(cluster, job.from, 10);
  EXPECT_OK(state::value_or_die(store::Reader::open(folder)).verify());
  cluster.advance(job.from, 15);
  cluster.lose({0, 1, 2, 3});
  job.residency = {.lost = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}, .extra = {}, .storage = true};
  const plan::Plan plan = job.plan();
  // The step is not the checkpoint's: what is there afterwards can only come from the files.
  CommandBody body = prepare_body(plan, job.to, 99);
  body.mutable_prepare()->set_checkpoint(folder);
  cluster.ask_all(body);
  EXPECT_EQ(cluster.run_rounds(plan, 5).from_storage, plan.bytes().from_storage);
  EXPECT_THAT(cluster.verify(job.to, 10), IsEmpty());

  body.mutable_prepare()->set_checkpoint(folder + "_gone");
  EXPECT_TRUE(absl::IsNotFound(cluster.call(0, body).status()));
}

TEST_F(WithFolder, ACheckpointOfAnotherModelIsRefused) {
  SmallCluster cluster;
  plan::Case job = shrinking();
  Collection narrow = job.from;
  narrow.tensors[0].shape = tensor::Shape({18, 2});
  cluster.create(narrow, 10);
  const std::string folder = write(cluster, narrow, 10);
  job.residency = {.lost = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)}, .extra = {}, .storage = true};
  const plan::Plan plan = job.plan();
  CommandBody body = prepare_body(plan, job.to, 10);
  body.mutable_prepare()->set_checkpoint(folder);
  cluster.ask_all(body);
  const absl::Status other = cluster.call(1, round_body(5, 0, 0)).status();
  EXPECT_THAT(message_of(other), HasSubstr("tensor \"layers.0.up\" has another shape or type"));
}

TEST_F(WithFolder, RanksThatAreNotThereAreRefused) {
  SmallCluster cluster;
  const Collection side = shrinking().from;
  cluster.create(side, 10);
  const store::Writer writer =
      state::value_or_die(store::Writer::begin(store::step_folder(folder_.string(), 10), side, {"job", 10}));
  for (const int rank : {-1, 4}) {
    CommandBody body = write_body(side, 10, writer.temporary());
    body.mutable_write()->add_ranks(rank);
    EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status())) << rank;
  }
  CommandBody body = write_body(side, 10, writer.temporary());
  body.mutable_write()->set_version(9);
  body.mutable_write()->add_ranks(0);
  EXPECT_TRUE(absl::IsNotFound(cluster.call(0, body).status())) << "a version that is not held";
}

// ---- what a worker must survive ------------------------------------------------------------------------------------

TEST(WorkerRefuses, BytesThatAreNoCommand) {
  SmallCluster cluster;
  const auto status_of = [&](const std::string& bytes) {
    return cluster.worker(0).handle({.what = "?", .body = bytes}).status;
  };
  EXPECT_TRUE(absl::IsInvalidArgument(status_of("")));
  EXPECT_TRUE(absl::IsInvalidArgument(status_of("\xff\xff\xff\xff")));
  // A change that is broken somewhere, or cut short.
  plan::Case job = shrinking();
  cluster.create(job.from, 10);
  const std::string good = prepare_body(job.plan(), job.to, 10).SerializeAsString();
  int refused = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::string bad = good;
    const auto at = static_cast<size_t>(random.below(static_cast<int64_t>(bad.size())));
    if (random.below(4) == 0) {
      bad.resize(at);
    } else {
      bad[at] = static_cast<char>(bad[at] ^ (1 << random.below(8)));
    }
    CommandBody parsed;
    const bool touches_old = parsed.ParseFromString(bad) && (!parsed.has_prepare() || parsed.prepare().job() != kJob ||
                                                             parsed.prepare().to_version() != 5);
    if (touches_old) continue;  // says something else, and may be right
    if (!status_of(bad).ok()) ++refused;
  }
  EXPECT_GT(refused, 200);
  cluster.forget(5);
  EXPECT_THAT(cluster.verify(job.from, 10), IsEmpty());
}

TEST(WorkerRefuses, AnythingBeforeSetup) {
  Worker worker({.host = HostId(0), .segments = {}});
  CommandBody commit, copy, peers, exit;
  commit.mutable_commit();
  copy.mutable_copy();
  peers.mutable_peers();
  exit.mutable_exit();
  for (const CommandBody& body : {commit, copy, peers})
    EXPECT_TRUE(absl::IsFailedPrecondition(worker.handle({.what = "", .body = body.SerializeAsString()}).status));
  const rpc::Reply last = worker.handle({.what = "exit", .body = exit.SerializeAsString()});
  EXPECT_OK(last.status);
  EXPECT_TRUE(last.last);
}

TEST(WorkerRefuses, JobsAndVersionsItDoesNotKnow) {
  SmallCluster cluster;
  const Collection side = shrinking().from;
  cluster.create(side, 10);
  CommandBody body;
  const auto expect_not_found = [&](auto* command, int32_t job, int64_t version) {
    command->set_job(job);
    command->set_version(version);
    EXPECT_TRUE(absl::IsNotFound(cluster.call(0, body).status()));
  };
  for (const auto& [job, version] : {std::pair<int32_t, int64_t>{kJob, 99}, {77, 4}}) {
    expect_not_found(body.mutable_verify(), job, version);
    expect_not_found(body.mutable_advance(), job, version);
    expect_not_found(body.mutable_begin(), job, version);
    body.mutable_round()->set_job(job);
    body.mutable_round()->set_to_version(version);
    EXPECT_TRUE(absl::IsFailedPrecondition(cluster.call(0, body).status()));
  }
  body.mutable_forget()->set_job(77);
  EXPECT_OK(cluster.call(0, body).status());
  EXPECT_THAT(cluster.verify(side, 10), IsEmpty());
  cluster.forget(side.epoch);
  expect_not_found(body.mutable_verify(), kJob, side.epoch);
}

// Of every command that names a version; the number is in the text.
TEST(WorkerRefuses, NumbersThatAreNoVersion) {
  SmallCluster cluster;
  const plan::Case job = shrinking();
  cluster.create(job.from, 10);
  std::vector<CommandBody> bodies(10, prepare_body(job.plan(), job.to, 10));
  bodies[0].mutable_prepare()->set_to_version(-7);
  bodies[1].mutable_prepare()->set_device_version(-7);
  bodies[2].mutable_prepare()->set_host_version(-7);
  bodies[3].mutable_create()->set_version(-7);
  bodies[4].mutable_advance()->set_version(-7);
  bodies[5].mutable_round()->set_to_version(-7);
  bodies[6].mutable_verify()->set_version(-7);
  bodies[7].mutable_commit()->set_version(-7);
  bodies[8].mutable_forget()->set_version(-7);
  bodies[9].mutable_write()->set_version(-7);
  bodies.emplace_back().mutable_copy()->set_from_version(-7);
  bodies.emplace_back().mutable_copy()->set_to_version(-7);
  for (const CommandBody& body : bodies)
    EXPECT_THAT(cluster.call(0, body).status().ToString(), HasSubstr("INVALID_ARGUMENT: -7 is no state version"));
  EXPECT_THAT(cluster.verify(job.from, 10), IsEmpty());
}

TEST(WorkerRefuses, CopiesThatMakeNoSense) {
  SmallCluster cluster;
  const Collection side = shrinking().from;
  cluster.create(side, 10);
  CommandBody body;
  CommandBody::Copy& copy = *body.mutable_copy();
  copy.set_job(kJob);
  copy.set_from_version(4);
  copy.set_to_version(4);
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status())) << "onto itself";
  copy.set_to_version(kSnapshot.wire());
  CommandBody::Copy::From& from = *copy.add_from();
  for (const std::string place : {"storage", "g4", "h2.mem", "x", ""}) {
    for (const bool from_host_memory : {false, true}) {
      from.set_place(place);
      copy.set_from_host_memory(from_host_memory);
      EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status())) << place;
    }
  }
  copy.set_from_host_memory(false);
  from.set_place("g3");
  set_box(tensor::Box({0, 0}, {1, 1}), TensorId(0), static_cast<tensor::DType>(200), *from.add_boxes());
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status()));
  from.mutable_boxes(0)->set_dtype(static_cast<int>(tensor::DType::kF32));
  from.mutable_boxes(0)->set_lo(0, 0);
  EXPECT_TRUE(absl::IsNotFound(cluster.call(0, body).status())) << "g3 has the second half";
  for (int i = 0; i < 9; ++i) from.mutable_boxes(0)->add_lo(0);
  EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status()));
}

TEST(WorkerRefuses, PlacesOfOthers) {
  SmallCluster cluster;
  for (const std::string place : {"g2", "h1.mem", "storage", "nonsense"}) {
    CommandBody body;
    body.mutable_fail()->add_places(place);
    EXPECT_TRUE(absl::IsInvalidArgument(cluster.call(0, body).status())) << place;
  }
}

TEST(WorkerRefuses, MoreStateThanThePlaceHolds) {
  SmallCluster cluster({.limit = int64_t{1} << 20});
  Collection side = plan::replicas({1 << 20}, plan::devices({0}));
  CommandBody body;
  body.mutable_create()->set_job(kJob);
  body.mutable_create()->set_collection(text_of(side));
  EXPECT_TRUE(absl::IsResourceExhausted(cluster.call(0, body).status()));
  EXPECT_THAT(held_by(cluster, 0), IsEmpty());
  side = plan::replicas({1 << 10}, plan::devices({0}));
  cluster.create(side, 3);
  EXPECT_THAT(cluster.verify(side, 3), IsEmpty());
}

}  // namespace
}  // namespace scalai::executor::worker
