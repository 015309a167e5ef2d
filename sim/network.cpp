#include "sim/network.h"

#include <cmath>
#include <set>

#include <fmt/format.h>

#include "ptc/base/status.h"
#include "sim/maxmin.h"
#include "sim/simgrid_backend.h"

namespace scalai::sim {
namespace {

absl::Status check_links(const NetworkSpec& spec) {
  std::set<std::string> names;
  for (const LinkSpec& link : spec.links) {
    if (!names.insert(link.name).second) return invalid(fmt::format("two links are named '{}'", link.name));
    if (!(link.bandwidth_bytes_per_s > 0) || !std::isfinite(link.bandwidth_bytes_per_s)) {
      return invalid(fmt::format("link '{}' has a bandwidth of {} bytes/s; give a positive number", link.name,
                                 link.bandwidth_bytes_per_s));
    }
  }
  return absl::OkStatus();
}

absl::Status check_route(const NetworkSpec& spec, const EndpointSpec& endpoint, const std::vector<int>& route) {
  for (int link : route) {
    if (link >= 0 && link < static_cast<int>(spec.links.size())) continue;
    return invalid(
        fmt::format("endpoint '{}' uses link {}, but there are {} links", endpoint.name, link, spec.links.size()));
  }
  return absl::OkStatus();
}

absl::Status check_endpoints(const NetworkSpec& spec) {
  std::set<std::string> names;
  for (const EndpointSpec& endpoint : spec.endpoints) {
    if (!names.insert(endpoint.name).second) {
      return invalid(fmt::format("two endpoints are named '{}'", endpoint.name));
    }
    SCALAI_RETURN_IF_ERROR(check_route(spec, endpoint, endpoint.up));
    SCALAI_RETURN_IF_ERROR(check_route(spec, endpoint, endpoint.down));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status with_backend(BackendKind kind, const NetworkSpec& spec, const std::function<void(NetworkBackend&)>& body) {
  SCALAI_RETURN_IF_ERROR(check_links(spec));
  SCALAI_RETURN_IF_ERROR(check_endpoints(spec));
  if (kind == BackendKind::kSimGrid) return with_simgrid(spec, body);
  MaxMinBackend backend(spec);
  body(backend);
  return absl::OkStatus();
}

}  // namespace scalai::sim
