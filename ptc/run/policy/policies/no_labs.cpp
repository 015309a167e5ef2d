// In place of labs/policies in a build without labs (SCALAI_LABS=OFF).
#include "ptc/run/policy/policies/catalogue.h"

namespace scalai::policy {

std::vector<PolicyInfo> lab_policies() { return {}; }

}  // namespace scalai::policy
