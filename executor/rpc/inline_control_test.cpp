#include "executor/rpc/inline_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "ptc/base/status.h"

namespace scalai::executor::rpc {
namespace {

using ::testing::HasSubstr;

// Three workers that write down what they run.
class Inline : public ::testing::Test {
 protected:
  std::unique_ptr<InlineControl> make(uint64_t seed) {
    auto control = std::make_unique<InlineControl>(ControllerOptions{.hosts = 3}, seed);
    ran_.clear();
    for (int32_t host = 0; host < 3; ++host) {
      const absl::Status status = control->join(host, [this, host](const Command& command) {
        ran_.push_back(std::to_string(host) + command.what);
        return Reply{.body = command.what, .last = command.what == "exit"};
      });
      EXPECT_TRUE(status.ok()) << status;
    }
    return control;
  }
  static std::vector<Call> to_all(const std::string& what) {
    return {{0, {.what = what}}, {1, {.what = what}}, {2, {.what = what}}};
  }

  std::vector<std::string> ran_;
};

TEST_F(Inline, TheSeedDecidesTheOrderAndNothingElse) {
  std::set<std::vector<std::string>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto run = [&] {
      const auto control = make(seed);
      EXPECT_TRUE(first_error(control->controller().call_all(to_all("a"), 10)).ok());
      return ran_;
    };
    const std::vector<std::string> once = run();
    EXPECT_EQ(once, run());
    EXPECT_EQ(once.size(), 3u);
    orders.insert(once);
  }
  EXPECT_GT(orders.size(), 1u);
}

TEST_F(Inline, ADeathIsALossBeforeOrAfterTheCommand) {
  for (const Fault fault : {Fault::kDieBefore, Fault::kDieAfter}) {
    const auto control = make(1);
    control->set_fault([&](int32_t host, const Command&) { return host == 1 ? fault : Fault::kNone; });
    const auto outcomes = control->controller().call_all(to_all("a"), 10);
    EXPECT_TRUE(absl::IsUnavailable(outcomes[1].status()));
    EXPECT_THAT(message_of(first_error(outcomes)), HasSubstr("scripted fault"));
    EXPECT_EQ(std::count(ran_.begin(), ran_.end(), "1a"), fault == Fault::kDieAfter ? 1 : 0);
    EXPECT_EQ(control->controller().workers().size(), 2u);
  }
}

TEST_F(Inline, AHangCostsVirtualTimeOnly) {
  const auto control = make(1);
  control->set_fault([](int32_t host, const Command&) { return host == 2 ? Fault::kHang : Fault::kNone; });
  const auto outcomes = control->controller().call_all(to_all("a"), 3600);
  EXPECT_TRUE(outcomes[0].ok() && outcomes[1].ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(outcomes[2].status()));
  EXPECT_DOUBLE_EQ(control->time_s(), 3600);
}

TEST_F(Inline, EventsComeWithoutThreads) {
  const auto control = make(1);
  ControllerEnd& controller = control->controller();
  for (int32_t host = 0; host < 3; ++host) {
    const std::optional<Event> event = controller.next_event(0);
    ASSERT_TRUE(event.has_value() && std::holds_alternative<WorkerJoined>(*event));
    EXPECT_EQ(std::get<WorkerJoined>(*event).host, host);
  }
  const int64_t id = controller.send(2, {.what = "b"}, 10);
  const std::optional<Event> event = controller.next_event(10);
  ASSERT_TRUE(event.has_value() && std::holds_alternative<CommandDone>(*event));
  EXPECT_EQ(std::get<CommandDone>(*event).id, id);
  EXPECT_FALSE(controller.next_event(5).has_value());
  EXPECT_DOUBLE_EQ(control->time_s(), 5);
}

TEST_F(Inline, WorkersLeaveByALastReplyOrDismissed) {
  const auto control = make(1);
  EXPECT_TRUE(first_error(control->controller().call_all({{0, {.what = "exit"}}}, 10)).ok());
  EXPECT_EQ(control->controller().workers().size(), 2u);
  control->controller().dismiss("over", 10);
  EXPECT_TRUE(control->controller().workers().empty());
  EXPECT_DOUBLE_EQ(control->time_s(), 0);
}

TEST_F(Inline, ALostHostMayJoinAgain) {
  const auto control = make(1);
  control->controller().cut(1, "cut");
  EXPECT_FALSE(control->join(0, nullptr).ok()) << "host 0 is there";
  EXPECT_TRUE(control->join(1, [](const Command&) { return Reply{.body = "new"}; }).ok());
  const auto outcomes = control->controller().call_all({{1, {.what = "a"}}}, 10);
  ASSERT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[0]->body, "new");
}

}  // namespace
}  // namespace scalai::executor::rpc
