#include "ptc/plan/plan_io.h"

#include <fmt/format.h>
#include <google/protobuf/stubs/logging.h>

#include <algorithm>
#include <limits>

#include "ptc/base/status.h"
#include "ptc/plan/internal/plan_limits.h"
#include "ptc/plan/plan_draft.h"
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
  out.set_derived(bytes.derived);
  out.set_same_device(bytes.same_device);
  out.set_same_host(bytes.same_host);
  out.set_cross_host(bytes.cross_host);
  out.set_from_storage(bytes.from_storage);
}

ClassBytes read_bytes(const proto::Plan::ClassBytes& in) {
  return {.kept = in.kept(),
          .same_device = in.same_device(),
          .derived = in.derived(),
          .same_host = in.same_host(),
          .cross_host = in.cross_host(),
          .from_storage = in.from_storage()};
}

// Runs of numbers with one step between them: a rank set of a regular mesh is few runs.
class RunWriter {
 public:
  explicit RunWriter(proto::Plan::Runs& out) : out_(out) {}
  void add(int32_t class_and_hop, int32_t src, int32_t dst) {
    const int last = out_.count_size() - 1;
    if (open_ && out_.class_and_hop(last) == class_and_hop) {
      const int32_t count = out_.count(last);
      const int32_t src_step = src - src_, dst_step = dst - dst_;
      if (count == 1) {
        out_.set_src_step(last, src_step);
        out_.set_dst_step(last, dst_step);
      }
      if (out_.src_step(last) == src_step && out_.dst_step(last) == dst_step) {
        out_.set_count(last, count + 1);
        src_ = src;
        dst_ = dst;
        return;
      }
    }
    out_.add_class_and_hop(class_and_hop);
    out_.add_src(src);
    out_.add_dst(dst);
    out_.add_src_step(0);
    out_.add_dst_step(0);
    out_.add_count(1);
    open_ = true;
    src_ = src;
    dst_ = dst;
  }
  void close() { open_ = false; }  // no run goes on beyond its pattern

 private:
  proto::Plan::Runs& out_;
  bool open_ = false;
  int32_t src_ = 0, dst_ = 0;  // the last of the open run
};

void write_patterns(const Patterns& patterns, proto::Plan::Patterns& out) {
  RunWriter legs(*out.mutable_legs()), frees(*out.mutable_frees());
  for (int32_t pattern = 0; pattern < patterns.size(); ++pattern) {
    for (const Leg& leg : patterns.legs(pattern))
      legs.add(static_cast<int32_t>(leg.transfer_class) + kTransferClasses * leg.hop, code_of(leg.src), leg.dst.value);
    for (const DeviceId device : patterns.frees(pattern)) frees.add(0, 0, device.value);
    legs.close();
    frees.close();
    out.add_leg_count(static_cast<int32_t>(patterns.legs(pattern).size()));
    out.add_free_count(static_cast<int32_t>(patterns.frees(pattern).size()));
  }
  if (out.frees().count_size() == 0) out.clear_frees();  // an empty message could be damaged unseen
}

void write_instances(const Plan& plan, proto::Plan::Instances& out) {
  for (const Instance& instance : plan.instances()) {
    out.add_round(instance.round);
    out.add_pattern(instance.pattern);
    out.add_tensors(instance.tensors);
    for (size_t dim = 0; dim < static_cast<size_t>(instance.box.rank); ++dim) {
      out.add_lo(instance.box.lo[dim]);
      out.add_hi(instance.box.hi[dim]);
    }
  }
}

absl::StatusOr<tensor::DType> read_dtype(const std::string& tensor, const std::string& name) {
  const auto dtype = tensor::parse_dtype(name);
  if (!dtype.ok()) return invalid(fmt::format("plan: tensor \"{}\": {}", tensor, message_of(dtype.status())));
  return dtype;
}

absl::Status read_tensors(const proto::Plan& in, PlanDraft& plan) {
  for (const proto::Plan::Tensor& tensor : in.tensors()) {
    SCALAI_ASSIGN_OR_RETURN(const tensor::DType dtype, read_dtype(tensor.name(), tensor.dtype()));
    SCALAI_ASSIGN_OR_RETURN(const tensor::DType from_dtype, read_dtype(tensor.name(), tensor.from_dtype()));
    if (tensor.shape_size() > tensor::kMaxRank) {
      return invalid(fmt::format("plan: tensor \"{}\" has {} dimensions, at most {} are possible", tensor.name(),
                                 tensor.shape_size(), tensor::kMaxRank));
    }
    const std::vector<int64_t> extents(tensor.shape().begin(), tensor.shape().end());
    int64_t bytes = std::max(tensor::size_of(dtype), tensor::size_of(from_dtype));
    for (const int64_t extent : extents) {
      if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
        return invalid(fmt::format("plan: tensor \"{}\" has an impossible shape", tensor.name()));
      }
    }
    const TensorId derived_from(int64_t{tensor.derived_from()} - 1);
    if (derived_from.value < -1 || derived_from.value >= in.tensors_size())
      return invalid(fmt::format("plan: tensor \"{}\" is derived from tensor {}, which does not exist", tensor.name(),
                                 derived_from.value));
    plan.tensors.push_back({tensor.name(), dtype, from_dtype, tensor::Shape(extents), derived_from});
  }
  return absl::OkStatus();
}

absl::Status unequal(std::string_view what) {
  return invalid(fmt::format("plan: columns of unequal length ({})", what));
}

class BoxReader {
 public:
  using Column = google::protobuf::RepeatedField<int64_t>;
  BoxReader(const Column& lo, const Column& hi, const std::vector<TensorInfo>& tensors)
      : lo_(lo), hi_(hi), tensors_(tensors) {}

  absl::StatusOr<tensor::Box> next(int64_t id) {
    if (id < 0 || static_cast<size_t>(id) >= tensors_.size())
      return invalid(fmt::format("plan: there is no tensor {}", id));
    const TensorInfo& tensor = tensors_[static_cast<size_t>(id)];
    const int rank = tensor.shape.rank();
    if (lo_.size() - at_ < rank || hi_.size() - at_ < rank) return unequal("the bounds of the boxes");
    tensor::Box box;
    box.rank = static_cast<int8_t>(rank);
    for (int dim = 0; dim < rank; ++dim, ++at_) {
      const int64_t lo = lo_[at_];
      const int64_t hi = hi_[at_];
      if (lo < 0 || lo > hi || hi > tensor.shape[dim]) {
        return invalid(fmt::format("plan: a box of tensor \"{}\" is not inside {}", tensor.name, tensor.shape.str()));
      }
      box.lo[static_cast<size_t>(dim)] = lo;
      box.hi[static_cast<size_t>(dim)] = hi;
    }
    return box;
  }

  absl::Status at_end() const {
    return at_ == lo_.size() && at_ == hi_.size() ? absl::OkStatus() : unequal("the bounds of the boxes");
  }

 private:
  const Column& lo_;
  const Column& hi_;
  const std::vector<TensorInfo>& tensors_;
  int at_ = 0;
};

class RunReader {
 public:
  RunReader(const proto::Plan::Runs& in, bool ids_only) : in_(in), ids_only_(ids_only) {}

  absl::Status check() const {
    const int count = in_.count_size();
    for (const int other :
         {in_.class_and_hop_size(), in_.src_size(), in_.dst_size(), in_.src_step_size(), in_.dst_step_size()}) {
      if (other != count) return unequal("the runs of the patterns");
    }
    for (int run = 0; run < count; ++run) {  // one way to write it: damage never goes unseen
      const bool steps = in_.src_step(run) != 0 || in_.dst_step(run) != 0;
      if (in_.count(run) < 1 || (in_.count(run) == 1 && steps) ||
          (ids_only_ && (in_.class_and_hop(run) != 0 || in_.src(run) != 0)))
        return invalid(fmt::format("plan: run {} of the patterns is malformed", run));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Leg> next() {
    while (run_ < in_.count_size() && at_ >= in_.count(run_)) {
      ++run_;
      at_ = 0;
    }
    if (run_ >= in_.count_size()) return unequal("the patterns have more legs than their runs");
    const int64_t code = in_.class_and_hop(run_);
    const int64_t src = in_.src(run_) + int64_t{at_} * in_.src_step(run_);
    const int64_t dst = in_.dst(run_) + int64_t{at_} * in_.dst_step(run_);
    ++at_;
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    if (code < 0 || dst < 0 || dst > kMost || src < -kMost || src > kMost)
      return invalid("plan: a run of legs leads to devices that do not exist");
    return Leg{.transfer_class = static_cast<TransferClass>(code % kTransferClasses),
               .hop = static_cast<int32_t>(code / kTransferClasses),
               .src = location_of(static_cast<int32_t>(src)),
               .dst = DeviceId(dst)};
  }

  absl::Status at_end() const {
    const bool last = run_ >= in_.count_size() || (run_ == in_.count_size() - 1 && at_ >= in_.count(run_));
    return last ? absl::OkStatus() : unequal("the runs have more legs than the patterns");
  }

 private:
  const proto::Plan::Runs& in_;
  const bool ids_only_;  // frees: nothing but `dst`
  int run_ = 0;
  int32_t at_ = 0;
};

// A run is a few bytes and may stand for many legs; what a file can make us hold is bounded.
constexpr int64_t kMostLegs = int64_t{1} << 26;

absl::Status read_patterns(const proto::Plan::Patterns& in, PlanDraft& plan) {
  if (in.leg_count_size() != in.free_count_size()) return unequal("the sizes of the patterns");
  RunReader legs(in.legs(), false), frees(in.frees(), true);
  SCALAI_RETURN_IF_ERROR(legs.check());
  SCALAI_RETURN_IF_ERROR(frees.check());
  int64_t total = 0;
  for (int i = 0; i < in.leg_count_size(); ++i) {
    const bool possible = in.leg_count(i) >= 0 && in.leg_count(i) <= static_cast<int64_t>(plan.dst_devices.size()) &&
                          in.free_count(i) >= 0 && in.free_count(i) <= static_cast<int64_t>(plan.src_devices.size());
    if (!possible)
      return invalid(fmt::format("plan: pattern {} has fewer legs than none, or more legs than devices", i));
    total += int64_t{in.leg_count(i)} + in.free_count(i);
    if (total > kMostLegs) return invalid(fmt::format("plan: more than {} legs", kMostLegs));
    std::vector<Leg> pattern;
    for (int leg = 0; leg < in.leg_count(i); ++leg) {
      SCALAI_ASSIGN_OR_RETURN(pattern.emplace_back(), legs.next());
    }
    std::vector<DeviceId> devices;
    for (int device = 0; device < in.free_count(i); ++device) {
      SCALAI_ASSIGN_OR_RETURN(const Leg leg, frees.next());
      devices.push_back(leg.dst);
    }
    plan.patterns.add(pattern, devices);
  }
  SCALAI_RETURN_IF_ERROR(legs.at_end());
  return frees.at_end();
}

absl::Status read_tensor_sets(const proto::Plan& in, PlanDraft& plan) {
  for (const proto::Plan::TensorSet& set : in.tensor_sets()) {
    std::vector<TensorId>& tensors = plan.tensor_sets.emplace_back();
    for (const int32_t id : set.tensor()) {
      if (id < 0 || static_cast<size_t>(id) >= plan.tensors.size())
        return invalid(fmt::format("plan: there is no tensor {}", id));
      if (!tensors.empty() && plan.tensor(tensors.front()).shape != plan.tensors[static_cast<size_t>(id)].shape)
        return invalid(fmt::format("plan: tensor {} does not have the shape of the others in its set", id));
      tensors.push_back(TensorId(id));
    }
    if (tensors.empty()) return invalid("plan: an empty set of tensors");
  }
  return absl::OkStatus();
}

absl::Status read_instances(const proto::Plan::Instances& in, PlanDraft& plan) {
  const int count = in.pattern_size();
  for (const int other : {in.round_size(), in.tensors_size()}) {
    if (other != count)
      return invalid(fmt::format("plan: columns of unequal length ({} and {} instances)", count, other));
  }
  BoxReader boxes(in.lo(), in.hi(), plan.tensors);
  for (int i = 0; i < count; ++i) {
    const int32_t pattern = in.pattern(i), tensors = in.tensors(i);
    if (pattern < 0 || pattern >= plan.patterns.size())
      return invalid(fmt::format("plan: instance {} has pattern {}, which does not exist", i, pattern));
    if (tensors < 0 || static_cast<size_t>(tensors) >= plan.tensor_sets.size())
      return invalid(fmt::format("plan: instance {} has tensor set {}, which does not exist", i, tensors));
    const TensorId first = plan.tensor_sets[static_cast<size_t>(tensors)].front();
    SCALAI_ASSIGN_OR_RETURN(const tensor::Box box, boxes.next(first.value));
    plan.instances.push_back({in.round(i), pattern, tensors, box});
  }
  return boxes.at_end();
}

absl::Status read_missing(const proto::Plan::Boxes& in, PlanDraft& plan) {
  BoxReader boxes(in.lo(), in.hi(), plan.tensors);
  for (const int32_t id : in.tensor()) {
    SCALAI_ASSIGN_OR_RETURN(const tensor::Box box, boxes.next(id));
    plan.missing.push_back({TensorId(id), box});
  }
  return boxes.at_end();
}

absl::Status read_memory(const proto::Plan::Memory& in, PlanDraft& plan) {
  const int count = in.device_size();
  for (const int other : {in.before_size(), in.after_size(), in.peak_extra_size()}) {
    if (other != count) return unequal("the memory of the devices");
  }
  for (int i = 0; i < count; ++i)
    plan.memory.push_back({DeviceId(in.device(i)), in.before(i), in.after(i), in.peak_extra(i)});
  return absl::OkStatus();
}

}  // namespace

std::string serialize(const Plan& plan) {
  proto::Plan out;
  out.set_schema_version(Plan::kSchemaVersion);
  out.set_planner(plan.planner());
  out.set_from(plan.from());
  out.set_to(plan.to());
  out.set_from_epoch(plan.from_epoch());
  out.set_to_epoch(plan.to_epoch());
  for (const TensorInfo& tensor : plan.tensors()) {
    proto::Plan::Tensor& entry = *out.add_tensors();
    entry.set_name(tensor.name);
    entry.set_dtype(std::string(tensor::name_of(tensor.dtype)));
    entry.set_from_dtype(std::string(tensor::name_of(tensor.from_dtype)));
    entry.set_derived_from(tensor.derived_from.value + 1);
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) entry.add_shape(tensor.shape[dim]);
  }
  for (const DeviceId device : plan.src_devices()) out.add_src_devices(device.value);
  for (const DeviceId device : plan.dst_devices()) out.add_dst_devices(device.value);
  out.set_rounds(plan.rounds());
  out.set_memory_cap(plan.memory_cap() + 1);
  for (const std::vector<TensorId>& set : plan.tensor_sets()) {
    proto::Plan::TensorSet& entry = *out.add_tensor_sets();
    for (const TensorId id : set) entry.add_tensor(id.value);
  }
  write_patterns(plan.patterns(), *out.mutable_patterns());
  write_instances(plan, *out.mutable_instances());
  for (const Missing& missing : plan.missing()) add_box(*out.mutable_missing(), missing.tensor, missing.box);
  write_bytes(plan.bytes(), *out.mutable_bytes());
  write_bytes(plan.lower_bound(), *out.mutable_lower_bound());
  out.set_lower_bound_any_placement_cross_host(plan.lower_bound_any_placement_cross_host());
  out.set_survives_host_losses(plan.survives_host_losses());
  for (const DeviceMemory& memory : plan.memory()) {
    out.mutable_memory()->add_device(memory.device.value);
    out.mutable_memory()->add_before(memory.before);
    out.mutable_memory()->add_after(memory.after);
    out.mutable_memory()->add_peak_extra(memory.peak_extra);
  }
  out.set_digest(plan.digest());
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
  PlanDraft draft;
  draft.planner = in.planner();
  draft.from = in.from();
  draft.to = in.to();
  draft.from_epoch = in.from_epoch();
  draft.to_epoch = in.to_epoch();
  SCALAI_RETURN_IF_ERROR(read_tensors(in, draft));
  for (const int32_t device : in.src_devices()) draft.src_devices.push_back(DeviceId(device));
  for (const int32_t device : in.dst_devices()) draft.dst_devices.push_back(DeviceId(device));
  draft.rounds = in.rounds();
  if (in.memory_cap() < 0) return invalid(fmt::format("plan: a memory cap of {} bytes", in.memory_cap()));
  draft.memory_cap = in.memory_cap() - 1;
  SCALAI_RETURN_IF_ERROR(read_tensor_sets(in, draft));
  SCALAI_RETURN_IF_ERROR(read_patterns(in.patterns(), draft));
  SCALAI_RETURN_IF_ERROR(read_instances(in.instances(), draft));
  SCALAI_RETURN_IF_ERROR(read_memory(in.memory(), draft));
  SCALAI_RETURN_IF_ERROR(read_missing(in.missing(), draft));
  draft.bytes = read_bytes(in.bytes());
  draft.lower_bound = read_bytes(in.lower_bound());
  draft.lower_bound_any_placement_cross_host = in.lower_bound_any_placement_cross_host();
  draft.survives_host_losses = in.survives_host_losses();
  Plan plan = seal(std::move(draft));
  if (plan.digest() != in.digest()) {
    return invalid(
        fmt::format("the plan is damaged: it says digest {}, its content has {}", in.digest(), plan.digest()));
  }
  SCALAI_RETURN_IF_ERROR(internal::check_limits(plan));
  return plan;
}

}  // namespace scalai::plan
