#include "ptc/run/scenario/job_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/state/collection/megatron.h"

namespace scalai::scenario {

absl::StatusOr<collection::Collection> collection_of(const JobSpec& job, const collection::ParallelConfig& config,
                                                     std::vector<DeviceId> devices) {
  const auto named = std::find_if(job.configs.begin(), job.configs.end(), [&](const ParallelChoice& choice) {
    return choice.collection != nullptr && choice.config == config;
  });
  if (named == job.configs.end()) return megatron_collection(job.model, job.recipe, config, std::move(devices));
  collection::Collection collection = *named->collection;
  if (devices.size() != collection.device_of_rank.size())
    return invalid(
        fmt::format("{} needs {} devices, {} are given", collection.name, collection.ranks(), devices.size()));
  collection.device_of_rank = std::move(devices);
  return collection;
}

int64_t state_bytes(const JobSpec& job) {
  if (job.configs.empty() || job.configs.front().collection == nullptr)
    return model::state_bytes(job.model, job.recipe, /*per_home=*/false);
  int64_t bytes = 0;
  for (const collection::LogicalTensor& tensor : job.configs.front().collection->tensors) bytes += tensor.bytes();
  return bytes;
}

}  // namespace scalai::scenario
