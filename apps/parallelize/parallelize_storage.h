#pragma once
// --storage and --storage-read: a checkpoint for state that no living device holds, and how fast it is read. One
// thread.

#include "apps/parallelize/parallelize_request.h"

namespace scalai::apps {

// Reads both into the residency of request.from and into request.cluster. Problems: no --from; no rate, neither as an
// option nor in the cluster file (already read).
void read_storage(const Arguments& arguments, Problems& problems, ParallelizeRequest& request);

}  // namespace scalai::apps
