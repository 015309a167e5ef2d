#include "ptc/sched/policies/external/external.h"

#include <fmt/format.h>

#include <variant>

#include "ptc/base/status.h"
#include "ptc/sched/policies/external/answer.h"
#include "ptc/sched/policies/external/known.h"
#include "ptc/sched/policies/external/process.h"
#include "ptc/sched/policies/external/protocol.h"

namespace scalai::sched {
namespace {

constexpr int kMostLines = 10000;  // a program that only asks would hang the run

class ExternalPolicy final : public Policy {
 public:
  explicit ExternalPolicy(ExternalProgram program) : program_(std::move(program)) {}

  // What it may do, since nobody knows what it does.
  PolicyTraits traits() const override { return {.preemptive = true, .elastic = true, .heterogeneous = true}; }

  absl::Status begin(const View& view) override {
    auto process = LineProcess::start(program_.command, program_.folder, "policy: ");
    if (!process.ok()) return process.status();
    process_ = std::move(*process);
    const auto answer = process_->ask(hello_line(view, program_.seed), program_.timeout_s);
    if (!answer.ok()) return about(answer.status(), "was greeted");
    const absl::StatusOr<Greeting> greeting = check_hello(*answer);
    if (!greeting.ok()) return about(greeting.status(), "was greeted");
    greeting_ = *greeting;
    return absl::OkStatus();
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    SCALAI_CHECK(process_ != nullptr, "begin() was not called");
    const News news = known_.update(view, events);
    std::string line = decide_line({.view = view, .events = events, .greeting = greeting_}, news, known_);
    ++answers_;
    auto decision = ask(view, std::move(line));
    if (!decision.ok()) return about(decision.status(), fmt::format("was asked at {} s", view.now_s()));
    known_.decided(*decision);
    return decision;
  }

  std::string remarks() const override { return fmt::format("{} answers of \"{}\"", answers_, program_.command); }

 private:
  // Answers its own questions, until it decides.
  absl::StatusOr<Decision> ask(const View& view, std::string line) {
    for (int lines = 0; lines < kMostLines; ++lines) {
      SCALAI_ASSIGN_OR_RETURN(const std::string text, process_->ask(line, program_.timeout_s));
      SCALAI_ASSIGN_OR_RETURN(auto answer, read_answer(text, view, known_));
      if (auto* decision = std::get_if<Decision>(&answer)) return std::move(*decision);
      line = std::move(std::get<Reply>(answer).line);
    }
    return failed(fmt::format("it asked {} times and did not decide", kMostLines));
  }

  absl::Status about(const absl::Status& status, const std::string& when) const {
    return failed(fmt::format("policy program \"{}\" {}: {}", program_.command, when, message_of(status)));
  }

  ExternalProgram program_;
  std::unique_ptr<LineProcess> process_;
  Greeting greeting_;
  Known known_;
  int64_t answers_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_external_policy(ExternalProgram program) {
  return std::make_unique<ExternalPolicy>(std::move(program));
}

}  // namespace scalai::sched
