#include "ptc/plan/internal/check_input.h"

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "ptc/plan/internal/difference.h"

namespace scalai::plan::internal {
namespace {

// A change of type that the state survives: between floating types, whatever their size.
bool may_change(tensor::DType from, tensor::DType to) { return from == to || (is_floating(from) && is_floating(to)); }

}  // namespace

absl::Status check_input(const PlannerInput& input) {
  const bool from_devices = input.options.in_place && input.options.sources != SourceRule::kStorage;
  if (input.options.memory_cap >= 0 && !from_devices)
    return invalid(fmt::format("a memory cap needs a plan that works in place, which {} does not", input.options.name));
  const auto& from = input.from.tensors;
  const auto& to = input.to.tensors;
  if (from.size() != to.size()) {
    return invalid(fmt::format("the old collection has {} tensors, the new one {}", from.size(), to.size()));
  }
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i].name != to[i].name) {
      return invalid(fmt::format("tensor {} is \"{}\" in the old collection and \"{}\" in the new one", i, from[i].name,
                                 to[i].name));
    }
    if (from[i].shape != to[i].shape || !may_change(from[i].dtype, to[i].dtype)) {
      return invalid(fmt::format("tensor \"{}\" is {} {} in the old collection and {} {} in the new one", from[i].name,
                                 name_of(from[i].dtype), from[i].shape.str(), name_of(to[i].dtype), to[i].shape.str()));
    }
  }
  for (const collection::Collection* side : {&input.from, &input.to}) {
    for (const DeviceId device : side->device_of_rank) {
      if (device.value >= 0 && device.value < input.cluster.device_count()) continue;
      return invalid(
          fmt::format("device {} is not one of the cluster's {}", device.value, input.cluster.device_count()));
    }
  }
  for (const collection::ExtraHolder& extra : input.residency.extra) {
    const auto hosts = std::ssize(input.cluster.hosts);
    if (extra.host.value >= 0 && extra.host.value < hosts) continue;
    return invalid(fmt::format("tensor {} {} has a copy on host {}, which is not one of the cluster's {}",
                               extra.tensor.value, extra.box.str(), extra.host.value, hosts));
  }
  return absl::OkStatus();
}

}  // namespace scalai::plan::internal
