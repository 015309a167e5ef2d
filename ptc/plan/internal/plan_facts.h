#pragma once
// What both interpreters (boxes and elements) check alike: that the plan belongs to the collections, and that what each
// operation says of itself is true. What is where, before and after, each of the two works out in its own way.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ptc/plan/interpreter.h"

namespace scalai::plan::internal {

// The first problems found, one a line.
class Problems {
 public:
  static constexpr size_t kMost = 20;
  void add(std::string text) {
    if (!full()) lines_.push_back(std::move(text));
  }
  bool full() const { return lines_.size() >= kMost; }
  bool none() const { return lines_.empty(); }
  absl::Status status() const;

 private:
  std::vector<std::string> lines_;
};

// Checks, on construction: same tensors and devices as the collections; for each operation box inside its tensor,
// destination, round, bytes, source and class; the sums by class. Only a plan without these problems may be run.
class PlanFacts {
 public:
  PlanFacts(const Plan& plan, const InterpreterInput& input, Problems& problems);
  // For messages: `operation 7 (cross_host, tensor "w" [0:4], g1 -> g2)` and `"w" [0:4]`.
  std::string name_of_operation(size_t index) const;
  std::string name_of_box(TensorId tensor, const tensor::Box& box) const;

 private:
  void check_frame();
  void check_operation(size_t index);
  bool inside_its_tensor(TensorId tensor, const tensor::Box& box) const;
  bool source_exists(const Location& src) const;
  bool class_is_true(const Operation& operation) const;
  bool on_host_of(const Location& src, DeviceId dst) const;

  const Plan& plan_;
  const InterpreterInput& input_;
  Problems& problems_;
};

// Whether the memory of `host` may be read for what a living `device` holds: each device can be staged in the memory of
// its own host, and the "central" strategy stages all of them in one host's.
bool staged_in(const Plan& plan, const Cluster& cluster, DeviceId device, HostId host);

// Entries of `list` by their tensor, as indices in order.
template <class T>
std::vector<std::vector<size_t>> by_tensor(const std::vector<T>& list, size_t tensors) {
  std::vector<std::vector<size_t>> groups(tensors);
  for (size_t i = 0; i < list.size(); ++i) groups[static_cast<size_t>(list[i].tensor.value)].push_back(i);
  return groups;
}

}  // namespace scalai::plan::internal
