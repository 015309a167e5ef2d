#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/plan/estimate.h"
#include "ptc/plan/interpreter.h"
#include "ptc/plan/placement.h"
#include "ptc/plan/plan_io.h"
#include "ptc/plan/planner.h"
#include "ptc/report/plan_output.h"
#include "ptc/run/scenario/scenario.h"
#include "ptc/run/scenario/strategy.h"
#include "ptc/state/collection/collection_file.h"
#include "python/module/module.h"

namespace nb = nanobind;

namespace scalai::python {
namespace {

using collection::CollectionFile;

// A plan, and what it was made of, for whoever asks further.
struct Planned {
  collection::Collection from, to;
  collection::Residency residency;
  cluster::Cluster cluster;
  bool rates_known = false;
  std::optional<plan::Plan> plan;
};

struct Wishes {
  std::string cluster;  // path; "": hosts of `gpus_per_host` GPUs, links without rates
  int gpus_per_host = 8;
  std::string strategy = "reshard", placement = "identity";
  std::optional<int64_t> round_bytes, memory_cap;
  bool derive_params = false, storage = false;
  std::set<int> lost;
};

cluster::Cluster hosts_for(const Planned& planned, int gpus_per_host) {
  if (gpus_per_host < 1) check(invalid("gpus_per_host is at least 1"));
  int devices = 0;
  for (const auto* side : {&planned.from.device_of_rank, &planned.to.device_of_rank}) {
    for (const DeviceId device : *side) devices = std::max(devices, device.value + 1);
  }
  for (const collection::ExtraHolder& copy : planned.residency.extra)
    devices = std::max(devices, (copy.host.value + 1) * gpus_per_host);
  cluster::Cluster cluster;
  cluster.name = "hosts of " + std::to_string(gpus_per_host) + " GPUs";
  for (int first = 0; first < devices; first += gpus_per_host)
    cluster.hosts.push_back({.first_device = first, .gpus = gpus_per_host});
  return cluster;
}

plan::PlacementRule rule_named(const std::string& name) {
  if (name == "hosts") return plan::PlacementRule::kHosts;
  if (name == "free") return plan::PlacementRule::kFree;
  if (name != "identity") check(invalid("unknown placement \"" + name + "\"; choose from identity, hosts, free"));
  return plan::PlacementRule::kIdentity;
}

absl::Status plan_into(Planned& planned, const plan::PlannerOptions& options, plan::PlacementRule rule) {
  const plan::PlannerInput input{planned.from, planned.to, planned.cluster, planned.residency, options};
  if (rule != plan::PlacementRule::kIdentity) {
    const std::vector<DeviceId> devices = planned.to.device_of_rank;
    planned.to.device_of_rank = best_placement(input, {.rule = rule, .spread = {}}, devices).device_of_rank;
  }
  SCALAI_ASSIGN_OR_RETURN(planned.plan, make_plan(input));
  return absl::OkStatus();
}

Planned make(const CollectionFile& old_state, const CollectionFile& new_state, const Wishes& wishes) {
  const scenario::Strategy strategy = value_of(scenario::find_strategy(wishes.strategy, {}));
  const plan::PlacementRule rule = rule_named(wishes.placement);
  Planned planned{.from = old_state.collection,
                  .to = new_state.collection,
                  .residency = old_state.residency,
                  .cluster = {},
                  .plan = {}};
  planned.to.epoch = std::max(planned.to.epoch, planned.from.epoch + 1);
  for (const int device : wishes.lost) planned.residency.lost.insert(DeviceId(device));
  planned.residency.storage = planned.residency.storage || wishes.storage;
  planned.rates_known = !wishes.cluster.empty();
  planned.cluster =
      planned.rates_known ? value_of(scenario::load_cluster(wishes.cluster)) : hosts_for(planned, wishes.gpus_per_host);
  plan::PlannerOptions options = strategy.planner;
  if (wishes.round_bytes) options.round_bytes = *wishes.round_bytes;
  if (wishes.memory_cap) options.memory_cap = *wishes.memory_cap;
  options.derive_params = wishes.derive_params;
  absl::Status status;
  {
    const nb::gil_scoped_release others_run;
    status = plan_into(planned, options, rule);
  }
  check(status);
  return planned;
}

std::string json_of(const Planned& planned, const std::string& explain) {
  const plan::Plan& plan = *planned.plan;
  const bool known = std::any_of(plan.tensors().begin(), plan.tensors().end(),
                                 [&](const plan::TensorInfo& tensor) { return tensor.name == explain; });
  if (!explain.empty() && !known) check(missing("the plan has no tensor \"" + explain + "\""));
  report::PlanFacts facts;
  if (planned.rates_known && plan.feasible()) facts.estimated_s = estimate_seconds(plan, planned.cluster);
  return report::plan_text(plan, facts, {"json", explain});
}

std::string table_of(const Planned& planned) {
  if (!planned.plan->feasible()) return report::infeasible_text(*planned.plan);
  return report::plan_text(*planned.plan, {}, {"table", ""});
}

void verify(const Planned& planned) {
  absl::Status status;
  {
    const nb::gil_scoped_release others_run;
    status = interpret(*planned.plan, {planned.from, planned.to, planned.cluster, planned.residency});
  }
  check(status);
}

nb::bytes bytes_of(const Planned& planned) {
  const std::string bytes = serialize(*planned.plan);
  return nb::bytes(bytes.data(), bytes.size());
}

std::vector<int> devices_of(const Planned& planned) {
  std::vector<int> devices;
  for (const DeviceId device : planned.to.device_of_rank) devices.push_back(device.value);
  return devices;
}

}  // namespace

void add_plans(nb::module_& module) {
  nb::class_<Planned>(module, "Plan")
      .def_prop_ro("digest", [](const Planned& planned) { return planned.plan->digest(); })
      .def_prop_ro("feasible", [](const Planned& planned) { return planned.plan->feasible(); })
      .def_prop_ro("devices", devices_of)
      .def("json", json_of, nb::arg("explain"))
      .def(
          "program",
          [](const Planned& planned, int device) {
            return report::program_text(*planned.plan, DeviceId(device), {"json", ""});
          },
          nb::arg("device"))
      .def("text", table_of)
      .def("verify", verify)
      .def("serialize", bytes_of);
  module.def(
      "plan",
      [](const CollectionFile& old_state, const CollectionFile& new_state, const std::filesystem::path& cluster,
         int gpus_per_host, const std::string& strategy, const std::string& placement,
         std::optional<int64_t> round_bytes, std::optional<int64_t> memory_cap, bool derive_params, bool storage,
         const std::set<int>& lost) {
        return make(old_state, new_state,
                    {cluster.string(), gpus_per_host, strategy, placement, round_bytes, memory_cap, derive_params,
                     storage, lost});
      },
      nb::arg("old"), nb::arg("new"), nb::arg("cluster"), nb::arg("gpus_per_host"), nb::arg("strategy"),
      nb::arg("placement"), nb::arg("round_bytes").none(), nb::arg("memory_cap").none(), nb::arg("derive_params"),
      nb::arg("storage"), nb::arg("lost"));
}

}  // namespace scalai::python
