#include "executor/live/live_answer.h"

#include <fmt/format.h>

#include <set>

#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "executor/worker/places.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::live {

using tensor::Box;

namespace {

constexpr int64_t kMostOfHost = 1024, kMostDevices = int64_t{1} << 20;

absl::Status wrong(const std::string& what) { return invalid("the controller's answer has " + what); }

absl::Status check_cluster(const proto::LiveState& live, const collection::Collection& side) {
  int64_t devices = 0;
  for (const int32_t gpus : live.gpus_of_host()) {
    devices += gpus;
    if (gpus < 0 || gpus > kMostOfHost || devices > kMostDevices)
      return wrong(fmt::format("a host of {} devices, {} in all", gpus, devices));
  }
  for (const DeviceId device : side.device_of_rank)
    if (device.value < 0 || device.value >= devices)
      return wrong(fmt::format("a rank on device {} of {}", device.value, devices));
  std::set<int32_t> hosts;
  for (const proto::Peer& peer : live.peers())
    if (peer.host() < 0 || peer.host() >= live.gpus_of_host_size() || !hosts.insert(peer.host()).second)
      return wrong(fmt::format("host {} of {}, or twice", peer.host(), live.gpus_of_host_size()));
  for (const int32_t tensor : live.tensors())
    if (tensor < 0 || tensor >= std::ssize(side.tensors))
      return wrong(fmt::format("tensor {} of {}", tensor, side.tensors.size()));
  return absl::OkStatus();
}

// A box of a tensor of the collection.
absl::StatusOr<Box> inside(const proto::TensorBox& message, const collection::Collection& side) {
  SCALAI_ASSIGN_OR_RETURN(const Box box, worker::box_of(message));
  SCALAI_ASSIGN_OR_RETURN(const tensor::DType dtype, worker::dtype_of(message));
  if (message.tensor() < 0 || message.tensor() >= std::ssize(side.tensors))
    return wrong(fmt::format("a box of tensor {} of {}", message.tensor(), side.tensors.size()));
  const collection::LogicalTensor& tensor = side.tensors[static_cast<size_t>(message.tensor())];
  const Box whole = Box::whole(tensor.shape);
  if (box.rank != whole.rank || !whole.contains(box) || dtype != tensor.dtype)
    return wrong(fmt::format("a box {} {} of tensor \"{}\", which is {} {}", box.str(), name_of(dtype), tensor.name,
                             tensor.shape.str(), name_of(tensor.dtype)));
  return box;
}

// As many as there are pieces; pieces are only cut where there are enough numbers for them.
absl::Status check_digests(const proto::BoxDigests& one, const Box& box, tensor::DType dtype, int64_t piece_bytes) {
  const int64_t least = state::packed_bytes(box, dtype) / piece_bytes;
  if (one.digests_size() >= least && one.digests_size() == std::ssize(state::digest_chunks(box, dtype, piece_bytes)))
    return absl::OkStatus();
  return wrong(fmt::format("{} digests of tensor {} {}", one.digests_size(), one.box().tensor(), box.str()));
}

}  // namespace

absl::Status check_live(const proto::LiveState& live, const collection::Collection& side) {
  SCALAI_RETURN_IF_ERROR(check_cluster(live, side));
  if (live.step() < 0) return wrong(fmt::format("step {}", live.step()));
  if (live.digest_bytes() < 0 || (live.digest_bytes() == 0 && live.digests_size() > 0))
    return wrong(fmt::format("digests of {} bytes each", live.digest_bytes()));
  for (const proto::BoxDigests& one : live.digests()) {
    SCALAI_ASSIGN_OR_RETURN(const Box box, inside(one.box(), side));
    SCALAI_ASSIGN_OR_RETURN(const tensor::DType dtype, worker::dtype_of(one.box()));
    SCALAI_RETURN_IF_ERROR(check_digests(one, box, dtype, live.digest_bytes()));
  }
  for (const proto::BoxStats& one : live.stats()) SCALAI_RETURN_IF_ERROR(inside(one.box(), side).status());
  return absl::OkStatus();
}

}  // namespace scalai::executor::live
