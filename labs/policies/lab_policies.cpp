// The policies of this lab, for the catalogue.
#include <iterator>
#include <utility>

#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/order/afs_p.h"
#include "ptc/run/policy/policies/order/intervals.h"
#include "ptc/run/policy/policies/order/optimus.h"
#include "ptc/run/policy/policies/order/themis.h"
#include "ptc/run/policy/policies/shares/gandiva_allox.h"

std::vector<scalai::policy::PolicyInfo> scalai::policy::lab_policies() {
  std::vector<PolicyInfo> list;
  for (auto group : {&order::themis_policies, &order::optimus_policies, &order::afs_p_policies}) {
    std::vector<PolicyInfo> part = group();
    std::move(part.begin(), part.end(), std::back_inserter(list));
  }
  list = with_interval(std::move(list));
  std::vector<PolicyInfo> shares = gandiva_allox_policies();
  std::move(shares.begin(), shares.end(), std::back_inserter(list));
  return list;
}
