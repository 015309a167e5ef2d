#pragma once
// A policy's decision as a text without commas, for the log of events, and a policy that gives such decisions again.
//
//   0=8@0   1=4@0:h2*2+h3*2   2=8@0&1   !3   wake=360
//
// job=GPUs@type, where it names hosts those, `&` the job beside which; `!` a job that is refused; when to ask again.

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/run/control/events.h"
#include "ptc/run/policy/policy.h"

namespace scalai::control {

std::string decision_text(const policy::Decision& decision);
// Error: InvalidArgument with the word that is none of these.
absl::StatusOr<policy::Decision> parse_decision(const std::string& text);

// Answers what the log says that it was answered, in order; then what the program answers, if there is one, and adds
// that to the log first. So a program is asked once about each moment, however often the run is gone on with.
class RecordedPolicy final : public policy::Policy {
 public:
  using Record = std::function<absl::Status(const Event&)>;
  // `program` may be null, and outlives this. `record` may be empty.
  explicit RecordedPolicy(policy::Policy* program = nullptr, Record record = {})
      : program_(program), record_(std::move(record)) {}

  // Takes over the decisions among these events of `file`. Error: the event whose text is none.
  absl::Status learn(const std::vector<Event>& events, const std::string& file);

  policy::PolicyTraits traits() const override {
    return program_ != nullptr ? program_->traits() : policy::PolicyTraits();
  }
  absl::Status begin(const policy::View& view) override {
    return program_ != nullptr ? program_->begin(view) : absl::OkStatus();
  }
  // Errors: the log has no answer left, and there is no program; those of the program, and of `record`.
  absl::StatusOr<policy::Decision> decide(const policy::View& view, std::span<const policy::Event> events) override;
  std::string remarks() const override { return program_ != nullptr ? program_->remarks() : ""; }

 private:
  policy::Policy* const program_;
  const Record record_;
  std::deque<policy::Decision> answers_;
};

}  // namespace scalai::control
