#include "executor/controller/worker_pool.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>

#include "executor/controller/testing/test_fleet.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using testing::Fleet;
using ::testing::HasSubstr;

scenario::Scenario small_scenario() {
  return *control::testing::scenario_of(std::string(control::testing::kSmallCluster) + "until: \"1s\"\n" +
                                        control::testing::job_text("a", "gpus: 2 configs { layout: \"tp2\" }"));
}

class WorkerPoolTest : public ::testing::Test {
 protected:
  const scenario::Scenario scenario_ = small_scenario();
  const cluster::Cluster& cluster_ = scenario_.cluster;
};

// A command that every worker answers.
proto::CommandBody nothing() {
  proto::CommandBody body;
  body.mutable_forget()->set_job(0);
  body.mutable_forget()->set_version(77);
  return body;
}

TEST_F(WorkerPoolTest, StartsEveryHostAndKillsAndRevivesOne) {
  Fleet fleet({.hosts = 4});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  EXPECT_THAT(pool.living(), ElementsAre(HostId(0), HostId(1), HostId(2), HostId(3)));
  EXPECT_EQ(pool.call("forget", pool.living(), nothing())->size(), 4u);

  ASSERT_TRUE(pool.kill(HostId(2)).ok());
  EXPECT_THAT(pool.living(), ElementsAre(HostId(0), HostId(1), HostId(3)));
  EXPECT_THAT(pool.living_hosts_of({DeviceId(5), DeviceId(6), DeviceId(0), DeviceId(1)}),
              ElementsAre(HostId(0), HostId(3)));
  EXPECT_TRUE(absl::IsUnavailable(pool.call("forget", {HostId(1), HostId(2)}, nothing()).status()));

  ASSERT_TRUE(pool.revive(HostId(2)).ok());
  EXPECT_EQ(pool.call("forget", pool.living(), nothing())->size(), 4u);
}

TEST_F(WorkerPoolTest, TellsEveryoneWhereALostPlaceIsNow) {
  Fleet fleet({.hosts = 4, .network = true});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  EXPECT_TRUE(pool.refresh(HostId(1)).ok());
}

TEST_F(WorkerPoolTest, AWorkerThatIsLostWhileTheyAreIntroducedIsLeftOut) {
  Fleet fleet({.hosts = 4, .deaths = {{.host = 2, .what = "peers", .nth = 2}}});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  const absl::Status status = pool.introduce();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(fleet.deaths(), 1);
}

TEST_F(WorkerPoolTest, AWorkerThatCannotBeStartedOrNeverJoinsIsNamed) {
  Fleet fleet({.hosts = 4});
  WorkerPoolOptions options = fleet.pool_options();
  options.join_s = 0.2;
  options.start_worker = [&](HostId host) {
    return host == HostId(3) ? absl::NotFoundError("no such binary") : fleet.start(host);
  };
  WorkerPool refused(cluster_, fleet.controller(), options);
  EXPECT_EQ(refused.start().message(), "no such binary");

  options.start_worker = [](HostId) { return absl::OkStatus(); };
  WorkerPool pool(cluster_, fleet.controller(), options);
  EXPECT_THAT(std::string(pool.start().message()), HasSubstr("3 of 4 workers joined within 0.2 s"));
  EXPECT_THAT(std::string(pool.revive(HostId(3)).message()),
              HasSubstr("0 of 1 workers joined within 0.2 s; that of h3"));
}

TEST_F(WorkerPoolTest, AWorkerThatIsLostBeforeTheRunIsStartedAgain) {
  Fleet fleet({.hosts = 4, .deaths = {{.host = 2, .what = "setup"}}});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  EXPECT_EQ(fleet.deaths(), 1);
  EXPECT_EQ(pool.call("forget", pool.living(), nothing())->size(), 4u);
}

TEST_F(WorkerPoolTest, AWorkerThatEndsBeforeItJoinsIsStartedAgainAndThenNamed) {
  for (const int ends : {2, 3}) {
    Fleet fleet({.hosts = 4});
    WorkerPoolOptions options = fleet.pool_options();
    int starts = 0;
    bool ended = false;
    options.start_worker = [&](HostId host) {
      if (host == HostId(3) && starts++ < ends) {
        ended = true;
        return absl::OkStatus();
      }
      return fleet.start(host);
    };
    options.ended_workers = [&] {
      std::vector<std::pair<HostId, std::string>> list;
      if (std::exchange(ended, false)) list.emplace_back(HostId(3), "exit code 127");
      return list;
    };
    WorkerPool pool(cluster_, fleet.controller(), options);
    const absl::Status status = pool.start();
    EXPECT_EQ(status.message(), ends < 3 ? "" : "the worker of h3 ends before it has joined: exit code 127");
    EXPECT_EQ(starts, 3);
  }
}

TEST_F(WorkerPoolTest, AWorkerThatIsLostWhileTheOthersJoinAnotherControllerIsMissing) {
  Fleet fleet({.hosts = 4, .deaths = {{.host = 2, .what = "setup", .nth = 2}}});
  {
    WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
    ASSERT_TRUE(pool.start().ok());
  }
  fleet.replace_controller();
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  const absl::Status status = pool.rejoin({HostId(0), HostId(1), HostId(2), HostId(3)}, 10);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(fleet.deaths(), 1);
  EXPECT_THAT(pool.living(), ElementsAre(HostId(0), HostId(1), HostId(3)));
  EXPECT_EQ(pool.call("forget", pool.living(), nothing())->size(), 3u);
}

TEST_F(WorkerPoolTest, SurvivorsAreToldOnceToLetGoOfTheLost) {
  std::atomic<int> told = 0;
  Fleet fleet({.hosts = 4, .swallow = [&](int32_t, const std::string& what) {
                 told += what == "peers" ? 1 : 0;
                 return false;
               }});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  ASSERT_TRUE(pool.let_go_of_the_lost().ok());
  EXPECT_EQ(told, 4) << "at the start";
  ASSERT_TRUE(pool.kill(HostId(3)).ok());
  ASSERT_TRUE(pool.let_go_of_the_lost().ok());
  ASSERT_TRUE(pool.let_go_of_the_lost().ok());
  EXPECT_EQ(told, 4 + 3);
}

TEST_F(WorkerPoolTest, WithoutAStarterWorkersAreAskedToLeave) {
  Fleet fleet({.hosts = 4});
  for (int host = 0; host < 4; ++host) ASSERT_TRUE(fleet.start(HostId(host)).ok());
  WorkerPoolOptions options = fleet.pool_options();
  options.start_worker = options.kill_worker = nullptr;
  WorkerPool pool(cluster_, fleet.controller(), options);
  ASSERT_TRUE(pool.start().ok());
  ASSERT_TRUE(pool.kill(HostId(1)).ok());
  bool left = false;
  while (const auto event = fleet.controller().next_event(left ? 0 : 30)) {
    const auto* lost = std::get_if<rpc::WorkerLost>(&*event);
    if (lost != nullptr && lost->host == 1) left = lost->clean;
  }
  EXPECT_TRUE(left);
}

TEST_F(WorkerPoolTest, SaysWhatIsKnownOfALoss) {
  Fleet fleet({.hosts = 4});
  WorkerPoolOptions options = fleet.pool_options();
  options.why_lost = [](HostId host) { return host == HostId(1) ? std::string("exit code 3") : ""; };
  WorkerPool pool(cluster_, fleet.controller(), options);
  ASSERT_TRUE(pool.start().ok());
  EXPECT_EQ(pool.why_lost({.host = 1, .reason = "connection closed"}), "connection closed: exit code 3");
  EXPECT_EQ(pool.why_lost({.host = 1, .reason = "it left: for good", .clean = true}), "it left: for good");
  EXPECT_THAT(pool.why_lost({.host = 2, .reason = "connection closed"}),
              ContainsRegex("^connection closed: process [0-9]+ on .*, where its end and its log are known$"));
}

// Reports index by classes of transfers, and add up bytes.
TEST_F(WorkerPoolTest, RepliesHaveNumbersThatAddUp) {
  proto::ReplyBody spoiled;
  Fleet fleet({.hosts = 4, .spoil = [&](int32_t host, const std::string& what, int, std::string& body) {
                 if (host == 2 && what == "forget") body = spoiled.SerializeAsString();
               }});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  const auto call = [&](const std::function<void(proto::ReplyBody&)>& change) {
    spoiled.Clear();
    change(spoiled);
    return pool.call("forget", pool.living(), nothing()).status();
  };
  EXPECT_TRUE(call([](auto& reply) { reply.add_transfers()->set_transfer_class(5); }).ok());
  for (const int32_t none : {-1, 6, INT32_MAX})
    EXPECT_THAT(message_of(call([&](auto& reply) { reply.add_transfers()->set_transfer_class(none); })),
                HasSubstr("impossible numbers"));
  EXPECT_FALSE(call([](auto& reply) { reply.add_transfers()->set_bytes(-1); }).ok());
  EXPECT_FALSE(call([](auto& reply) { reply.add_foreign()->set_bytes(INT64_MAX); }).ok());
  EXPECT_FALSE(call([](auto& reply) { reply.add_accounts()->set_samples(-1); }).ok());
  EXPECT_FALSE(call([](auto& reply) { reply.set_bytes(INT64_MAX); }).ok());
  EXPECT_FALSE(call([](auto& reply) { reply.set_mismatch_count(-1); }).ok());
}

TEST_F(WorkerPoolTest, AnErrorOfAWorkerComesBack) {
  Fleet fleet({.hosts = 4});
  WorkerPool pool(cluster_, fleet.controller(), fleet.pool_options());
  ASSERT_TRUE(pool.start().ok());
  EXPECT_THAT(std::string(pool.call("nothing", pool.living(), proto::CommandBody()).status().message()),
              HasSubstr("a command that this worker does not know"));
}

}  // namespace
}  // namespace scalai::executor::controller
