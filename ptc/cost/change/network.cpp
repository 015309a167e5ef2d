#include "ptc/cost/change/network.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "ptc/base/status.h"

namespace scalai::change {
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

absl::Status check_weights(const EndpointSpec& endpoint) {
  if (endpoint.up_weights.empty()) return absl::OkStatus();
  const bool positive =
      std::all_of(endpoint.up_weights.begin(), endpoint.up_weights.end(), [](int64_t weight) { return weight > 0; });
  if (positive && endpoint.up_weights.size() == endpoint.up.size()) return absl::OkStatus();
  return invalid(
      fmt::format("endpoint '{}' has {} links up; give each a positive weight", endpoint.name, endpoint.up.size()));
}

absl::Status check_endpoints(const NetworkSpec& spec) {
  std::set<std::string> names;
  for (const EndpointSpec& endpoint : spec.endpoints) {
    if (!names.insert(endpoint.name).second) {
      return invalid(fmt::format("two endpoints are named '{}'", endpoint.name));
    }
    SCALAI_RETURN_IF_ERROR(check_route(spec, endpoint, endpoint.up));
    SCALAI_RETURN_IF_ERROR(check_route(spec, endpoint, endpoint.down));
    SCALAI_RETURN_IF_ERROR(check_weights(endpoint));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<LinkRate> NetworkBackend::changed_link_rates() {
  const std::vector<double> rates = link_rates();
  told_rates_.resize(rates.size(), 0);
  std::vector<LinkRate> changed;
  for (size_t link = 0; link < rates.size(); ++link) {
    if (rates[link] != told_rates_[link])
      changed.push_back({.link = static_cast<int>(link), .bytes_per_s = rates[link]});
  }
  told_rates_ = rates;
  return changed;
}

absl::Status check_network(const NetworkSpec& spec) {
  SCALAI_RETURN_IF_ERROR(check_links(spec));
  return check_endpoints(spec);
}

}  // namespace scalai::change
