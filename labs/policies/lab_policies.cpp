// The policies of this lab, for the catalogue.
#include <iterator>
#include <utility>

#include "labs/policies/afs_p.h"
#include "labs/policies/gandiva_allox.h"
#include "labs/policies/optimus.h"
#include "labs/policies/themis.h"
#include "ptc/run/policy/policies/catalogue.h"
#include "ptc/run/policy/policies/order/intervals.h"

std::vector<scalai::policy::PolicyInfo> scalai::policy::lab_policies() {
  std::vector<PolicyInfo> list;
  for (auto group : {&labs::themis_policies, &labs::optimus_policies, &labs::afs_p_policies}) {
    std::vector<PolicyInfo> part = group();
    std::move(part.begin(), part.end(), std::back_inserter(list));
  }
  list = with_interval(std::move(list));
  std::vector<PolicyInfo> shares = labs::gandiva_allox_policies();
  std::move(shares.begin(), shares.end(), std::back_inserter(list));
  return list;
}
