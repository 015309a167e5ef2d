#include "ptc/sched/policies/external/protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ptc/base/status.h"
#include "ptc/sched/policies/external/external_view.h"

namespace scalai::sched {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class Protocol : public ::testing::Test {
 protected:
  Protocol() {
    a_ = view_.add("a", 2, 100);
    b_ = view_.add("b", 4, 50, 10);
    view_.at(b_).placement = {.type = GpuType(0), .hosts = {{HostId(0), 4}}};
    view_.at(b_).first_start_s = 12;
    jobs_ = {{"a", a_}, {"b", b_}};
  }
  absl::StatusOr<Decision> read(const std::string& answer) { return read_decision(answer, view_, jobs_); }
  std::string problem(const std::string& answer) {
    const auto decision = read(answer);
    EXPECT_EQ(exit_code_of(decision.status()), 5) << answer;
    return decision.ok() ? "" : message_of(decision.status());
  }

  testing::PaperView view_;
  JobId a_, b_;
  std::map<std::string, JobId> jobs_;
};

TEST_F(Protocol, HelloTellsTheFleet) {
  const Json hello = Json::parse(hello_line(view_, 7));
  EXPECT_EQ(hello.at("scalai_policy"), 1);
  EXPECT_EQ(hello.at("seed"), 7);
  EXPECT_EQ(hello.at("types")[0], Json::parse(R"({"type":"v100","gpus":8,"price_per_gpu_hour":2.5})"));
  EXPECT_EQ(hello.at("hosts")[2], Json::parse(R"({"type":"k80","gpus":8})"));
}

TEST_F(Protocol, AnotherVersionIsRefused) {
  EXPECT_TRUE(check_hello(R"({"scalai_policy": 1, "name": "x"})").ok());
  EXPECT_THAT(message_of(check_hello(R"({"scalai_policy": 2})")), HasSubstr("version 2 of the protocol"));
  EXPECT_THAT(message_of(check_hello(R"({"name": "x"})")), HasSubstr("version ?"));
  EXPECT_THAT(message_of(check_hello("hello")),
              HasSubstr("line 1, column 1: this is not JSON: unexpected \"h\": hello"));
}

TEST_F(Protocol, DecideTellsWhatAPolicyMaySee) {
  const std::vector<Event> events = {{Event::Kind::kSubmitted, a_}, {Event::Kind::kTimer, JobId()}};
  const Json json = Json::parse(decide_line(view_, events));
  EXPECT_EQ(json.at("now_s"), 100);
  EXPECT_EQ(json.at("events"), Json::parse(R"([{"event":"submitted","job":"a"},{"event":"timer"}])"));
  EXPECT_EQ(json.at("capacity"), Json::parse(R"({"v100":8,"k80":8})"));
  EXPECT_EQ(json.at("jobs")[0].at("has"), Json());
  EXPECT_EQ(json.at("jobs")[0].at("deadline_s"), Json()) << "never";
  EXPECT_EQ(json.at("jobs")[0].at("per_s"), Json::parse(R"({"v100":4.0,"k80":2.0})"));
  EXPECT_EQ(json.at("jobs")[1].at("has"), Json::parse(R"({"type":"v100","gpus":4,"hosts":[{"host":0,"gpus":4}]})"));
  EXPECT_EQ(json.at("jobs")[1].at("first_start_s"), 12);
}

TEST_F(Protocol, EveryFieldOfAJobIsDocumented) {
  const Json json = Json::parse(decide_line(view_, {}));
  std::vector<std::string> names;
  for (const auto& [name, value] : json.at("jobs")[0].items()) names.push_back(name);
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("job", "type", "entity", "submit_s", "gpus", "min_gpus", "max_gpus",
                                              "weight", "deadline_s", "work", "work_done", "per_s", "first_start_s",
                                              "executed_s", "attained_gpu_s", "restarts", "has"));
}

TEST_F(Protocol, NamesThatAreNoUtf8DoNotEndTheRun) {
  view_.spec(a_).name = "\xff";
  EXPECT_TRUE(Json::accept(decide_line(view_, {})));
}

TEST_F(Protocol, ADecision) {
  const auto decision = read(R"({"grants":[{"job":"a","type":"k80","gpus":2},{"job":"b","gpus":0}],"wake_at_s":160})");
  ASSERT_TRUE(decision.ok()) << decision.status();
  ASSERT_EQ(decision->grants.size(), 2u);
  EXPECT_EQ(decision->grants[0].job, a_);
  EXPECT_EQ(decision->grants[0].type, GpuType(1));
  EXPECT_EQ(decision->grants[0].gpus, 2);
  EXPECT_EQ(decision->grants[1].gpus, 0);
  EXPECT_EQ(decision->wake_at_s, 160);
  const auto placed = read(R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":[{"host":1,"gpus":2}]}]})");
  ASSERT_TRUE(placed.ok()) << placed.status();
  EXPECT_EQ(placed->grants[0].hosts, (std::vector<HostShare>{{HostId(1), 2}}));
  EXPECT_EQ(read(R"({"refused":["a"]})")->refused, std::vector<JobId>{a_});
  EXPECT_EQ(read("{}")->wake_at_s, kNever);
}

TEST_F(Protocol, DeepAnswersAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(message_of(check_hello(R"({"scalai_policy":)" + deep + "}")), HasSubstr("nested more than 64 levels"));
  EXPECT_THAT(problem(R"({"grants":[{"job":)" + deep + "}]}"), HasSubstr("nested more than 64 levels"));
}

TEST_F(Protocol, MalformedAnswersAreShown) {
  EXPECT_EQ(problem(R"({"grants":[})"),
            R"(its answer, line 1, column 12: this is not JSON: unexpected "}": {"grants":[})");
  EXPECT_THAT(problem("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(problem(""), HasSubstr("line 1, column 1: this is not JSON"));
  EXPECT_THAT(problem(R"({"grant":[]})"), HasSubstr("a field \"grant\", which is none of grants, refused, wake_at_s"));
  EXPECT_THAT(problem(R"({"grants":{}})"), StartsWith("\"grants\" is no list"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a"}]})"), StartsWith("grants[0] has no whole number \"gpus\""));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":-1}]})"), HasSubstr("no whole number \"gpus\""));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":2.5}]})"), HasSubstr("no whole number \"gpus\""));
  EXPECT_THAT(problem(R"({"grants":[{"job":3,"gpus":2}]})"), HasSubstr("\"job\" is to be a text"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":2,"gpu":"x"}]})"), HasSubstr("a field \"gpu\""));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":2}]})"), StartsWith("grants[0]: \"type\" is none of v100, k80"));
  EXPECT_THAT(problem(R"({"wake_at_s":100})"), HasSubstr("not after now"));
  EXPECT_THAT(problem(R"({"wake_at_s":"soon"})"), HasSubstr("is no number"));
  EXPECT_THAT(problem(R"({"refused":["zz"]})"), EndsWith(R"(its answer: {"refused":["zz"]})")) << "the offending line";
}

TEST_F(Protocol, JobsThatAreNotThereAreNamed) {
  EXPECT_THAT(problem(R"({"grants":[{"job":"aa","type":"v100","gpus":2}]})"),
              StartsWith("grants[0] names \"aa\", which is no job that is here"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":0},{"job":"a","gpus":0}]})"), HasSubstr("a second time"));
  EXPECT_THAT(problem(R"({"refused":["b"]})"), HasSubstr("\"b\", which runs"));
}

TEST_F(Protocol, MoreThanThereIsIsRefused) {
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"k80","gpus":3}]})"),
              HasSubstr("gives job \"a\" 3 GPUs, it takes 2"));
  view_.spec(a_).max_gpus = 8;
  EXPECT_TRUE(read(R"({"grants":[{"job":"a","type":"v100","gpus":4}]})").ok()) << "b keeps the other four";
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"v100","gpus":5}]})"),
              StartsWith("it gives away 9 GPUs of type v100, there are 8"));
  EXPECT_TRUE(read(R"({"grants":[{"job":"a","type":"v100","gpus":8},{"job":"b","gpus":0}]})").ok());
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":[{"host":0,"gpus":2}]}]})"),
              HasSubstr("gives away 6 GPUs of host 0, which has 4"));
  view_.set_capacity(1, 0);
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"v100","gpus":2}]})"), HasSubstr("there are 4"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":[{"host":2,"gpus":2}]}]})"),
              HasSubstr("host 2 is none of that type"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":[{"host":0,"gpus":1}]}]})"),
              HasSubstr("its hosts have 1 GPUs"));
}

}  // namespace
}  // namespace scalai::sched
