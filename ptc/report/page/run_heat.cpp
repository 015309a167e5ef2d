// Heat over time, and bytes between hosts (internal/run_data.h).

#include <algorithm>
#include <cmath>

#include "ptc/report/page/internal/run_data.h"

namespace scalai::report {
namespace {

// "h0.nic0.up" → "h0 NIC out"; other links keep their name: "h0 store.serve", "leaf0 up".
std::string group_of(const std::string& link) {
  const size_t dot = link.find('.');
  if (dot == std::string::npos) return link;
  const std::string owner = link.substr(0, dot), rest = link.substr(dot + 1);
  const bool up = rest.ends_with("up");
  if (rest.starts_with("nic")) return owner + (up ? " NIC out" : " NIC in");
  if (rest.find("pcie") != std::string::npos) return owner + (up ? " PCIe out" : " PCIe in");
  if (rest.starts_with("g") && rest.size() > 1 && rest[1] >= '0' && rest[1] <= '9')
    return owner + (up ? " GPU links out" : " GPU links in");
  return owner + " " + rest;
}

// "h10" after "h9".
bool by_number(const std::string& a, const std::string& b) {
  return a.size() != b.size() && a.substr(0, 1) == b.substr(0, 1) ? a.size() < b.size() : a < b;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

// The rows with the most, in the order of their names.
Heat heat_of(const std::map<std::string, std::vector<double>>& rows, size_t most) {
  Heat heat;
  std::vector<std::string> names;
  for (const auto& [name, values] : rows)
    if (sum_of(values) > 0) names.push_back(name);
  heat.all_rows = names.size();
  std::stable_sort(names.begin(), names.end(),
                   [&](const auto& a, const auto& b) { return sum_of(rows.at(a)) > sum_of(rows.at(b)); });
  if (names.size() > most) names.resize(most);
  std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
    const std::string host_a = a.substr(0, a.find(' ')), host_b = b.substr(0, b.find(' '));
    return host_a == host_b ? a < b : by_number(host_a, host_b);
  });
  for (const std::string& name : names) {
    heat.rows.push_back(name);
    heat.values.push_back(rows.at(name));
    for (const double value : heat.values.back()) heat.highest = std::max(heat.highest, value);
  }
  return heat;
}

void take_largest(std::vector<double>& into, const std::vector<double>& values) {
  into.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) into[i] = std::max(into[i], values[i]);
}

std::map<std::string, std::string> hosts_of(const CsvRows& devices) {
  std::map<std::string, std::string> hosts;
  for (size_t row = 0; row < devices.size(); ++row) hosts[devices.text(row, "device")] = devices.text(row, "host");
  return hosts;
}

// "h0" … "h3" of 4 hosts each as "h0–h3".
std::map<std::string, size_t> columns_of(const CsvRows& devices, size_t most, std::vector<std::string>& names) {
  std::vector<std::string> hosts;
  for (const auto& [device, host] : hosts_of(devices)) hosts.push_back(host);
  std::sort(hosts.begin(), hosts.end(), by_number);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  const size_t together = std::max<size_t>(1, (hosts.size() + most - 1) / most);
  std::map<std::string, size_t> columns;
  for (size_t i = 0; i < hosts.size(); ++i) {
    columns[hosts[i]] = i / together;
    if (i % together == 0) names.push_back(hosts[i]);
    if (i % together == together - 1 || i + 1 == hosts.size()) {
      if (names.back() != hosts[i]) names.back() += "–" + hosts[i];
    }
  }
  columns["storage"] = names.size();
  names.emplace_back("storage");
  return columns;
}

}  // namespace

std::vector<double> largest_by_interval(const TraceValues& values, double end_s, size_t count) {
  std::vector<double> result(count, 0);
  if (!(end_s > 0)) return result;
  for (size_t i = 0; i < values.size(); ++i) {
    const double until_s = i + 1 < values.size() ? values[i + 1].first : end_s;
    if (!(values[i].second > 0) || until_s <= values[i].first) continue;
    const double scale = static_cast<double>(count) / end_s;
    const auto first = static_cast<size_t>(std::clamp(values[i].first * scale, 0.0, static_cast<double>(count - 1)));
    const auto last = static_cast<size_t>(
        std::clamp(std::ceil(until_s * scale) - 1, static_cast<double>(first), static_cast<double>(count - 1)));
    for (size_t k = first; k <= last; ++k) result[k] = std::max(result[k], values[i].second);
  }
  return result;
}

Heat link_heat(const RunTrace& trace, double end_s, size_t intervals, size_t most) {
  std::map<std::string, std::vector<double>> rows;
  for (const auto& [link, values] : trace.link_use)
    take_largest(rows[group_of(link)], largest_by_interval(values, end_s, intervals));
  return heat_of(rows, most);
}

Heat memory_heat(const RunTrace& trace, const std::optional<CsvRows>& devices, double end_s, size_t intervals,
                 size_t most) {
  const bool by_host = trace.state_bytes.size() > most && devices;
  const std::map<std::string, std::string> hosts = by_host ? hosts_of(*devices) : std::map<std::string, std::string>{};
  std::map<std::string, std::vector<double>> rows;
  for (const auto& [device, values] : trace.state_bytes) {
    const auto host = hosts.find(device);
    take_largest(rows[host == hosts.end() ? device : host->second], largest_by_interval(values, end_s, intervals));
  }
  return heat_of(rows, most);
}

Traffic traffic_of(const CsvRows& transfers, const CsvRows& devices, size_t most) {
  Traffic traffic;
  const std::map<std::string, std::string> hosts = hosts_of(devices);
  const std::map<std::string, size_t> columns = columns_of(devices, most, traffic.hosts);
  traffic.bytes.assign(traffic.hosts.size(), std::vector<double>(traffic.hosts.size(), 0));
  const auto column_of = [&](const std::string& place) {
    const auto device = hosts.find(place);
    const auto found = columns.find(device == hosts.end() ? place.substr(0, place.find('.')) : device->second);
    return found == columns.end() ? columns.at("storage") : found->second;
  };
  for (size_t row = 0; row < transfers.size(); ++row) {
    if (transfers.text(row, "status") != "done") continue;
    const double bytes = transfers.number_or_zero(row, "bytes");
    if (transfers.text(row, "reconfiguration") == "0") {
      traffic.elsewhere[transfers.text(row, "phase")] += bytes;
    } else if (transfers.text(row, "class") != "same_device") {
      traffic.bytes[column_of(transfers.text(row, "src"))][column_of(transfers.text(row, "dst"))] += bytes;
    }
  }
  return traffic;
}

}  // namespace scalai::report
