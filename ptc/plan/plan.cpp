#include "ptc/plan/plan.h"

#include <fmt/format.h>

#include "ptc/base/hash.h"
#include "ptc/base/status.h"

namespace scalai::plan {

std::string Location::str() const {
  switch (kind) {
    case Kind::kDevice: return fmt::format("g{}", index);
    case Kind::kHostMemory: return fmt::format("h{}.mem", index);
    case Kind::kStorage: break;
  }
  return "storage";
}

std::string_view name_of(TransferClass transfer_class) {
  switch (transfer_class) {
    case TransferClass::kKept: return "kept";
    case TransferClass::kSameDevice: return "same_device";
    case TransferClass::kSameHost: return "same_host";
    case TransferClass::kCrossHost: return "cross_host";
    case TransferClass::kFromStorage: break;
  }
  return "from_storage";
}

int64_t& ClassBytes::of(TransferClass transfer_class) {
  switch (transfer_class) {
    case TransferClass::kKept: return kept;
    case TransferClass::kSameDevice: return same_device;
    case TransferClass::kSameHost: return same_host;
    case TransferClass::kCrossHost: return cross_host;
    case TransferClass::kFromStorage: break;
  }
  return from_storage;
}

namespace {

void add_box(Hasher& hasher, const tensor::Box& box) {
  hasher.add(int64_t{box.rank});
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) hasher.add(box.lo[dim]).add(box.hi[dim]);
}

void add_devices(Hasher& hasher, const std::vector<DeviceId>& devices) {
  hasher.add(static_cast<int64_t>(devices.size()));
  for (const DeviceId device : devices) hasher.add(int64_t{device.value});
}

void add_bytes(Hasher& hasher, const ClassBytes& bytes) {
  hasher.add(bytes.kept).add(bytes.same_device).add(bytes.same_host).add(bytes.cross_host).add(bytes.from_storage);
}

}  // namespace

std::string digest_of(const Plan& plan) {
  Hasher hasher;
  hasher.add("scalai plan").add(int64_t{Plan::kSchemaVersion}).add(plan.planner).add(plan.from).add(plan.to);
  hasher.add(plan.from_epoch).add(plan.to_epoch).add(static_cast<int64_t>(plan.tensors.size()));
  for (const TensorInfo& tensor : plan.tensors) {
    hasher.add(tensor.name).add(static_cast<int64_t>(tensor.dtype));
    add_box(hasher, tensor::Box::whole(tensor.shape));
  }
  add_devices(hasher, plan.src_devices);
  add_devices(hasher, plan.dst_devices);
  hasher.add(int64_t{plan.rounds}).add(static_cast<int64_t>(plan.operations.size()));
  for (const Operation& operation : plan.operations) {
    hasher.add(static_cast<int64_t>(operation.transfer_class))
        .add(int64_t{operation.round})
        .add(int64_t{operation.hop});
    hasher.add(int64_t{operation.tensor.value}).add(static_cast<int64_t>(operation.src.kind));
    hasher.add(int64_t{operation.src.index}).add(int64_t{operation.dst.value}).add(operation.bytes);
    add_box(hasher, operation.box);
  }
  hasher.add(static_cast<int64_t>(plan.missing.size()));
  for (const Missing& missing : plan.missing) {
    hasher.add(int64_t{missing.tensor.value});
    add_box(hasher, missing.box);
  }
  add_bytes(hasher, plan.bytes);
  add_bytes(hasher, plan.lower_bound);
  hasher.add(plan.lower_bound_any_placement_cross_host).add(int64_t{plan.survives_host_losses});
  return hasher.hex();
}

}  // namespace scalai::plan
