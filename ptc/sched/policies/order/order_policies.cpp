#include <iterator>

#include "ptc/sched/policies/order/by_length.h"
#include "ptc/sched/policies/order/marginal.h"
#include "ptc/sched/policies/order/themis.h"
#include "ptc/sched/policies/order/tiresias.h"

namespace scalai::sched {

std::vector<PolicyInfo> order_policies() {
  std::vector<PolicyInfo> list;
  for (auto group :
       {&order::length_policies, &order::attained_policies, &order::themis_policies, &order::marginal_policies}) {
    std::vector<PolicyInfo> part = group();
    std::move(part.begin(), part.end(), std::back_inserter(list));
  }
  return list;
}

}  // namespace scalai::sched
