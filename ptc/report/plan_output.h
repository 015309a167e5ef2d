#pragma once
// A plan as a short table, JSON or CSV, for `scalai plan` and the Python package. Pure functions.

#include <optional>
#include <string>

#include "ptc/base/screen.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/metrics.h"
#include "ptc/plan/paging.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/plan.h"

namespace scalai::report {

// What a memory cap costs, beside the same change without it.
struct CapFacts {
  plan::PagingBound whole_boxes;  // if boxes were not cut
  plan::ClassBytes uncapped;      // what the plan without a cap moves
};

// Facts about a plan beyond its content. A plan read from a file has none of them.
struct PlanFacts {
  std::string model;
  std::optional<double> planning_s;
  bool with_links = false;  // hottest_link was searched for
  std::optional<plan::HottestLink> hottest_link;
  std::string spread_domain;  // "host", "rack", or "": `spread` does not count
  plan::Placement::Spread spread;
  std::optional<plan::InterpreterReport> check;
  std::optional<double> estimated_s;  // set if rates are known
  std::optional<CapFacts> cap;        // set if the plan was made under a memory cap
};

struct Shown {
  std::string format;   // "table", "json", "csv"
  std::string explain;  // a tensor's name, or "": the whole plan
  Screen screen = {};   // of tables
};

// The whole plan, or the sources of the pieces of one tensor. JSON has both.
std::string plan_text(const plan::Plan& plan, const PlanFacts& facts, const Shown& shown);

std::string program_text(const plan::Plan& plan, DeviceId device, const Shown& shown);

// The differences of the second plan from the first; empty lists if they are equal.
std::string difference_text(const plan::Plan& a, const plan::Plan& b, const Shown& shown);

// The state without a holder as one error, with at most twenty boxes.
std::string infeasible_text(const plan::Plan& plan);

}  // namespace scalai::report
