#include "ptc/run/policy/policies/external/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <variant>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/external/testing/external_view.h"

namespace scalai::policy {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

class Answer : public ::testing::Test {
 protected:
  Answer() {
    a_ = view_.add("a", 2, 100);
    b_ = view_.add("b", 4, 50, 10);
    view_.at(b_).placement = {.type = GpuType(0), .hosts = {{HostId(0), 4}}};
    view_.at(b_).first_start_s = 12;
  }
  absl::StatusOr<std::variant<Decision, Reply>> answer(const std::string& text) {
    known_.update(view_, {{Event{Event::Kind::kCapacity, JobId()}}});
    return read_answer(text, view_, known_);
  }
  absl::StatusOr<Decision> read(const std::string& text) {
    auto got = answer(text);
    if (!got.ok()) return got.status();
    return std::get<Decision>(*got);
  }
  Json reply(const std::string& text) {
    const auto got = answer(text);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? Json::parse(std::get<Reply>(*got).line) : Json();
  }
  std::string problem(const std::string& text) {
    const auto got = answer(text);
    EXPECT_EQ(exit_code_of(got.status()), 5) << text;
    return got.ok() ? "" : message_of(got.status());
  }

  testing::PaperView view_;
  JobId a_, b_;
  Known known_;
};

TEST_F(Answer, ADecision) {
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

TEST_F(Answer, DeepAnswersAreRefused) {
  const std::string deep = std::string(1'000'000, '[') + std::string(1'000'000, ']');
  EXPECT_THAT(problem(R"({"grants":[{"job":)" + deep + "}]}"), HasSubstr("nested more than 64 levels"));
}

TEST_F(Answer, MalformedAnswersAreShown) {
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

TEST_F(Answer, JobsThatAreNotThereAreNamed) {
  EXPECT_THAT(problem(R"({"grants":[{"job":"aa","type":"v100","gpus":2}]})"),
              StartsWith("grants[0] names \"aa\", which is no job that is here"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":0},{"job":"a","gpus":0}]})"), HasSubstr("a second time"));
  EXPECT_THAT(problem(R"({"refused":["b"]})"), HasSubstr("\"b\", which runs"));
}

TEST_F(Answer, MoreThanThereIsIsRefused) {
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
              HasSubstr("host 2 is none of type v100"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":[{"host":0,"gpus":1}]}]})"),
              HasSubstr("its hosts have 1 GPUs"));
}

TEST_F(Answer, HostsAreChecked) {
  const auto problem_of = [&](const std::string& hosts) {
    return problem(R"({"grants":[{"job":"a","type":"v100","gpus":2,"hosts":)" + hosts + "}]}");
  };
  EXPECT_THAT(problem_of("3"), StartsWith("grants[0]: \"hosts\" is no list of hosts"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("is no list of hosts"));
  EXPECT_THAT(problem_of("[1]"), HasSubstr("a host is no object"));
  EXPECT_THAT(problem_of(R"([{"host":9,"gpus":2}])"), HasSubstr("there is no host 9, they are 0 to 2"));
  EXPECT_THAT(problem_of(R"([{"host":1,"gpus":5}])"), HasSubstr("host 1 has 4 GPUs, not 5"));
  EXPECT_THAT(problem_of(R"([{"host":1,"gpus":1},{"host":1,"gpus":1}])"), HasSubstr("host 1 is named twice"));
  EXPECT_THAT(problem_of(R"([{"host":1,"gpu":1}])"), HasSubstr("a field \"gpu\", which is none of host, gpus"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"a","gpus":0,"hosts":[]}]})"), HasSubstr("has 0 GPUs, and \"hosts\""));
}

TEST_F(Answer, TwoJobsOnTheSameGpus) {
  view_.set_share(0.8);
  const JobId c = view_.add("c", 4, 70), d = view_.add("d", 4, 70);
  const auto pair = read(R"({"grants":[{"job":"c","type":"v100","gpus":4,"beside":"b"}]})");
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->grants[0].beside, b_);
  view_.at(b_).beside = c;
  view_.at(c).placement = view_.at(b_).placement;
  view_.at(c).beside = b_;
  EXPECT_TRUE(read(R"({"grants":[{"job":"d","type":"v100","gpus":4}]})").ok()) << "four are left: two share the others";
  EXPECT_THAT(problem(R"({"grants":[{"job":"d","type":"v100","gpus":4},{"job":"a","type":"v100","gpus":2}]})"),
              StartsWith("it gives away 10 GPUs of type v100, there are 8"));
  EXPECT_TRUE(read(R"({"grants":[{"job":"c","gpus":0},{"job":"d","type":"v100","gpus":4,"beside":"b"}]})").ok());
  EXPECT_TRUE(read(R"({"grants":[{"job":"c","gpus":0},{"job":"b","gpus":0},{"job":"a","type":"v100","gpus":2},
                                {"job":"d","type":"v100","gpus":4}]})")
                  .ok());
  EXPECT_THAT(
      problem(R"({"grants":[{"job":"c","gpus":0},{"job":"d","type":"v100","gpus":4,"hosts":[{"host":0,"gpus":4}]}]})"),
      StartsWith("it gives away 8 GPUs of host 0, which has 4"))
      << "b stays";
  EXPECT_TRUE(read(R"({"grants":[{"job":"b","type":"v100","gpus":4},{"job":"d","type":"v100","gpus":4}]})").ok())
      << "b keeps what it has, c beside it";
  EXPECT_THAT(problem(R"({"grants":[{"job":"d","type":"v100","gpus":4,"beside":"b"}]})"),
              StartsWith("job \"d\" beside \"b\", which shares its GPUs already"));
  EXPECT_EQ(d, JobId(3));
}

TEST_F(Answer, PairsAreChecked) {
  view_.set_share(0.8);
  view_.add("c", 4, 70);
  view_.add("d", 4, 70);
  const auto problem_of = [&](const std::string& grants) { return problem("{\"grants\":[" + grants + "]}"); };
  const std::string c = R"({"job":"c","type":"v100","gpus":4,"beside":)";
  EXPECT_THAT(problem_of(c + "1}"), StartsWith("grants[0] names no job: \"beside\" is to be a text"));
  EXPECT_THAT(problem_of(c + R"("z"})"), StartsWith("grants[0] names \"z\", which is no job that is here"));
  EXPECT_THAT(problem_of(c + R"("c"})"), HasSubstr("puts job \"c\" beside itself"));
  EXPECT_THAT(problem_of(c + R"("b","hosts":[{"host":0,"gpus":4}]})"), HasSubstr("\"hosts\" and \"beside\""));
  EXPECT_THAT(problem_of(c + R"("d"})"), StartsWith("job \"c\" beside \"d\", which has no GPUs"));
  EXPECT_THAT(problem_of(c + R"("b"},{"job":"b","gpus":0})"), HasSubstr("which has no GPUs"));
  EXPECT_THAT(problem_of(R"({"job":"a","type":"v100","gpus":2,"beside":"b"})"),
              HasSubstr("2 GPUs of v100, the other has 4 of v100"));
  EXPECT_THAT(problem_of(R"({"job":"c","type":"k80","gpus":4,"beside":"b"})"), HasSubstr("4 GPUs of k80, the other"));
  EXPECT_THAT(problem_of(c + R"("d"},{"job":"d","type":"v100","gpus":4,"beside":"b"})"),
              HasSubstr("which is itself beside another"));
  EXPECT_THAT(problem_of(c + R"("b"},{"job":"d","type":"v100","gpus":4,"beside":"b"})"),
              HasSubstr("shares its GPUs already"));
  EXPECT_THAT(problem(R"({"grants":[{"job":"c","gpus":0,"beside":"b"}]})"), HasSubstr("has 0 GPUs"));
  view_.set_share(0);
  EXPECT_THAT(problem_of(c + R"("b"})"), HasSubstr("these two cannot share 4 GPUs of v100 (throughputs: on paper)"));
}

TEST_F(Answer, ProgramsMayAskForRates) {
  view_.set_share(0.5);
  EXPECT_EQ(reply(R"({"ask":"rates","of":[{"job":"a","type":"k80","gpus":3},{"job":"a","hosts":[{"host":0,"gpus":1},
                     {"host":1,"gpus":1}]},{"job":"a","beside":"b","type":"v100","gpus":2},
                     {"job":"b","beside":"a","type":"v100","gpus":2}]})"),
            Json::parse(R"({"rates":[3.0,2.0,[2.0,1.0],[1.0,2.0]]})"));
  EXPECT_EQ(reply(R"({"ask":"change_costs","of":[{"job":"a","gpus":4}]})"), Json::parse(R"({"change_costs":[40.0]})"));
  EXPECT_EQ(reply(R"({"ask":"rates","of":[]})"), Json::parse(R"({"rates":[]})"));
}

TEST_F(Answer, ItsQuestionsAreChecked) {
  EXPECT_THAT(problem(R"({"ask":"prices","of":[]})"), StartsWith("\"ask\" is neither \"rates\" nor \"change_costs\""));
  EXPECT_THAT(problem(R"({"ask":"rates"})"), HasSubstr("\"of\" is no list"));
  EXPECT_THAT(problem(R"({"ask":"rates","of":[],"grants":[]})"), HasSubstr("a field \"grants\""));
  const auto of = [&](const std::string& one) { return problem(R"({"ask":"rates","of":[)" + one + "]}"); };
  EXPECT_THAT(of("1"), StartsWith("of[0] is no object"));
  EXPECT_THAT(of(R"({"job":"x"})"), HasSubstr("no job that is here"));
  EXPECT_THAT(of(R"({"job":"a"})"), HasSubstr("no whole number \"gpus\""));
  EXPECT_THAT(of(R"({"job":"a","gpus":1})"), HasSubstr("\"type\" is none of v100, k80"));
  EXPECT_THAT(of(R"({"job":"a","gpus":9,"type":"v100"})"), HasSubstr("9 GPUs of type v100, the cluster has 8"));
  EXPECT_THAT(of(R"({"job":"a","beside":"a","gpus":2,"type":"v100"})"), HasSubstr("a job beside itself"));
  EXPECT_THAT(of(R"({"job":"a","hosts":[{"host":0,"gpus":1}],"gpus":1})"), HasSubstr("say type and GPUs of one job"));
  EXPECT_THAT(of(R"({"job":"a","hosts":[{"host":0,"gpus":1},{"host":2,"gpus":1}]})"),
              HasSubstr("host 2 is none of type v100"));
  EXPECT_THAT(problem(R"({"ask":"change_costs","of":[{"job":"a","gpus":17}]})"), HasSubstr("the cluster has 16"));
}

}  // namespace
}  // namespace scalai::policy
