#pragma once
// --software, and the options that override what it says. One thread.

#include "apps/parallelize/parallelize_request.h"

namespace scalai::apps {

// Reads them into request.space.base, and what was given into request. Precision is read before, and model and machines
// where they are known. A problem: no such software.
void read_software(const Arguments& arguments, Problems& problems, ParallelizeRequest& request);

}  // namespace scalai::apps
