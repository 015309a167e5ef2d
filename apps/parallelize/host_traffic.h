#pragma once
// Registration point of `scalai parallelize --offload`: the host traffic of a step that keeps a part of its memory in
// the host's. labs/bounds finds it; its program has the same command, and answers calls with the option. One thread.

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/base/command.h"
#include "ptc/base/screen.h"
#include "ptc/cost/step/training.h"

namespace scalai::apps {

// To be printed: below the configurations, in place of them, or as a member of them.
class HostTraffic {
 public:
  virtual ~HostTraffic() = default;
  virtual std::string text(const Screen& screen) const = 0;
  virtual std::string csv() const = 0;
  virtual nlohmann::ordered_json json() const = 0;
};

// If so many bytes of state and activations stay on each GPU. InvalidArgument: what cannot be answered.
using FindHostTraffic = absl::StatusOr<std::shared_ptr<const HostTraffic>> (*)(const step::Workload& workload,
                                                                               int64_t device_bytes);

// Finds configurations for a number of GPUs. Without `find` another program has to answer calls with --offload.
Command parallelize_command(FindHostTraffic find = nullptr);

}  // namespace scalai::apps
