#include "ptc/run/policy/policies/external/external.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <variant>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/run/policy/answer_log.h"
#include "ptc/run/policy/policies/external/answer.h"
#include "ptc/run/policy/policies/external/known.h"
#include "ptc/run/policy/policies/external/process.h"
#include "ptc/run/policy/policies/external/protocol.h"

namespace scalai::policy {
namespace {

constexpr int kMostLines = 10000;  // a program that only asks would hang the run

class ExternalPolicy final : public Policy {
 public:
  explicit ExternalPolicy(ExternalProgram program) : program_(std::move(program)) {}

  // What it may do, since nobody knows what it does.
  PolicyTraits traits() const override { return {.preemptive = true, .elastic = true, .heterogeneous = true}; }

  bool keep_answers(AnswerLog* log) override {
    log_ = log;
    return true;
  }

  absl::Status begin(const View& view) override {
    hello_ = hello_line(view, program_.seed);
    auto greeted = log_ == nullptr ? start() : log_->answer(hello_, [this] { return start(); });
    if (!greeted.ok()) return about(greeted.status(), "was greeted");
    const absl::StatusOr<Greeting> greeting = check_hello(*greeted);
    if (!greeting.ok()) return about(greeting.status(), "was greeted");
    greeting_ = *greeting;
    hello_answer_ = *std::move(greeted);
    if (log_ == nullptr || !greeting_.delta) return absl::OkStatus();
    if (greeting_.past) return restart();
    return invalid(
        fmt::format("policy program \"{}\" keeps state (\"delta\"), and does not read its past (\"past\"): its run "
                    "cannot go on from a snapshot\n  hint: docs/policy-protocol.md says how it can",
                    program_.command));
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    SCALAI_CHECK(!hello_.empty(), "begin() was not called");
    const News news = known_.update(view, events);
    std::string line = decide_line({.view = view, .events = events, .greeting = greeting_}, news, known_);
    ++answers_;
    auto decision = log_ == nullptr ? ask(view, std::move(line), nullptr) : recall_or_ask(view, line);
    if (!decision.ok()) return about(decision.status(), fmt::format("was asked at {} s", view.now_s()));
    known_.decided(*decision);
    return decision;
  }

  std::string remarks() const override { return fmt::format("{} answers of \"{}\"", answers_, program_.command); }

 private:
  // Its answer to the greeting.
  absl::StatusOr<std::string> start() {
    SCALAI_ASSIGN_OR_RETURN(process_, LineProcess::start(program_.command, program_.folder, "policy: "));
    return process_->ask(hello_, program_.timeout_s);
  }

  // Of a run that goes on: the program was greeted in its past.
  absl::Status restart() {
    if (process_ != nullptr) return absl::OkStatus();
    const auto greeted = start();
    if (!greeted.ok()) return about(greeted.status(), "was greeted");
    if (*greeted == hello_answer_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        fmt::format("policy program \"{}\" greets otherwise than before: {}", program_.command, *greeted));
  }

  // Answers its own questions, until it decides. `texts`: takes its lines, if set.
  absl::StatusOr<Decision> ask(const View& view, std::string line, std::vector<std::string>* texts) {
    for (int lines = 0; lines < kMostLines; ++lines) {
      SCALAI_ASSIGN_OR_RETURN(std::string text, process_->ask(line, program_.timeout_s));
      SCALAI_ASSIGN_OR_RETURN(auto answer, read_answer(text, view, known_));
      if (texts != nullptr) texts->push_back(std::move(text));
      if (auto* decision = std::get_if<Decision>(&answer)) return std::move(*decision);
      line = std::move(std::get<Reply>(answer).line);
    }
    return failed(fmt::format("it asked {} times and did not decide", kMostLines));
  }

  // A decision with all lines that led to it is one answer of the log.
  absl::StatusOr<Decision> recall_or_ask(const View& view, const std::string& line) {
    std::optional<Decision> decided;
    SCALAI_ASSIGN_OR_RETURN(const std::string text, log_->answer(line, [&]() -> absl::StatusOr<std::string> {
      SCALAI_RETURN_IF_ERROR(restart());
      std::vector<std::string> texts;
      SCALAI_ASSIGN_OR_RETURN(decided, ask(view, line, &texts));
      return fmt::format("{}", fmt::join(texts, "\n"));
    }));
    if (decided) return *std::move(decided);
    const std::string last = text.substr(text.rfind('\n') + 1);  // npos + 1 = 0
    SCALAI_ASSIGN_OR_RETURN(auto answer, read_answer(last, view, known_));
    auto* decision = std::get_if<Decision>(&answer);
    if (decision == nullptr) return failed("the snapshot's answer is no decision");
    if (greeting_.past) SCALAI_RETURN_IF_ERROR(tell(line, last));
    return std::move(*decision);
  }

  // What it answered before the run went on from a snapshot.
  absl::Status tell(const std::string& line, const std::string& answer) {
    SCALAI_CHECK(line.ends_with('}'));
    const std::string past = fmt::format("{},\"answered\":{}}}", line.substr(0, line.size() - 1), answer);
    return process_->ask(past, program_.timeout_s).status();
  }

  absl::Status about(const absl::Status& status, const std::string& when) const {
    return failed(fmt::format("policy program \"{}\" {}: {}", program_.command, when, message_of(status)));
  }

  ExternalProgram program_;
  std::unique_ptr<LineProcess> process_;
  AnswerLog* log_ = nullptr;
  std::string hello_, hello_answer_;
  Greeting greeting_;
  Known known_;
  int64_t answers_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_external_policy(ExternalProgram program) {
  return std::make_unique<ExternalPolicy>(std::move(program));
}

}  // namespace scalai::policy
