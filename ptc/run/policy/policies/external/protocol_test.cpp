#include "ptc/run/policy/policies/external/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/external/testing/external_view.h"

namespace scalai::policy {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class Protocol : public ::testing::Test {
 protected:
  Protocol() {
    a_ = view_.add("a", 2, 100);
    b_ = view_.add("b", 4, 50, 10);
    view_.at(b_).placement = {.type = GpuType(0), .hosts = {{HostId(0), 4}}};
    view_.at(b_).first_start_s = 12;
  }
  Json ask(Greeting greeting, std::vector<Event> events = {}) {
    const News news = known_.update(view_, events);
    return Json::parse(decide_line({.view = view_, .events = events, .greeting = greeting}, news, known_));
  }

  testing::PaperView view_;
  JobId a_, b_;
  Known known_;
};

TEST_F(Protocol, HelloTellsTheFleet) {
  const Json hello = Json::parse(hello_line(view_, 7));
  EXPECT_EQ(hello.at("scalai_policy"), 1);
  EXPECT_EQ(hello.at("seed"), 7);
  EXPECT_EQ(hello.at("types")[0], Json::parse(R"({"type":"v100","gpus":8,"price_per_gpu_hour":2.5})"));
  EXPECT_EQ(hello.at("hosts")[2], Json::parse(R"({"type":"k80","gpus":8})"));
}

TEST_F(Protocol, TheGreetingSaysWhatTheProgramWants) {
  EXPECT_FALSE(check_hello(R"({"scalai_policy": 1, "name": "x"})")->delta);
  const auto all = check_hello(R"({"scalai_policy": 1, "delta": true, "curves": true})");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->delta && all->curves);
  EXPECT_FALSE(check_hello(R"({"scalai_policy": 1, "delta": false})")->delta);
  EXPECT_THAT(message_of(check_hello(R"({"scalai_policy": 1, "delta": 1})").status()),
              HasSubstr("\"delta\" is to be true or false"));
  EXPECT_THAT(message_of(check_hello(R"({"scalai_policy": 1, "deltas": true})").status()),
              HasSubstr("a field \"deltas\", which is none of scalai_policy, name, delta, past, curves"));
}

TEST_F(Protocol, AnotherVersionIsRefused) {
  EXPECT_THAT(message_of(check_hello(R"({"scalai_policy": 2})").status()), HasSubstr("version 2 of the protocol"));
  EXPECT_THAT(message_of(check_hello(R"({"name": "x"})").status()), HasSubstr("version ?"));
  EXPECT_THAT(message_of(check_hello("hello").status()),
              HasSubstr("line 1, column 1: this is not JSON: unexpected \"h\": hello"));
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(message_of(check_hello(R"({"scalai_policy":)" + deep + "}").status()),
              HasSubstr("nested more than 64 levels"));
}

TEST_F(Protocol, DecideTellsWhatAPolicyMaySee) {
  view_.at(b_).beside = a_;
  const Json json = ask({}, {{Event::Kind::kSubmitted, a_}, {Event::Kind::kTimer, JobId()}});
  EXPECT_EQ(json.at("now_s"), 100);
  EXPECT_EQ(json.at("events"), Json::parse(R"([{"event":"submitted","job":"a"},{"event":"timer"}])"));
  EXPECT_EQ(json.at("capacity"), Json::parse(R"({"v100":8,"k80":8})"));
  EXPECT_EQ(json.at("short_hosts"), Json::array());
  EXPECT_EQ(json.at("jobs")[0].at("has"), Json());
  EXPECT_EQ(json.at("jobs")[0].at("beside"), Json());
  EXPECT_EQ(json.at("jobs")[0].at("deadline_s"), Json()) << "never";
  EXPECT_EQ(json.at("jobs")[0].at("per_s"), Json::parse(R"({"v100":4.0,"k80":2.0})"));
  EXPECT_FALSE(json.at("jobs")[0].contains("curves")) << "nobody asked for them";
  EXPECT_EQ(json.at("jobs")[1].at("has"), Json::parse(R"({"type":"v100","gpus":4,"hosts":[{"host":0,"gpus":4}]})"));
  EXPECT_EQ(json.at("jobs")[1].at("beside"), "a");
  EXPECT_EQ(json.at("jobs")[1].at("first_start_s"), 12);
}

TEST_F(Protocol, CurvesHaveAllSizesOfAJob) {
  view_.spec(a_).max_gpus = 4;
  view_.spec(b_).max_gpus = 100;
  const Json json = ask({.curves = true});
  EXPECT_EQ(json.at("jobs")[0].at("curves"), Json::parse(R"({"v100":[4.0,6.0,8.0],"k80":[2.0,3.0,4.0]})"));
  EXPECT_EQ(json.at("jobs")[1].at("curves").at("k80"), Json::parse("[4.0,5.0,6.0,7.0,8.0]"))
      << "no more than there are";
}

TEST_F(Protocol, ShortHostsAreThoseThatLackGpus) {
  view_.set_capacity(1, 0);
  view_.set_capacity(2, 6);
  EXPECT_EQ(ask({}).at("short_hosts"), Json::parse(R"([{"host":1,"gpus":0},{"host":2,"gpus":6}])"));
}

// Then a program adds up what it is told, and that is all that another one is told at once.
TEST_F(Protocol, ADeltaHasWhatChanged) {
  const Greeting delta{.delta = true, .curves = true};
  const Json first = ask(delta);
  EXPECT_FALSE(first.contains("jobs"));
  ASSERT_EQ(first.at("changed").size(), 2u);
  EXPECT_TRUE(first.contains("short_hosts"));
  view_.now = 200;
  const Json second = ask(delta);
  EXPECT_EQ(second.at("changed"), Json::array()) << "a waits, b does not train";
  EXPECT_EQ(second.at("gone"), Json::array());
  EXPECT_FALSE(second.contains("short_hosts"));
  view_.at(a_).placement = {.type = GpuType(1), .hosts = {{HostId(2), 2}}};
  view_.leave(b_);
  const Json third = ask(delta, {{Event::Kind::kFinished, b_}, {Event::Kind::kLost, a_}});
  EXPECT_EQ(third.at("gone"), Json::parse(R"(["b"])"));
  ASSERT_EQ(third.at("changed").size(), 1u);
  EXPECT_EQ(third.at("changed")[0].at("job"), "a");
  EXPECT_EQ(third.at("changed")[0].at("has").at("gpus"), 2);
  EXPECT_FALSE(third.at("changed")[0].contains("work")) << "it is fixed";
  EXPECT_FALSE(third.at("changed")[0].contains("curves")) << "they still hold";
}

TEST_F(Protocol, CurvesComeAgainWhenTheyNoLongerHold) {
  const Greeting delta{.delta = true, .curves = true};
  view_.set_until_work(30);
  ask(delta);
  view_.at(a_).work_done = 30;
  const Json json = ask(delta, {{Event::Kind::kRate, a_}});
  EXPECT_EQ(json.at("changed")[0].at("curves").at("v100"), Json::parse("[2.0]"));
  EXPECT_EQ(json.at("changed")[0].at("per_s").at("v100"), 2.0);
}

TEST_F(Protocol, EveryFieldIsDocumented) {
  std::ifstream file(SCALAI_SOURCE_DIR "/docs/policy-protocol.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  ASSERT_FALSE(page.empty());
  const auto documented = [&](const Json& object) {
    for (const auto& [name, value] : object.items()) EXPECT_THAT(page, HasSubstr("`" + name + "`"));
  };
  documented(Json::parse(hello_line(view_, 7)));
  view_.set_capacity(1, 0);
  const Json whole = ask({.curves = true}, {{Event::Kind::kTimer, JobId()}});
  documented(whole);
  documented(whole.at("jobs")[0]);
  documented(whole.at("short_hosts")[0]);
  documented(whole.at("jobs")[1].at("has"));
  documented(ask({.delta = true}));
}

TEST_F(Protocol, NamesThatAreNoUtf8DoNotEndTheRun) {
  view_.spec(a_).name = "\xff";
  EXPECT_FALSE(ask({}).empty());
}

}  // namespace
}  // namespace scalai::policy
