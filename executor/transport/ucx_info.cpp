#include "executor/transport/ucx_info.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "executor/transport/internal/ucx_worker.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport {
namespace {

std::string running_version() {
  unsigned major = 0, minor = 0, patch = 0;
  ucp_get_version(&major, &minor, &patch);
  return fmt::format("{}.{}.{}", major, minor, patch);
}

void add_devices(uct_md_h domain, std::vector<UcxDevice>& devices) {
  uct_tl_resource_desc_t* found = nullptr;
  unsigned count = 0;
  if (uct_md_query_tl_resources(domain, &found, &count) != UCS_OK) return;
  for (unsigned i = 0; i < count; ++i) {
    if (found[i].dev_type == UCT_DEVICE_TYPE_SELF) continue;
    devices.push_back({.transport = found[i].tl_name,
                       .device = found[i].dev_name,
                       .network = found[i].dev_type == UCT_DEVICE_TYPE_NET});
  }
  uct_release_tl_resource_list(found);
}

// A domain that does not open (a card without permission) has no devices for a worker either.
void add_domain(uct_component_h component, const char* name, std::vector<UcxDevice>& devices) {
  uct_md_config_t* config = nullptr;
  if (uct_md_config_read(component, nullptr, nullptr, &config) != UCS_OK) return;
  uct_md_h domain = nullptr;
  if (uct_md_open(component, name, config, &domain) == UCS_OK) {
    add_devices(domain, devices);
    uct_md_close(domain);
  }
  uct_config_release(config);
}

void add_component(uct_component_h component, std::vector<UcxDevice>& devices) {
  uct_component_attr_t attributes{};
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT;
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  std::vector<uct_md_resource_desc_t> domains(attributes.md_resource_count);
  attributes.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
  attributes.md_resources = domains.data();
  if (uct_component_query(component, &attributes) != UCS_OK) return;
  for (const uct_md_resource_desc_t& domain : domains) add_domain(component, domain.md_name, devices);
}

std::vector<UcxDevice> all_devices() {
  std::vector<UcxDevice> devices;
  uct_component_h* components = nullptr;
  unsigned count = 0;
  if (uct_query_components(&components, &count) != UCS_OK) return devices;
  for (unsigned i = 0; i < count; ++i) add_component(components[i], devices);
  uct_release_component_list(components);
  std::sort(devices.begin(), devices.end(), [](const UcxDevice& a, const UcxDevice& b) {
    return std::tie(a.transport, a.device) < std::tie(b.transport, b.device);
  });
  return devices;
}

}  // namespace

absl::StatusOr<UcxInfo> ucx_info() {
  // As a run makes it; this also keeps what UCX logs away from standard output.
  SCALAI_RETURN_IF_ERROR(internal::UcxWorker::create({}).status());
  return UcxInfo{.version = running_version(), .devices = all_devices()};
}

std::string ucx_devices_on(const std::string& interface, bool loopback) {
  if (loopback) return interface;
  std::set<std::string> devices = {interface};
  for (const UcxDevice& one : all_devices()) {
    if (one.network && one.transport != "tcp") devices.insert(one.device);
  }
  return fmt::format("{}", fmt::join(devices, ","));
}

}  // namespace scalai::executor::transport
