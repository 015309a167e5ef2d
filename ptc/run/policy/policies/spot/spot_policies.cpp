#include <utility>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/spot/deadline.h"
#include "ptc/run/policy/policies/spot/price_chaser.h"

namespace scalai::policy {
namespace {

using spot::DeadlineRule;

template <DeadlineRule kRule>
std::unique_ptr<Policy> make_deadline(const Parameters& parameters, uint64_t /*seed*/) {
  const std::string& type = parameters.text("on-demand");
  return spot::make_deadline_policy(kRule, type == "dearest" ? "" : type);
}

std::unique_ptr<Policy> make_chaser(const Parameters& parameters, uint64_t /*seed*/) {
  return spot::make_price_chaser({.state_gb = parameters.number("state-gb"),
                                  .egress_usd_per_gb = parameters.number("egress"),
                                  .expected_stay_s = parameters.seconds("stay"),
                                  .moves_per_day = parameters.number("moves-per-day")});
}

template <DeadlineRule kRule>
PolicyInfo deadline_info(const std::string& name, const std::string& summary) {
  return {.name = name,
          .family = "spot",
          .summary = summary,
          .source = "Can't Be Late, NSDI'24",
          .parameters = {{"on-demand", "dearest", "name", "GPU type that is always there; dearest = by price"}},
          .traits = spot::make_deadline_policy(kRule, "")->traits(),
          .make = make_deadline<kRule>};
}

}  // namespace

std::vector<PolicyInfo> spot_policies() {
  std::vector<PolicyInfo> list;
  list.push_back(
      deadline_info<DeadlineRule::kOnDemandOnly>("on-demand-only", "on-demand GPUs, first come first served"));
  list.push_back(deadline_info<DeadlineRule::kSpotOnly>("spot-only", "the cheapest spot GPUs, waiting without"));
  list.push_back(deadline_info<DeadlineRule::kGreedy>(
      "greedy-spot", "spot where there is any; on demand when only that keeps the deadline"));
  list.push_back(deadline_info<DeadlineRule::kUniformProgress>(
      "uniform-progress",
      "spot where there is any, on demand when progress falls behind an even pace to the deadline"));
  list.push_back({.name = "price-chaser",
                  .family = "spot",
                  .summary = "moves to the GPUs of least dollars per work when that saves more than it costs",
                  .source = "Dynamic Pricing in the Public Cloud, DISPA'20",
                  .parameters = {{"state-gb", "0", "number", "state that a move takes along, GB"},
                                 {"egress", "0", "number", "US dollars per GB of it"},
                                 {"stay", "24h", "time", "expected stay after a move"},
                                 {"moves-per-day", "1", "number", "cap on moves for the price, a job; 0 = none"}},
                  .traits = spot::make_price_chaser({})->traits(),
                  .make = make_chaser});
  return list;
}

}  // namespace scalai::policy
