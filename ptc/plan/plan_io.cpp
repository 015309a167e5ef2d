#include "ptc/plan/plan_io.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>

#include "ptc/base/status.h"
#include "ptc/proto/plan.pb.h"

namespace scalai::plan {
namespace {

constexpr int32_t kStorageCode = -1;
constexpr int32_t kFirstHostCode = -2;  // of host 0; host h is -2 - h

int32_t code_of(const Location& location) {
  switch (location.kind) {
    case Location::Kind::kDevice: return location.index;
    case Location::Kind::kHostMemory: return kFirstHostCode - location.index;
    case Location::Kind::kStorage: break;
  }
  return kStorageCode;
}

Location location_of(int32_t code) {
  if (code >= 0) return Location::device(DeviceId(code));
  if (code == kStorageCode) return Location::storage();
  return Location::host_memory(HostId(int64_t{kFirstHostCode} - code));
}

void add_box(proto::Plan::Boxes& boxes, TensorId tensor, const tensor::Box& box) {
  boxes.add_tensor(tensor.value);
  for (size_t dim = 0; dim < static_cast<size_t>(box.rank); ++dim) {
    boxes.add_lo(box.lo[dim]);
    boxes.add_hi(box.hi[dim]);
  }
}

void write_bytes(const ClassBytes& bytes, proto::Plan::ClassBytes& out) {
  out.set_kept(bytes.kept);
  out.set_same_device(bytes.same_device);
  out.set_same_host(bytes.same_host);
  out.set_cross_host(bytes.cross_host);
  out.set_from_storage(bytes.from_storage);
}

ClassBytes read_bytes(const proto::Plan::ClassBytes& in) {
  return {.kept = in.kept(),
          .same_device = in.same_device(),
          .same_host = in.same_host(),
          .cross_host = in.cross_host(),
          .from_storage = in.from_storage()};
}

void write_operations(const Plan& plan, proto::Plan::Operations& out) {
  for (const Operation& operation : plan.operations) {
    out.add_transfer_class(static_cast<int32_t>(operation.transfer_class));
    out.add_round(operation.round);
    out.add_hop(operation.hop);
    add_box(*out.mutable_boxes(), operation.tensor, operation.box);
    out.add_src(code_of(operation.src));
    out.add_dst(operation.dst.value);
  }
}

absl::Status read_tensors(const proto::Plan& in, Plan& plan) {
  for (const proto::Plan::Tensor& tensor : in.tensors()) {
    const auto dtype = tensor::parse_dtype(tensor.dtype());
    if (!dtype.ok()) return invalid(fmt::format("plan: tensor \"{}\": {}", tensor.name(), message_of(dtype.status())));
    if (tensor.shape_size() > tensor::kMaxRank) {
      return invalid(fmt::format("plan: tensor \"{}\" has {} dimensions, at most {} are possible", tensor.name(),
                                 tensor.shape_size(), tensor::kMaxRank));
    }
    const std::vector<int64_t> extents(tensor.shape().begin(), tensor.shape().end());
    int64_t bytes = tensor::size_of(*dtype);
    for (const int64_t extent : extents) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
        return invalid(fmt::format("plan: tensor \"{}\" has an impossible shape", tensor.name()));
      }
    }
    plan.tensors.push_back({tensor.name(), *dtype, tensor::Shape(extents)});
  }
  return absl::OkStatus();
}

// Takes boxes out of the columns one after the other.
class BoxReader {
 public:
  BoxReader(const proto::Plan::Boxes& in, const std::vector<TensorInfo>& tensors) : in_(in), tensors_(tensors) {}

  absl::StatusOr<Missing> next(int index) {
    const int32_t id = in_.tensor(index);
    if (id < 0 || static_cast<size_t>(id) >= tensors_.size())
      return invalid(fmt::format("plan: there is no tensor {}", id));
    const TensorInfo& tensor = tensors_[static_cast<size_t>(id)];
    const int rank = tensor.shape.rank();
    if (in_.lo_size() - at_ < rank || in_.hi_size() - at_ < rank) return unequal();
    tensor::Box box;
    box.rank = static_cast<int8_t>(rank);
    for (int dim = 0; dim < rank; ++dim, ++at_) {
      const int64_t lo = in_.lo(at_);
      const int64_t hi = in_.hi(at_);
      if (lo < 0 || lo > hi || hi > tensor.shape[dim]) {
        return invalid(
            fmt::format("plan: box {} of tensor \"{}\" is not inside {}", index, tensor.name, tensor.shape.str()));
      }
      box.lo[static_cast<size_t>(dim)] = lo;
      box.hi[static_cast<size_t>(dim)] = hi;
    }
    return Missing{TensorId(id), box};
  }

  absl::Status at_end() const { return at_ == in_.lo_size() && at_ == in_.hi_size() ? absl::OkStatus() : unequal(); }

 private:
  static absl::Status unequal() { return invalid("plan: columns of unequal length (the bounds of the boxes)"); }

  const proto::Plan::Boxes& in_;
  const std::vector<TensorInfo>& tensors_;
  int at_ = 0;
};

absl::Status read_operations(const proto::Plan::Operations& in, Plan& plan) {
  const int count = in.transfer_class_size();
  for (const int other : {in.round_size(), in.boxes().tensor_size(), in.src_size(), in.dst_size(), in.hop_size()}) {
    if (other != count)
      return invalid(fmt::format("plan: columns of unequal length ({} and {} operations)", count, other));
  }
  BoxReader boxes(in.boxes(), plan.tensors);
  for (int i = 0; i < count; ++i) {
    SCALAI_ASSIGN_OR_RETURN(const Missing place, boxes.next(i));
    const int32_t transfer_class = in.transfer_class(i);
    if (transfer_class < 0 || transfer_class > static_cast<int32_t>(TransferClass::kFromStorage)) {
      return invalid(fmt::format("plan: operation {} has class {}, which does not exist", i, transfer_class));
    }
    const int64_t element_bytes = tensor::size_of(plan.tensors[static_cast<size_t>(place.tensor.value)].dtype);
    plan.operations.push_back({.transfer_class = static_cast<TransferClass>(transfer_class),
                               .round = in.round(i),
                               .hop = in.hop(i),
                               .tensor = place.tensor,
                               .box = place.box,
                               .src = location_of(in.src(i)),
                               .dst = DeviceId(in.dst(i)),
                               .bytes = place.box.volume() * element_bytes});
  }
  return boxes.at_end();
}

absl::Status read_missing(const proto::Plan::Boxes& in, Plan& plan) {
  BoxReader boxes(in, plan.tensors);
  for (int i = 0; i < in.tensor_size(); ++i) {
    SCALAI_ASSIGN_OR_RETURN(Missing missing, boxes.next(i));
    plan.missing.push_back(missing);
  }
  return boxes.at_end();
}

}  // namespace

std::string serialize(const Plan& plan) {
  proto::Plan out;
  out.set_schema_version(Plan::kSchemaVersion);
  out.set_planner(plan.planner);
  out.set_from(plan.from);
  out.set_to(plan.to);
  out.set_from_epoch(plan.from_epoch);
  out.set_to_epoch(plan.to_epoch);
  for (const TensorInfo& tensor : plan.tensors) {
    proto::Plan::Tensor& entry = *out.add_tensors();
    entry.set_name(tensor.name);
    entry.set_dtype(std::string(tensor::name_of(tensor.dtype)));
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) entry.add_shape(tensor.shape[dim]);
  }
  for (const DeviceId device : plan.src_devices) out.add_src_devices(device.value);
  for (const DeviceId device : plan.dst_devices) out.add_dst_devices(device.value);
  out.set_rounds(plan.rounds);
  write_operations(plan, *out.mutable_operations());
  for (const Missing& missing : plan.missing) add_box(*out.mutable_missing(), missing.tensor, missing.box);
  write_bytes(plan.bytes, *out.mutable_bytes());
  write_bytes(plan.lower_bound, *out.mutable_lower_bound());
  out.set_lower_bound_any_placement_cross_host(plan.lower_bound_any_placement_cross_host);
  out.set_survives_host_losses(plan.survives_host_losses);
  out.set_digest(plan.digest);
  return out.SerializeAsString();
}

absl::StatusOr<Plan> parse_plan(std::string_view bytes) {
  const google::protobuf::LogSilencer silence;  // what is wrong is in the status
  proto::Plan in;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !in.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid("this is not a plan, or not all of it");
  }
  if (in.schema_version() != Plan::kSchemaVersion) {
    return invalid(fmt::format("the plan has schema version {}, this program reads version {}", in.schema_version(),
                               Plan::kSchemaVersion));
  }
  Plan plan;
  plan.planner = in.planner();
  plan.from = in.from();
  plan.to = in.to();
  plan.from_epoch = in.from_epoch();
  plan.to_epoch = in.to_epoch();
  SCALAI_RETURN_IF_ERROR(read_tensors(in, plan));
  for (const int32_t device : in.src_devices()) plan.src_devices.push_back(DeviceId(device));
  for (const int32_t device : in.dst_devices()) plan.dst_devices.push_back(DeviceId(device));
  plan.rounds = in.rounds();
  SCALAI_RETURN_IF_ERROR(read_operations(in.operations(), plan));
  SCALAI_RETURN_IF_ERROR(read_missing(in.missing(), plan));
  plan.bytes = read_bytes(in.bytes());
  plan.lower_bound = read_bytes(in.lower_bound());
  plan.lower_bound_any_placement_cross_host = in.lower_bound_any_placement_cross_host();
  plan.survives_host_losses = in.survives_host_losses();
  plan.digest = in.digest();
  if (const std::string digest = digest_of(plan); digest != plan.digest) {
    return invalid(fmt::format("the plan is damaged: it says digest {}, its content has {}", plan.digest, digest));
  }
  return plan;
}

}  // namespace scalai::plan
