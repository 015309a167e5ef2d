#include <iterator>
#include <utility>

#include "ptc/run/policy/policies/order/by_length.h"
#include "ptc/run/policy/policies/order/intervals.h"
#include "ptc/run/policy/policies/order/marginal.h"
#include "ptc/run/policy/policies/order/priority.h"
#include "ptc/run/policy/policies/order/tiresias.h"

namespace scalai::policy {

std::vector<PolicyInfo> order_policies() {
  std::vector<PolicyInfo> list;
  for (auto group :
       {&order::length_policies, &order::priority_policies, &order::attained_policies, &order::marginal_policies}) {
    std::vector<PolicyInfo> part = group();
    std::move(part.begin(), part.end(), std::back_inserter(list));
  }
  return with_interval(std::move(list));
}

}  // namespace scalai::policy
