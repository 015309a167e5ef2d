#include "apps/parallelize/parallelize_storage.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::apps {

void read_storage(const Arguments& arguments, Problems& problems, ParallelizeRequest& request) {
  if (!arguments.flag("storage")) {
    if (arguments.has("storage-read")) problems.malformed("--storage-read is the rate of --storage: give both");
    return;
  }
  if (!arguments.has("from")) return problems.malformed("--storage speaks of state that the job has lost: give --from");
  if (request.from) request.from->residency.storage = true;
  double& known = request.cluster.storage_read_bytes_per_s;
  if (arguments.has("storage-read")) {
    const auto rate = parse_bandwidth(arguments.text("storage-read"));
    if (!rate.ok()) return problems.malformed("--storage-read: " + message_of(rate.status()));
    if (*rate <= 0) return problems.malformed("--storage-read: at a bandwidth of 0 a checkpoint is never read");
    known = *rate;
  } else if (!arguments.has("cluster")) {
    problems.malformed("--storage needs --storage-read: how fast the checkpoint is read, as in 10GB/s");
  } else if (!request.uniform && known <= 0) {
    problems.misfit(
        "--storage: the cluster has no storage; add storage { read: \"10GB/s\" } to it, or give --storage-read");
  }
}

}  // namespace scalai::apps
