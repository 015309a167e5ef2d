#include "tests/differential/check.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "ptc/base/status.h"
#include "ptc/plan/interpreter.h"
#include "tests/differential/oracle.h"

namespace scalai::differential {
namespace {

using plan::Location;
using plan::Plan;
using Data = absl::flat_hash_map<Label, uint64_t>;  // what lies where

uint64_t cast(uint64_t master) { return master * 0x9e3779b97f4a7c15u + 1; }

// What every element of a collection is: one value in all replicas. Parameters are cast from their masters.
class Values {
 public:
  explicit Values(const collection::Collection& side) {
    for (size_t t = 0; t < side.tensors.size(); ++t) {
      const auto is_master = [&](const collection::LogicalTensor& other) {
        return other.name == side.tensors[t].name + ".master";
      };
      const auto master = std::find_if(side.tensors.begin(), side.tensors.end(), is_master);
      masters_.push_back(master == side.tensors.end() ? -1 : static_cast<int>(master - side.tensors.begin()));
    }
  }
  uint64_t at(int t, int e) const {
    return masters_[t] < 0 ? (static_cast<uint64_t>(t + 1) << 40) + e : cast(at(masters_[t], e));
  }

 private:
  std::vector<int> masters_;  // by tensor; -1 = none
};

Data data_of(const collection::Collection& side) {
  const Values values(side);
  Data data;
  for (const Label& own : labels_of(side)) data[own] = values.at(own[0], own[1]);
  return data;
}

// Moves data by a plan's operations.
class Mover {
 public:
  Mover(const Plan& plan, const plan::PlannerInput& in, Data old) : plan_(plan), in_(in), old_(std::move(old)) {
    const Values values(in.from);
    for (const collection::ExtraHolder& extra : in.residency.extra) {
      const int t = extra.tensor.value;
      for (const int e : elements_of(extra.box, in.from.tensors[t].shape)) {
        old_[label(t, e, Location::host_memory(extra.host))] = values.at(t, e);
      }
    }
    if (!in.options.in_place) stage();
  }

  // False if an operation reads what is not there.
  bool run() {
    int round = 0;
    for (const plan::Operation& op : in_order(plan_)) {
      for (; round < op.round; ++round) free_after(round);
      for (const int e : elements_of(op.box, in_.to.tensors[op.tensor.value].shape)) move(op, e);
    }
    return complete_;
  }

  Data take() { return std::move(new_); }

 private:
  void stage() {
    Data staged;
    for (const auto& [at, value] : old_) {
      const Location place{static_cast<Location::Kind>(at[2]), at[3]};
      const HostId host = in_.options.hub.valid() ? in_.options.hub : host_of(in_, place);
      const bool copy = place.kind == Location::Kind::kHostMemory;
      staged[copy ? at : label(at[0], at[1], Location::host_memory(host))] = value;
    }
    old_ = std::move(staged);
  }

  void move(const plan::Operation& op, int e) {
    const int t = op.tensor.value;
    const bool derived = op.transfer_class == plan::TransferClass::kDerived;
    const Data& source = derived || op.hop > 0 ? new_ : old_;
    const auto from = source.find(label(derived ? plan_.tensors()[t].derived_from.value : t, e, op.src));
    complete_ = complete_ && from != source.end();
    if (!complete_) return;
    const uint64_t value = derived ? cast(from->second) : from->second;  // insertion moves what `from` points at
    new_[label(t, e, Location::device(op.dst))] = value;
  }

  void free_after(int round) {
    for (const plan::Instance& instance : plan_.instances()) {
      if (instance.round != round) continue;
      for (const TensorId id : plan_.tensors_of(instance)) {
        for (const DeviceId device : plan_.patterns().frees(instance.pattern)) {
          for (const int e : elements_of(instance.box, plan_.tensor(id).shape)) {
            old_.erase(label(id.value, e, Location::device(device)));
          }
        }
      }
    }
  }

  const Plan& plan_;
  const plan::PlannerInput& in_;
  Data old_, new_;
  bool complete_ = true;
};

// The number after "the smallest cap found to work is"; −1 if it is not there.
int64_t cap_in(std::string_view message) {
  constexpr std::string_view kBefore = "smallest cap found to work is ";
  const size_t at = message.find(kBefore);
  int64_t cap = -1;
  if (at != std::string_view::npos) {
    std::from_chars(message.data() + at + kBefore.size(), message.data() + message.size(), cap);
  }
  return cap;
}

}  // namespace

absl::StatusOr<Plan> plan_of(DifferentialCase& drawn, Outcome& outcome) {
  auto plan = make_plan(drawn.input());
  const bool capped = drawn.options.in_place && drawn.options.memory_cap >= 0;
  if (plan.ok() || !capped || !absl::IsInvalidArgument(plan.status())) return plan;
  const int64_t cap = cap_in(message_of(plan.status()));
  if (cap <= drawn.options.memory_cap) return plan;
  outcome.refused = true;
  drawn.options.memory_cap = cap;
  return make_plan(drawn.input());
}

Outcome check_case(DifferentialCase drawn) {
  Outcome outcome;
  const auto plan = plan_of(drawn, outcome);
  if (!plan.ok()) {
    outcome.wrong = "planner: " + message_of(plan.status());
    return outcome;
  }
  const auto note = [&](std::string_view who, const std::string& what) {
    if (!what.empty()) outcome.wrong += fmt::format("{}: {}\n", who, what);
  };
  const plan::InterpreterInput input{drawn.from, drawn.to, drawn.cluster, drawn.residency};
  note("oracle", judge(*plan, drawn.input()));
  note("interpret", message_of(interpret(*plan, input)));
  note("interpret, alike together", message_of(interpret(*plan, input, {.most_operations = 0, .devices = 2})));
  note("interpret_elements", message_of(interpret_elements(*plan, input)));
  plan->for_each_operation(
      [&](const plan::Operation& op) { outcome.transfers += op.transfer_class == plan::TransferClass::kKept ? 0 : 1; });
  outcome.infeasible = !plan->feasible();
  return outcome;
}

Outcome check_round_trip(DifferentialCase drawn) {
  Outcome outcome;
  DifferentialCase back = drawn;
  std::swap(back.from, back.to);
  back.residency = {};
  const Data start = data_of(drawn.from);
  Data data = start;
  for (DifferentialCase* one_way : {&drawn, &back}) {
    const auto plan = plan_of(*one_way, outcome);
    if (!plan.ok()) {
      outcome.wrong = "planner: " + message_of(plan.status());
      return outcome;
    }
    const plan::PlannerInput input = one_way->input();
    Mover mover(*plan, input, std::move(data));
    const std::string_view where = one_way == &drawn ? "on the way there" : "on the way back";
    if (!mover.run()) outcome.wrong += fmt::format("{}: an operation reads what is not there\n", where);
    data = mover.take();
    plan->for_each_operation([&](const plan::Operation&) { ++outcome.transfers; });
  }
  if (data != start) outcome.wrong += "there and back again is not the start";
  return outcome;
}

}  // namespace scalai::differential
