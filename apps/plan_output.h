#pragma once
// How `scalai plan` shows a plan: as a table that is read in ten seconds, JSON or CSV.

#include <optional>
#include <string>

#include "ptc/plan/interpreter.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/plan.h"

namespace scalai::apps {

// What is known of a plan besides itself. A plan that was read from a file has none of it.
struct PlanFacts {
  std::string model;
  std::optional<double> planning_s;
  bool with_links = false;  // the next one was looked for
  std::optional<plan::HottestLink> hottest_link;
  std::string spread_domain;  // "host", "rack", or "": the next one does not count
  plan::Placement::Spread spread;
  std::optional<plan::InterpreterReport> check;
  std::optional<double> estimated_s;  // rates are known
};

struct Shown {
  std::string format;   // "table", "json", "csv"
  std::string explain;  // tensor, or "": the whole plan
};

// The whole plan, or where each piece of one tensor comes from. JSON has both.
std::string plan_text(const plan::Plan& plan, const PlanFacts& facts, const Shown& shown);

// One device's program.
std::string program_text(const plan::Plan& plan, DeviceId device, const std::string& format);

// What the second plan says otherwise than the first; lists without rows when they are equal.
std::string difference_text(const plan::Plan& a, const plan::Plan& b, const std::string& format);

// The state that nobody holds as one error, which lists at most twenty boxes.
std::string infeasible_text(const plan::Plan& plan);

}  // namespace scalai::apps
