#include "ptc/plan/internal/plan_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "ptc/base/status.h"

namespace scalai::plan::internal {
namespace {

constexpr int64_t kMostId = (int64_t{1} << 24) - 1;     // of devices and hosts, as in lists of devices
constexpr int64_t kMostBytes = int64_t{1} << 62;        // of all operations, of all devices; sums of two still fit
constexpr int64_t kMostEpoch = (int64_t{1} << 62) - 1;  // has a next one

absl::Status outside(std::string_view what, int64_t value, int64_t least, int64_t most) {
  return invalid(fmt::format("plan: {} is {}, not within {} to {}", what, value, least, most));
}

absl::Status within(std::string_view what, int64_t value, int64_t least, int64_t most) {
  return value >= least && value <= most ? absl::OkStatus() : outside(what, value, least, most);
}

// A sum of bytes that is refused before it overflows.
class Sum {
 public:
  explicit Sum(std::string_view what) : what_(what) {}
  absl::Status add(int64_t bytes) {
    if (bytes < 0 || bytes > kMostBytes - sum_) return outside(what_, bytes, 0, kMostBytes - sum_);
    sum_ += bytes;
    return absl::OkStatus();
  }
  absl::Status add(const ClassBytes& bytes) {
    for (const int64_t part :
         {bytes.kept, bytes.same_device, bytes.derived, bytes.same_host, bytes.cross_host, bytes.from_storage}) {
      SCALAI_RETURN_IF_ERROR(add(part));
    }
    return absl::OkStatus();
  }

 private:
  std::string_view what_;
  int64_t sum_ = 0;
};

// The devices of both sides; no leg leads elsewhere.
class Devices {
 public:
  absl::Status add(const std::vector<DeviceId>& devices) {
    for (const DeviceId device : devices) {
      SCALAI_RETURN_IF_ERROR(within("a device", device.value, 0, kMostId));
      const auto index = static_cast<size_t>(device.value);
      if (index >= known_.size()) known_.resize(index + 1);
      if (!known_[index]) ++count_;
      known_[index] = true;
    }
    return absl::OkStatus();
  }
  int64_t count() const { return count_; }
  absl::Status check(int64_t device) const {
    if (device >= 0 && static_cast<size_t>(device) < known_.size() && known_[static_cast<size_t>(device)]) {
      return absl::OkStatus();
    }
    return invalid(fmt::format("plan: device {} is on neither side of the plan", device));
  }

 private:
  std::vector<bool> known_;
  int64_t count_ = 0;
};

absl::Status check_patterns(const Plan& plan, const Devices& devices) {
  for (int32_t pattern = 0; pattern < plan.patterns().size(); ++pattern) {
    for (const Leg& leg : plan.patterns().legs(pattern)) {
      SCALAI_RETURN_IF_ERROR(devices.check(leg.dst.value));
      SCALAI_RETURN_IF_ERROR(within("a hop", leg.hop, 0, devices.count()));  // no box comes to a device twice
      if (leg.src.kind == Location::Kind::kDevice) SCALAI_RETURN_IF_ERROR(devices.check(leg.src.index));
      if (leg.src.kind == Location::Kind::kHostMemory)
        SCALAI_RETURN_IF_ERROR(within("a host", leg.src.index, 0, kMostId));
    }
    for (const DeviceId device : plan.patterns().frees(pattern)) SCALAI_RETURN_IF_ERROR(devices.check(device.value));
  }
  return absl::OkStatus();
}

// Σ over instances of volume · Σ over tensors of bytes · (legs + frees): no other sum of a plan's bytes is larger.
absl::Status check_instances(const Plan& plan) {
  SCALAI_RETURN_IF_ERROR(within("the number of rounds", plan.rounds(), 1,
                                std::max<int64_t>(1, static_cast<int64_t>(plan.instances().size()))));
  std::vector<int64_t> bytes_of_set;
  for (const std::vector<TensorId>& set : plan.tensor_sets()) {
    int64_t& bytes = bytes_of_set.emplace_back();
    for (const TensorId id : set) {
      bytes += std::max(tensor::size_of(plan.tensor(id).dtype), tensor::size_of(plan.tensor(id).from_dtype));
    }
  }
  Sum sum("the bytes of an instance");
  for (const Instance& instance : plan.instances()) {
    SCALAI_RETURN_IF_ERROR(within("the round of an instance", instance.round, 0, plan.rounds() - 1));
    int64_t bytes = bytes_of_set[static_cast<size_t>(instance.tensors)];
    const auto ends = static_cast<int64_t>(plan.patterns().legs(instance.pattern).size() +
                                           plan.patterns().frees(instance.pattern).size());
    if (__builtin_mul_overflow(bytes, instance.box.volume(), &bytes) || __builtin_mul_overflow(bytes, ends, &bytes)) {
      return invalid(fmt::format("plan: an instance of tensor \"{}\" {} has more than 2^62 bytes",
                                 plan.tensor(plan.tensors_of(instance).front()).name, instance.box.str()));
    }
    SCALAI_RETURN_IF_ERROR(sum.add(bytes));
  }
  return absl::OkStatus();
}

absl::Status check_memory(const Plan& plan, const Devices& devices) {
  Sum sum("the memory of a device");
  for (const DeviceMemory& memory : plan.memory()) {
    SCALAI_RETURN_IF_ERROR(devices.check(memory.device.value));
    for (const int64_t bytes : {memory.before, memory.after, memory.peak_extra}) SCALAI_RETURN_IF_ERROR(sum.add(bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_limits(const Plan& plan) {
  for (const int64_t epoch : {plan.from_epoch(), plan.to_epoch()}) {
    SCALAI_RETURN_IF_ERROR(within("an epoch", epoch, 0, kMostEpoch));
  }
  SCALAI_RETURN_IF_ERROR(within("the memory cap", plan.memory_cap(), -1, kMostBytes));
  SCALAI_RETURN_IF_ERROR(within("survives_host_losses", plan.survives_host_losses(), 0, kMostId));
  Devices devices;
  SCALAI_RETURN_IF_ERROR(devices.add(plan.src_devices()));
  SCALAI_RETURN_IF_ERROR(devices.add(plan.dst_devices()));
  SCALAI_RETURN_IF_ERROR(check_patterns(plan, devices));
  SCALAI_RETURN_IF_ERROR(check_instances(plan));
  SCALAI_RETURN_IF_ERROR(check_memory(plan, devices));
  SCALAI_RETURN_IF_ERROR(Sum("the plan's bytes").add(plan.bytes()));
  SCALAI_RETURN_IF_ERROR(Sum("the lower bound").add(plan.lower_bound()));
  return within("the lower bound of any placement", plan.lower_bound_any_placement_cross_host(), 0, kMostBytes);
}

}  // namespace scalai::plan::internal
