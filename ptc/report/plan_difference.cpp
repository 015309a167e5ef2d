#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "nlohmann/json.hpp"
#include "ptc/base/json.h"
#include "ptc/base/table.h"
#include "ptc/report/plan_output.h"
#include "ptc/state/collection/id_list.h"

namespace scalai::report {
namespace {

using nlohmann::ordered_json;
using plan::Operation;
using plan::Plan;

constexpr size_t kMaxTensorsListed = 40;

struct HeaderDifference {
  std::string name, a, b;
};

struct OneSide {
  int64_t operations = 0, bytes = 0;
};

// Operations of one tensor that only one of the plans has.
struct TensorDifference {
  OneSide only_a, only_b;
};

std::string text_of(const std::vector<DeviceId>& devices) {
  std::vector<int> ids;
  for (const DeviceId device : devices) ids.push_back(device.value);
  return collection::id_list_of(ids);
}

int64_t count_of(const Plan& plan) {
  int64_t count = 0;
  for (const plan::Instance& instance : plan.instances())
    count += std::ssize(plan.tensors_of(instance)) * std::ssize(plan.patterns().legs(instance.pattern));
  return count;
}

std::vector<std::pair<std::string, std::string>> header_of(const Plan& plan) {
  std::vector<std::pair<std::string, std::string>> header = {
      {"digest", plan.digest()},
      {"planner", plan.planner()},
      {"from", plan.from()},
      {"to", plan.to()},
      {"epochs", fmt::format("{} → {}", plan.from_epoch(), plan.to_epoch())},
      {"old devices", text_of(plan.src_devices())},
      {"new devices", text_of(plan.dst_devices())},
      {"tensors", fmt::format("{}", plan.tensors().size())},
      {"rounds", fmt::format("{}", plan.rounds())},
      {"memory cap", plan.memory_cap() < 0 ? "none" : fmt::format("{}", plan.memory_cap())},
      {"operations", fmt::format("{}", count_of(plan))},
      {"missing boxes", fmt::format("{}", plan.missing().size())},
      {"survives host losses", fmt::format("{}", plan.survives_host_losses())},
      {"cross_host at least, any placement", fmt::format("{}", plan.lower_bound_any_placement_cross_host())}};
  plan::ClassBytes bytes = plan.bytes(), bound = plan.lower_bound();
  for (const auto one :
       {plan::TransferClass::kKept, plan::TransferClass::kSameDevice, plan::TransferClass::kDerived,
        plan::TransferClass::kSameHost, plan::TransferClass::kCrossHost, plan::TransferClass::kFromStorage}) {
    header.emplace_back(fmt::format("{} bytes", name_of(one)), fmt::format("{}", bytes.of(one)));
    header.emplace_back(fmt::format("{} at least", name_of(one)), fmt::format("{}", bound.of(one)));
  }
  return header;
}

std::vector<HeaderDifference> header_differences(const Plan& a, const Plan& b) {
  const auto of_a = header_of(a), of_b = header_of(b);
  std::vector<HeaderDifference> found;
  for (size_t i = 0; i < of_a.size(); ++i) {
    if (of_a[i].second != of_b[i].second) found.push_back({of_a[i].first, of_a[i].second, of_b[i].second});
  }
  return found;
}

// Plans may number tensors differently: operations are compared under their tensor's name.
auto key_of(const Operation& operation) {
  return std::tie(operation.box, operation.dst, operation.src, operation.round, operation.hop, operation.transfer_class,
                  operation.bytes);
}

bool before(const Operation& a, const Operation& b) { return key_of(a) < key_of(b); }

// What works on one tensor. A big plan has few instances and millions of operations: they are written out for one
// tensor at a time.
struct Share {
  TensorId tensor;
  std::vector<const plan::Instance*> instances;
};

std::map<std::string, Share> by_tensor(const Plan& plan) {
  std::map<std::string, Share> shares;
  for (size_t i = 0; i < plan.tensors().size(); ++i)
    shares[plan.tensors()[i].name].tensor = TensorId(static_cast<int64_t>(i));
  for (const plan::Instance& instance : plan.instances()) {
    for (const TensorId id : plan.tensors_of(instance)) shares[plan.tensor(id).name].instances.push_back(&instance);
  }
  return shares;
}

std::vector<Operation> operations_of(const Plan& plan, const Share& share) {
  std::vector<Operation> operations;
  for (const plan::Instance* instance : share.instances) {
    for (const plan::Leg& leg : plan.patterns().legs(instance->pattern)) {
      const int64_t bytes = instance->box.volume() * plan.tensor(share.tensor).element_bytes(leg.transfer_class);
      operations.push_back(
          {leg.transfer_class, instance->round, leg.hop, share.tensor, instance->box, leg.src, leg.dst, bytes});
    }
  }
  std::sort(operations.begin(), operations.end(), before);
  return operations;
}

OneSide only_in(const std::vector<Operation>& a, const std::vector<Operation>& b) {
  std::vector<Operation> rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest), before);
  OneSide part{.operations = static_cast<int64_t>(rest.size())};
  for (const Operation& operation : rest) part.bytes += operation.bytes;
  return part;
}

std::map<std::string, TensorDifference> tensor_differences(const Plan& a, const Plan& b) {
  auto of_a = by_tensor(a), of_b = by_tensor(b);
  for (const auto& [name, share] : of_b) of_a[name];
  std::map<std::string, TensorDifference> found;
  for (const auto& [name, share] : of_a) {
    const std::vector<Operation> in_a = operations_of(a, share), in_b = operations_of(b, of_b[name]);
    const TensorDifference difference = {only_in(in_a, in_b), only_in(in_b, in_a)};
    if (difference.only_a.operations + difference.only_b.operations > 0) found[name] = difference;
  }
  return found;
}

std::string difference_json(const std::vector<HeaderDifference>& header,
                            const std::map<std::string, TensorDifference>& tensors) {
  ordered_json json = {{"header", ordered_json::array()}, {"tensors", ordered_json::array()}};
  for (const HeaderDifference& one : header) json["header"].push_back({{"name", one.name}, {"a", one.a}, {"b", one.b}});
  const auto part = [](const OneSide& one) {
    return ordered_json{{"operations", one.operations}, {"bytes", one.bytes}};
  };
  for (const auto& [name, one] : tensors)
    json["tensors"].push_back({{"tensor", name}, {"only_a", part(one.only_a)}, {"only_b", part(one.only_b)}});
  return json_text(json, {.indent = 2}) + "\n";
}

Table tensor_table(const std::map<std::string, TensorDifference>& tensors, size_t most) {
  Table table({"tensor", "only in A>", "bytes>", "only in B>", "bytes>"});
  for (const auto& [name, one] : tensors) {
    if (most-- == 0) break;
    table.row({name, fmt::format("{}", one.only_a.operations), fmt::format("{}", one.only_a.bytes),
               fmt::format("{}", one.only_b.operations), fmt::format("{}", one.only_b.bytes)});
  }
  return table;
}

}  // namespace

std::string difference_text(const Plan& a, const Plan& b, const Shown& shown) {
  const std::string& format = shown.format;
  if (a.digest() == b.digest() && format == "table") return fmt::format("the same plan: {}\n", a.digest());
  const auto header = header_differences(a, b);
  const auto tensors = tensor_differences(a, b);
  if (format == "json") return difference_json(header, tensors);
  if (format == "csv") return tensor_table(tensors, tensors.size()).csv();
  Table table({"plan", "A", "B"});
  for (const HeaderDifference& one : header) table.row({one.name, one.a, one.b});
  std::string text = table.text(shown.screen);
  if (tensors.empty()) return text + "\nthe same operations\n";
  text += "\noperations:\n" + tensor_table(tensors, kMaxTensorsListed).text(shown.screen);
  if (tensors.size() > kMaxTensorsListed)
    text += fmt::format("… and {} more tensors (all with --format=csv or json)\n", tensors.size() - kMaxTensorsListed);
  return text;
}

}  // namespace scalai::report
