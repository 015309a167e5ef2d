#pragma once
// A policy's decision as a text without commas, for the log of events, and a policy that gives such decisions again.
//
//   0=8@0   1=4@0:h2*2+h3*2   2=8@0&1   !3   wake=360
//
// job=GPUs@type, where it names hosts those, `&` the job beside which; `!` a job that is refused; when to ask again.

#include <deque>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/sched/policy.h"

namespace scalai::control {

std::string decision_text(const sched::Decision& decision);
// Error: InvalidArgument with the word that is none of these.
absl::StatusOr<sched::Decision> parse_decision(const std::string& text);

// Answers what the log says that it was answered, in order.
class RecordedPolicy final : public sched::Policy {
 public:
  void add(sched::Decision decision) { answers_.push_back(std::move(decision)); }
  bool empty() const { return answers_.empty(); }

  sched::PolicyTraits traits() const override { return {}; }
  // Error: the log has no answer left.
  absl::StatusOr<sched::Decision> decide(const sched::View& view, std::span<const sched::Event> events) override;

 private:
  std::deque<sched::Decision> answers_;
};

}  // namespace scalai::control
