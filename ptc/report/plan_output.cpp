#include "ptc/report/plan_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/table.h"
#include "ptc/base/units.h"
#include "ptc/plan/lowering.h"
#include "ptc/plan/missing.h"

namespace scalai::report {
namespace {

using nlohmann::ordered_json;
using plan::ClassBytes;
using plan::DeviceTraffic;
using plan::Operation;
using plan::Plan;
using plan::TransferClass;

constexpr size_t kMaxListedJson = 1000;
constexpr size_t kMaxListedText = 4;
constexpr TransferClass kClasses[] = {TransferClass::kKept,      TransferClass::kSameDevice,
                                      TransferClass::kDerived,   TransferClass::kSameHost,
                                      TransferClass::kCrossHost, TransferClass::kFromStorage};

bool travels(const plan::Leg& leg) { return leg.src != plan::Location::device(leg.dst); }

int64_t transfers(const Plan& plan) {
  int64_t count = 0;
  for (const plan::Instance& instance : plan.instances()) {
    const auto legs = plan.patterns().legs(instance.pattern);
    count += std::count_if(legs.begin(), legs.end(), travels) * static_cast<int64_t>(plan.tensors_of(instance).size());
  }
  return count;
}

int64_t bytes_of(const Plan& plan, const plan::Missing& missing) {
  return missing.box.volume() * tensor::size_of(plan.tensor(missing.tensor).from_dtype);
}

ordered_json json_of(const tensor::Box& box) {
  ordered_json ranges = ordered_json::array();
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) ranges.push_back({box.lo[dim], box.hi[dim]});
  return ranges;
}

ordered_json json_of(ClassBytes bytes) {
  ordered_json json;
  for (const TransferClass one : kClasses) json[std::string(name_of(one))] = bytes.of(one);
  return json;
}

ordered_json json_of(const std::vector<DeviceTraffic>& traffic, int64_t DeviceTraffic::*member) {
  ordered_json list = ordered_json::array();
  for (const DeviceTraffic& one : traffic) list.push_back({{"device", one.device.value}, {"bytes", one.*member}});
  return list;
}

ordered_json infeasible_json(const Plan& plan) {
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < std::min(plan.missing().size(), kMaxListedJson); ++i) {
    const plan::Missing& missing = plan.missing()[i];
    list.push_back({{"tensor", plan.tensor(missing.tensor).name},
                    {"box", json_of(missing.box)},
                    {"bytes", bytes_of(plan, missing)}});
  }
  return list;
}

struct Origin {
  int rank = 0;
  Operation operation;
};

std::vector<Origin> origins_of(const Plan& plan, const std::string& tensor) {
  std::map<DeviceId, int> ranks;
  for (size_t rank = 0; rank < plan.dst_devices().size(); ++rank)
    ranks[plan.dst_devices()[rank]] = static_cast<int>(rank);
  std::vector<Origin> origins;
  plan.for_each_operation([&](const Operation& operation) {
    if (plan.tensor(operation.tensor).name == tensor) origins.push_back({ranks[operation.dst], operation});
  });
  std::stable_sort(origins.begin(), origins.end(), [](const Origin& a, const Origin& b) {
    return std::tie(a.rank, a.operation.box) < std::tie(b.rank, b.operation.box);
  });
  return origins;
}

std::string over(const Operation& operation) {
  switch (operation.transfer_class) {
    case TransferClass::kKept: return "stays in place";
    case TransferClass::kSameDevice: return "copied on the device";
    case TransferClass::kDerived: return "cast from its master";
    case TransferClass::kSameHost: return "inside the host";
    case TransferClass::kCrossHost: return "over the network";
    case TransferClass::kFromStorage: break;
  }
  return "read from storage";
}

Table explain_table(const Plan& plan, const std::string& tensor) {
  Table table({"rank>", "device", "box", "from", "how", "round>", "bytes>"});
  table.leave_out_first({"round", "how", "bytes"});
  for (const Origin& origin : origins_of(plan, tensor)) {
    const Operation& operation = origin.operation;
    table.row({fmt::format("{}", origin.rank), fmt::format("g{}", operation.dst.value), operation.box.str(),
               operation.src.str(), over(operation) + (operation.hop > 0 ? ", passed on" : ""),
               fmt::format("{}", operation.round), fmt::format("{}", operation.bytes)});
  }
  return table;
}

ordered_json explain_json(const Plan& plan, const std::string& tensor) {
  ordered_json list = ordered_json::array();
  for (const Origin& origin : origins_of(plan, tensor)) {
    const Operation& operation = origin.operation;
    list.push_back({{"rank", origin.rank},
                    {"device", operation.dst.value},
                    {"box", json_of(operation.box)},
                    {"from", operation.src.str()},
                    {"class", name_of(operation.transfer_class)},
                    {"round", operation.round},
                    {"hop", operation.hop},
                    {"bytes", operation.bytes}});
  }
  return list;
}

// A plan pages nothing (memory_cap.h), and no order can page less. JSON has that as numbers, too.
constexpr int64_t kPaged = 0;

int64_t repeated(const Plan& plan, const CapFacts& cap) { return plan.bytes().moved() - cap.uncapped.moved(); }

ordered_json json_of(const Plan& plan, const CapFacts& cap) {
  ordered_json json = {{"paged_bytes", kPaged},
                       {"paged_bytes_at_least", kPaged},
                       {"repeated_bytes", repeated(plan, cap)},
                       {"whole_boxes", {{"paged_bytes_at_least", cap.whole_boxes.bytes}}}};
  if (cap.whole_boxes.bytes > 0) {
    json["whole_boxes"]["by"] = cap.whole_boxes.by;
    json["whole_boxes"]["worst_device"] = {{"device", cap.whole_boxes.device.value},
                                           {"paged_bytes_at_least", cap.whole_boxes.device_bytes}};
  }
  return json;
}

std::string cap_text(const Plan& plan, const CapFacts& cap) {
  const plan::PagingBound& whole = cap.whole_boxes;
  std::string text = fmt::format("under the cap         paged through hosts {}, the least there is; moved twice {}\n",
                                 format_bytes(kPaged), format_bytes(repeated(plan, cap)));
  text += fmt::format("boxes left whole      any order pages at least {}", format_bytes(whole.bytes));
  if (whole.bytes == 0) return text + " (this bound says nothing here)\n";
  return text + fmt::format(" out and back, {} for g{} ({})\n", format_bytes(whole.device_bytes), whole.device.value,
                            whole.by);
}

std::string plan_json(const Plan& plan, const PlanFacts& facts, const Shown& shown) {
  const std::vector<DeviceTraffic> traffic = device_traffic(plan);
  ordered_json json = {{"digest", plan.digest()}};
  if (facts.planning_s) json["planning_s"] = *facts.planning_s;
  if (!facts.model.empty()) json["model"] = facts.model;
  json["planner"] = plan.planner();
  json["from"] = plan.from();
  json["to"] = plan.to();
  json["devices"] = traffic.size();
  json["tensors"] = plan.tensors().size();
  json["transfers"] = transfers(plan);
  json["rounds"] = plan.rounds();
  json["memory_cap_bytes"] = plan.memory_cap() < 0 ? ordered_json(nullptr) : ordered_json(plan.memory_cap());
  if (facts.cap) json["memory_cap"] = json_of(plan, *facts.cap);
  json["bytes"] = json_of(plan.bytes());
  json["lower_bound_bytes"] = json_of(plan.lower_bound());
  json["lower_bound_any_placement"] = {{"cross_host", plan.lower_bound_any_placement_cross_host()}};
  json["bytes_received"] = json_of(traffic, &DeviceTraffic::received);
  json["bytes_sent"] = json_of(traffic, &DeviceTraffic::sent);
  json["peak_extra_bytes"] = json_of(traffic, &DeviceTraffic::peak_extra);
  if (facts.hottest_link) {
    json["hottest_link"] = {{"name", facts.hottest_link->name},
                            {"bytes", facts.hottest_link->bytes},
                            {"optimum_bytes", facts.hottest_link->optimum_bytes}};
  } else if (facts.with_links) {
    json["hottest_link"] = nullptr;
  }
  json["survives_host_losses"] = plan.survives_host_losses();
  if (!facts.spread_domain.empty()) {
    json["spread"] = {{"domain", facts.spread_domain},
                      {"cost_bytes", {{"cross_host", facts.spread.cross_host}, {"moved", facts.spread.moved}}},
                      {"bytes_in_one_domain", facts.spread.bytes_in_one_domain},
                      {"bytes_in_one_domain_without", facts.spread.bytes_in_one_domain_without}};
  }
  json["infeasible"] = infeasible_json(plan);
  json["infeasible_count"] = plan.missing().size();
  if (facts.estimated_s) json["estimated_s"] = *facts.estimated_s;
  if (facts.check) {
    json["check"] = {{"operations", facts.check->operations},
                     {"tensors", facts.check->tensors},
                     {"devices", facts.check->devices},
                     {"all", facts.check->all}};
  }
  if (!shown.explain.empty()) json["explain"] = explain_json(plan, shown.explain);
  return json_text(json, {.indent = 2}) + "\n";
}

std::string traffic_csv(const Plan& plan) {
  Table table({"device>", "received_bytes>", "sent_bytes>", "peak_extra_bytes>"});
  for (const DeviceTraffic& one : device_traffic(plan)) {
    table.row({fmt::format("{}", one.device.value), fmt::format("{}", one.received), fmt::format("{}", one.sent),
               fmt::format("{}", one.peak_extra)});
  }
  return table.csv();
}

std::string headline(const Plan& plan, const PlanFacts& facts) {
  return fmt::format(
      "{}{} ({}) → {} ({})\nplan {} by {}: {}, {}, {}{}\n\n", facts.model.empty() ? "" : facts.model + ": ",
      plan.from(), counted(static_cast<int64_t>(plan.src_devices().size()), "GPU"), plan.to(),
      counted(static_cast<int64_t>(plan.dst_devices().size()), "GPU"), plan.digest(), plan.planner(),
      counted(static_cast<int64_t>(plan.tensors().size()), "tensor"), counted(transfers(plan), "transfer"),
      counted(plan.rounds(), "round"), facts.planning_s ? ", planned in " + format_seconds(*facts.planning_s) : "");
}

std::string bytes_table(const Plan& plan, const Screen& screen) {
  static constexpr const char* kTitles[] = {"stays in place", "copied on its device", "cast from masters",
                                            "inside hosts",   "between hosts",        "from storage"};
  Table table({"state", "plan>", "at least>"});
  ClassBytes bytes = plan.bytes(), bound = plan.lower_bound();
  for (size_t i = 0; i < std::size(kClasses); ++i) {
    if (kClasses[i] == TransferClass::kDerived && bytes.derived == 0) continue;
    table.row({kTitles[i], format_bytes(bytes.of(kClasses[i])), format_bytes(bound.of(kClasses[i]))});
  }
  return table.text(screen);
}

std::string most(const std::vector<DeviceTraffic>& traffic, int64_t DeviceTraffic::*member) {
  const auto found = std::max_element(traffic.begin(), traffic.end(),
                                      [&](const auto& a, const auto& b) { return a.*member < b.*member; });
  if (found == traffic.end() || (*found).*member == 0) return "0 B";
  return fmt::format("{} (g{})", format_bytes((*found).*member), found->device.value);
}

std::string summary(const Plan& plan, const PlanFacts& facts, const Screen& screen) {
  const std::vector<DeviceTraffic> traffic = device_traffic(plan);
  std::string text = headline(plan, facts) + bytes_table(plan, screen) + "\n";
  if (const auto& link = facts.hottest_link) {
    text += fmt::format("hottest link          {} with {}; at best {}\n", link->name, format_bytes(link->bytes),
                        format_bytes(link->optimum_bytes));
  }
  text += fmt::format("most for one device   received {}, sent {}, extra memory {}\n",
                      most(traffic, &DeviceTraffic::received), most(traffic, &DeviceTraffic::sent),
                      most(traffic, &DeviceTraffic::peak_extra));
  if (facts.cap) text += cap_text(plan, *facts.cap);
  text += fmt::format("any placement         at least {} between hosts\n",
                      format_bytes(plan.lower_bound_any_placement_cross_host()));
  text +=
      fmt::format("the new state         survives the loss of {}\n",
                  plan.survives_host_losses() == 0 ? "no host" : "any " + counted(plan.survives_host_losses(), "host"));
  if (facts.estimated_s)
    text += fmt::format("predicted time        {} (transfers alone, at the rates that links reach)\n",
                        format_seconds(*facts.estimated_s));
  if (facts.spread_domain.empty()) return text;
  text += fmt::format("replicas apart        cost {} between hosts, {} moved; in one {}: {}, {} without\n",
                      format_bytes(facts.spread.cross_host), format_bytes(facts.spread.moved), facts.spread_domain,
                      format_bytes(facts.spread.bytes_in_one_domain),
                      format_bytes(facts.spread.bytes_in_one_domain_without));
  return text;
}

std::string check_text(const plan::InterpreterReport& report) {
  const std::string tensors = counted(report.tensors, "tensor");
  return fmt::format("checked: every element right, exactly once ({}; {})\n", counted(report.operations, "operation"),
                     report.all ? "each of " + tensors + " by itself"
                                : fmt::format("{} for all that lie alike, and {} alone with every tensor", tensors,
                                              counted(report.devices, "device")));
}

}  // namespace

std::string plan_text(const Plan& plan, const PlanFacts& facts, const Shown& shown) {
  if (shown.format == "json") return plan_json(plan, facts, shown);
  if (shown.format == "csv")
    return shown.explain.empty() ? traffic_csv(plan) : explain_table(plan, shown.explain).csv();
  const std::string checked = facts.check ? check_text(*facts.check) : "";
  if (shown.explain.empty()) return summary(plan, facts, shown.screen) + checked;
  const auto info = std::find_if(plan.tensors().begin(), plan.tensors().end(),
                                 [&](const plan::TensorInfo& tensor) { return tensor.name == shown.explain; });
  return fmt::format("{} {} {}: {} → {}\n\n{}{}", info->name, name_of(info->dtype), info->shape.str(), plan.from(),
                     plan.to(), explain_table(plan, shown.explain).text(shown.screen), checked);
}

std::string program_text(const Plan& plan, DeviceId device, const Shown& shown) {
  Table table({"round>", "hop>", "step", "peer", "boxes>", "bytes>"});
  ordered_json steps = ordered_json::array();
  for (const plan::ProgramStep& step : lower(plan, device)) {
    const std::string name(name_of(step.kind));
    int64_t boxes = 0;
    for (const int32_t i : step.instances)
      boxes += static_cast<int64_t>(plan.tensors_of(plan.instances()[static_cast<size_t>(i)]).size());
    table.row({fmt::format("{}", step.round), fmt::format("{}", step.hop), name, step.peer.str(),
               fmt::format("{}", boxes), fmt::format("{}", step.bytes)});
    steps.push_back({{"round", step.round},
                     {"hop", step.hop},
                     {"step", name},
                     {"peer", step.peer.str()},
                     {"boxes", boxes},
                     {"instances", step.instances},
                     {"bytes", step.bytes}});
  }
  if (shown.format == "csv") return table.csv();
  if (shown.format == "table")
    return fmt::format("g{} in plan {}: {} → {}\n\n{}", device.value, plan.digest(), plan.from(), plan.to(),
                       table.text(shown.screen));
  const ordered_json json = {{"digest", plan.digest()}, {"device", device.value}, {"program", steps}};
  return json_text(json, {.indent = 2}) + "\n";
}

std::string infeasible_text(const Plan& plan) {
  std::string text = fmt::format(
      "scalai plan: error: no living device holds {} of state ({}); with --storage they come from a checkpoint\n",
      format_bytes(plan::missing_bytes(plan)), counted(static_cast<int64_t>(plan.missing().size()), "box", "boxes"));
  for (const std::string& line : plan::missing_lines(plan, kMaxListedText)) text += fmt::format("  {}\n", line);
  return text;
}

}  // namespace scalai::report
