#pragma once
// `scalai parallelize --planner=pipedream-2bw`: widths and depths by that planner's equations.

#include <string>

#include "apps/parallelize/parallelize_request.h"

namespace scalai::apps {

int two_bw(const ParallelizeRequest& request, const std::string& format);

}  // namespace scalai::apps
