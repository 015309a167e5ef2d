#pragma once
// What the interpreters (boxes, elements, single devices) check alike: that the plan belongs to the collections, and
// that what each pattern and each instance says of itself is true. What is where, before, during and after, each of
// them works out in its own way.

#include <array>
#include <map>
#include <span>
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

// Checks, on construction:
//   frame      tensors, devices and types are those of the collections; masters are masters; which devices have a
//              memory entry, and that no entry is above the cap; missing boxes lie inside their tensors
//   sets       tensors exist and have one shape
//   patterns   of each leg source, destination, class and hop; frees only under a memory cap, by living old devices
//   instances  round, pattern, set and box; kept only in round 0 and where the type stays, derived only from a master
//   sums       bytes by class
// Only a plan without these problems may be run.
class PlanFacts {
 public:
  PlanFacts(const Plan& plan, const InterpreterInput& input, Problems& problems);
  // For messages: `instance 7 (cross_host, tensor "w" [0:4], g1 -> g4)`, `instance 7 (free, tensor "w" [0:4], g1)` and
  // `"w" [0:4]`.
  std::string name_of_leg(size_t instance, TensorId tensor, const Leg& leg) const;
  std::string name_of_free(size_t instance, TensorId tensor, DeviceId device) const;
  std::string name_of_box(TensorId tensor, const tensor::Box& box) const;

  // Of tensors and devices of a plan without problems.
  int64_t old_bytes(TensorId tensor) const;  // of one element in the old epoch
  int64_t new_bytes(TensorId tensor) const;
  // Plan::memory of the device must be this.
  void check_memory(DeviceId device, int64_t before, int64_t after, int64_t peak_extra) const;

 private:
  using ByClass = std::array<int64_t, kTransferClasses>;

  void check_frame();
  void check_devices();
  void check_tensor(size_t index);
  void check_memory_list();
  void check_sets();
  void check_pattern(int32_t pattern);
  void check_frees(int32_t pattern);
  void check_instance(size_t index);
  void check_missing();
  void check_sums();
  bool known(TensorId tensor) const {
    return tensor.valid() && static_cast<size_t>(tensor.value) < plan_.tensors().size();
  }
  bool inside_its_tensor(TensorId tensor, const tensor::Box& box) const;
  int64_t element_bytes(TensorId tensor, TransferClass transfer_class) const;
  std::string problem_of(const Leg& leg) const;
  std::string use_of(int32_t pattern, const Leg* leg, DeviceId device) const;
  bool source_exists(const Location& src) const;
  bool class_is_true(const Leg& leg) const;
  bool on_host_of(const Location& src, DeviceId dst) const;

  const Plan& plan_;
  const InterpreterInput input_;  // references; the struct itself may be a temporary
  Problems& problems_;
  std::vector<bool> new_device_, old_living_;  // by device
};

// Whether the memory of `host` may be read for what devices of `holders` (sorted) hold: each device can be staged in
// the memory of its own host, and the "central" strategy stages all of them in one host's. Under a memory cap none is
// staged.
bool staged_in(const Plan& plan, std::span<const HostId> holders, HostId host);

// Indices of the instances with a tensor, in order, by tensor.
std::vector<std::vector<int32_t>> instances_by_tensor(const Plan& plan);

// Entries of `list` by their tensor, as indices in order.
template <class T>
std::vector<std::vector<size_t>> by_tensor(const std::vector<T>& list, size_t tensors) {
  std::vector<std::vector<size_t>> groups(tensors);
  for (size_t i = 0; i < list.size(); ++i) groups[static_cast<size_t>(list[i].tensor.value)].push_back(i);
  return groups;
}

// What comes to one device and goes from it, round by round.
class MemoryLedger {
 public:
  void brings(int32_t round, int64_t bytes) { rounds_[round].brought += bytes; }
  void frees(int32_t round, int64_t bytes) { rounds_[round].freed += bytes; }
  // DeviceMemory::peak_extra.
  int64_t peak_extra(int64_t before, int64_t after) const;

 private:
  struct Round {
    int64_t brought = 0, freed = 0;
  };
  std::map<int32_t, Round> rounds_;
};

}  // namespace scalai::plan::internal
