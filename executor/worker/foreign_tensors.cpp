#include "executor/worker/foreign_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "executor/state/copy.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"
#include "ptc/state/tensor/box_chunks.h"
#include "ptc/state/transform/device.h"
#include "ptc/store/views/transforms.h"

namespace scalai::executor::worker {

using tensor::Box;

namespace {

constexpr int64_t kChunkElements = int64_t{1} << 20;

// The run's tensors by name and shape; reads say where their elements come from.
absl::StatusOr<std::shared_ptr<const store::Checkpoint>> described(const proto::Foreign& message,
                                                                   const collection::Collection& side) {
  store::HeldState held{.place = "the training run",
                        .collection = side,
                        .tensors = {},
                        .stamp = {},
                        .model = message.model(),
                        .id = "",
                        .read = [](TensorId, const Box&, int64_t, std::span<std::byte>) {
                          return absl::InternalError("read without a source");
                        }};
  for (size_t i = 0; i < side.tensors.size(); ++i) {
    const model::StateKind kind = side.tensors[i].kind;
    if (kind == model::StateKind::kParam || kind == model::StateKind::kBuffer)
      held.tensors.emplace_back(static_cast<int64_t>(i));
  }
  return store::Checkpoint::of_held(std::move(held));
}

// As many as fit into memory, and all of a row: a part of one reads the whole.
int64_t chunk_elements(const transform::Tensor& tensor, const Box& box) {
  int64_t row = 1;
  for (int dim = box.rank - 1; dim >= 0 && dim >= box.rank - (tensor.whole_dims - tensor.dropped_dims); --dim)
    row *= box.extent(dim);
  return std::max(kChunkElements, row);
}

}  // namespace

absl::StatusOr<ForeignTensors> ForeignTensors::make(const proto::Foreign& message,
                                                    const std::vector<plan::TensorInfo>& planned) {
  ForeignTensors all;
  if (message.transforms().empty()) return all;
  const std::vector<std::string> texts(message.transforms().begin(), message.transforms().end());
  SCALAI_ASSIGN_OR_RETURN(const std::vector<transform::Step> steps, transform::parse_steps(texts));
  SCALAI_ASSIGN_OR_RETURN(
      collection::CollectionFile file,
      collection::parse_collection(message.collection(), "the training run", collection::FileRole::kPlanned));
  all.side_ = std::move(file.collection);
  SCALAI_ASSIGN_OR_RETURN(const auto whole, described(message, all.side_));
  SCALAI_ASSIGN_OR_RETURN(store::Transformed made, store::transformed(whole, steps, {}, message.folder()));
  if (made.digest != message.transforms_digest())
    return absl::FailedPreconditionError(
        "what the steps of --transform read is not what it was at the begin: start scalai sync again");
  std::map<std::string, transform::Tensor*> by_name;
  for (transform::Tensor& tensor : made.tensors) by_name[tensor.name] = &tensor;
  for (size_t i = 0; i < planned.size(); ++i) {
    const plan::TensorInfo& wanted = planned[i];
    const int64_t origin = message.tensors(static_cast<int>(i));
    const auto found = by_name.find(wanted.name);
    if (found == by_name.end() || found->second->shape != wanted.shape || origin < 0 ||
        static_cast<size_t>(origin) >= all.side_.tensors.size())
      return invalid(
          fmt::format("the steps make no tensor \"{}\" {}, which is planned", wanted.name, wanted.shape.str()));
    transform::Tensor& tensor = *found->second;
    std::optional<Made>& entry = all.made_.emplace_back();
    if (tensor.made.empty() || transform::is_only_cast(tensor)) continue;
    const collection::LogicalTensor& there = all.side_.tensors[static_cast<size_t>(origin)];
    if ((tensor.origin.empty() ? tensor.name : tensor.origin) != there.name || tensor.dtype != wanted.dtype)
      return invalid(fmt::format("tensor \"{}\" is made of \"{}\" as {}, not of \"{}\" as {}", tensor.name,
                                 tensor.origin, name_of(tensor.dtype), there.name, name_of(wanted.dtype)));
    entry = Made{std::move(tensor), TensorId(origin)};
  }
  return all;
}

absl::Status ForeignTensors::read(device::Backend& backend, const Location& device, TensorId tensor, const Box& box,
                                  const state::Target& dst, const ReadPart& part) const {
  const Made& made = *made_[static_cast<size_t>(tensor.value)];
  const transform::Origin origin = [&](const Box& wanted, std::span<std::byte> into) {
    return read_origin(device, made.origin, wanted, into, part);
  };
  if (const auto steps = steps_at(backend, made.tensor, dst.data); steps != nullptr) {
    return transform::make_on(*steps, made.tensor, box, origin, [&](const Box& chunk, const std::byte* there) {
      const device::BoxCopy unpack{chunk, {chunk, made.tensor.dtype, there}, dst};
      return backend.copy({&unpack, 1});
    });
  }
  std::vector<std::byte> bytes;
  return tensor::for_each_chunk(box, chunk_elements(made.tensor, box), [&](const Box& chunk) {
    bytes.resize(static_cast<size_t>(state::packed_bytes(chunk, made.tensor.dtype)));
    SCALAI_RETURN_IF_ERROR(made.tensor.read(chunk, bytes, origin));
    const device::BoxCopy unpack{chunk, {chunk, made.tensor.dtype, bytes.data()}, dst};
    return backend.copy({&unpack, 1});
  });
}

std::shared_ptr<transform::Device> ForeignTensors::steps_at(device::Backend& backend, const transform::Tensor& tensor,
                                                            const std::byte* address) const {
  const auto steps = backend.steps_at(address);
  absl::Status why = steps.status();
  if (steps.ok()) {
    if (*steps == nullptr) return nullptr;
    why = transform::check_fits(tensor, (*steps)->chunk_bytes());
    if (why.ok()) return *steps;
  }
  std::call_once(*warned_, [&] {
    say("worker: warning: --transform: tensor \"{}\" is made by the host: {}\n", tensor.name, message_of(why));
  });
  return nullptr;
}

// Of the device that the plan says, then of those after it: its neighbours have the other parts of a row.
absl::Status ForeignTensors::read_origin(const Location& device, TensorId origin, const Box& box,
                                         std::span<std::byte> dst, const ReadPart& part) const {
  const collection::LogicalTensor& tensor = side_.tensors[static_cast<size_t>(origin.value)];
  const state::Target target{box, tensor.dtype, dst.data()};
  const std::vector<DeviceId>& devices = side_.device_of_rank;
  const auto first = std::find(devices.begin(), devices.end(), DeviceId(device.index)) - devices.begin();
  std::vector<Box> left = {box};
  absl::Status problem = absl::OkStatus();
  for (int64_t i = 0; i < std::ssize(devices) && !left.empty(); ++i) {
    const int64_t rank = (first + i) % std::ssize(devices);
    std::vector<Box> got;
    for (const tensor::Piece& piece : side_.pieces(origin, LogicalRank(rank)).pieces) {
      for (const Box& wanted : left) {
        const std::optional<Box> common = tensor::intersect(piece.box, wanted);
        if (!common) continue;
        const absl::Status status = part(Location::device(devices[static_cast<size_t>(rank)]), *common, target);
        status.ok() ? got.push_back(*common) : problem.Update(status);
      }
    }
    std::vector<Box> rest;
    for (const Box& wanted : left) {
      for (const Box& one : subtract(wanted, got)) rest.push_back(one);
    }
    left = std::move(rest);
  }
  if (left.empty()) return absl::OkStatus();
  return problem.ok() ? absl::NotFoundError(fmt::format("no device has \"{}\" {}", tensor.name, left.front().str()))
                      : problem;
}

}  // namespace scalai::executor::worker
