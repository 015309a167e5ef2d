#include <iterator>
#include <utility>

#include "ptc/run/policy/policies/order/by_length.h"
#include "ptc/run/policy/policies/order/intervals.h"
#include "ptc/run/policy/policies/order/marginal.h"
#include "ptc/run/policy/policies/order/themis.h"
#include "ptc/run/policy/policies/order/tiresias.h"

namespace scalai::policy {

std::vector<PolicyInfo> order_policies() {
  std::vector<PolicyInfo> list;
  for (auto group :
       {&order::length_policies, &order::attained_policies, &order::themis_policies, &order::marginal_policies}) {
    std::vector<PolicyInfo> part = group();
    std::move(part.begin(), part.end(), std::back_inserter(list));
  }
  for (PolicyInfo& info : list) {
    info.parameters.push_back(
        {.name = "interval",
         .default_value = "0s",
         .unit = "time",
         .help = "decides at its multiples only, as simulators of fixed steps; 0 = at each event"});
    info.make = [make = std::move(info.make)](const Parameters& parameters, uint64_t seed) {
      const double interval_s = parameters.seconds("interval");
      std::unique_ptr<Policy> policy = make(parameters, seed);
      return interval_s > 0 ? at_intervals(std::move(policy), interval_s) : std::move(policy);
    };
  }
  return list;
}

}  // namespace scalai::policy
