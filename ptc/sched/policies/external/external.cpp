#include "ptc/sched/policies/external/external.h"

#include <fmt/format.h>

#include <map>

#include "ptc/base/status.h"
#include "ptc/sched/policies/external/process.h"
#include "ptc/sched/policies/external/protocol.h"

namespace scalai::sched {
namespace {

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
    const absl::Status known = check_hello(*answer);
    return known.ok() ? known : about(known, "was greeted");
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    SCALAI_CHECK(process_ != nullptr, "begin() was not called");
    const std::string when = fmt::format("was asked at {} s", view.now_s());
    const auto answer = process_->ask(decide_line(view, events), program_.timeout_s);
    if (!answer.ok()) return about(answer.status(), when);
    ++answers_;
    std::map<std::string, JobId> jobs;
    for (const JobId id : view.active()) jobs.emplace(view.job(id).name, id);
    auto decision = read_decision(*answer, view, jobs);
    if (!decision.ok()) return about(decision.status(), when);
    return decision;
  }

  std::string remarks() const override { return fmt::format("{} answers of \"{}\"", answers_, program_.command); }

 private:
  absl::Status about(const absl::Status& status, const std::string& when) const {
    return failed(fmt::format("policy program \"{}\" {}: {}", program_.command, when, message_of(status)));
  }

  ExternalProgram program_;
  std::unique_ptr<LineProcess> process_;
  int64_t answers_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_external_policy(ExternalProgram program) {
  return std::make_unique<ExternalPolicy>(std::move(program));
}

}  // namespace scalai::sched
