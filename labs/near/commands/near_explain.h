#pragma once
// What `scalai near --explain` prints.

#include <string>

#include "labs/near/gather.h"
#include "labs/near/placement.h"

namespace scalai::apps {

void explain_near(const near::Question& question, const near::Placement& placement, const std::string& format);

}  // namespace scalai::apps
