#include "executor/worker/internal/host_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "executor/state/copy.h"
#include "executor/state/digest.h"
#include "executor/worker/box_stats.h"
#include "ptc/base/parallel.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/rank_parts.h"

namespace scalai::executor::worker {

using state::Piece;
using state::VersionKey;
using tensor::Box;

absl::Status HostCopies::copy(const CommandBody& body, ReplyBody& reply) {
  const CommandBody::Copy& copy = body.copy();
  state::Store& store = *holdings_.host_store();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey from, key_of(copy.job(), copy.from_version()));
  if (copy.stats()) return stats_held(body, reply);
  SCALAI_ASSIGN_OR_RETURN(const VersionKey to, key_of(copy.job(), copy.to_version()));
  if (from == to) return invalid(fmt::format("{} cannot be copied onto itself", from.str()));
  if (copy.in_place()) forget(to);
  store.drop(to);
  Batch batch;
  if (copy.own_devices()) SCALAI_RETURN_IF_ERROR(copy_devices(body, from, to, batch, reply));
  for (const CommandBody::Copy::From& source : copy.from()) {
    const std::optional<Location> place = parse_place(source.place());
    if (!place || !places_.in_cluster(*place))
      return invalid(fmt::format("\"{}\" is no place of the cluster", source.place()));
    const Location src = copy.from_host_memory() ? Location::host_memory(places_.host_of(*place)) : *place;
    for (const proto::TensorBox& one : source.boxes()) {
      SCALAI_ASSIGN_OR_RETURN(const Box box, box_of(one));
      SCALAI_ASSIGN_OR_RETURN(const tensor::DType dtype, dtype_of(one));
      SCALAI_RETURN_IF_ERROR(copy_box_in(src, from, to, TensorId(one.tensor()), box, dtype, batch));
    }
  }
  reply.set_bytes(batch.bytes);
  SCALAI_RETURN_IF_ERROR(places_.backend().copy(batch.copies));
  if (store.pieces(to).empty()) return absl::OkStatus();
  return store.publish(to);
}

absl::Status HostCopies::copy_devices(const CommandBody& body, const VersionKey& from, const VersionKey& to,
                                      Batch& batch, ReplyBody& reply) {
  const CommandBody::Copy& copy = body.copy();
  const std::set<int32_t> wanted(copy.tensors().begin(), copy.tensors().end());
  bool shown = false;
  for (const DeviceId device : places_.devices()) {
    for (const auto& [tensor, pieces] : holdings_.store(device).pieces(from)) {
      if (!wanted.empty() && !wanted.contains(static_cast<int32_t>(tensor.value))) continue;
      const bool stays = copy.in_place() && can_stay(device, from, tensor);
      for (const Piece& piece : pieces)
        SCALAI_RETURN_IF_ERROR(
            stays ? holdings_.store(device).keep(from, to.version, tensor, piece.part)
                  : copy_box_in(Location::device(device), from, to, tensor, piece.part, piece.dtype, batch));
    }
    if (holdings_.store(device).pieces(to).empty()) continue;
    SCALAI_RETURN_IF_ERROR(holdings_.store(device).publish(to));
    shown = true;
  }
  if (shown) shown_[from.job].push_back({to.version, copy.fleeting()});
  return copy.digest_bytes() > 0 ? digest_held(from, wanted, copy.digest_bytes(), reply) : absl::OkStatus();
}

// Of a box that several devices hold the holders take turns, from tensor to tensor.
absl::Status HostCopies::stats_held(const CommandBody& body, ReplyBody& reply) const {
  const CommandBody::Copy& copy = body.copy();
  SCALAI_ASSIGN_OR_RETURN(const Holdings::Held held, holdings_.held(copy.job(), copy.from_version()));
  const collection::Collection& side = held.side;
  const std::set<int32_t> wanted(copy.tensors().begin(), copy.tensors().end());
  std::vector<device::BoxHash> boxes;
  for (size_t i = 0; i < side.tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    if (!wanted.empty() && !wanted.contains(static_cast<int32_t>(i))) continue;
    for (const collection::RankPart& part : collection::rank_parts(side, tensor)) {
      const LogicalRank rank = part.ranks[i % part.ranks.size()];
      const DeviceId device = side.device_of_rank[static_cast<size_t>(rank.value)];
      if (places_.host_of(Location::device(device)) != places_.host()) continue;
      const state::Store& store = holdings_.store(device);
      for (const tensor::Piece& piece : part.buffer.pieces) {
        for (const Piece& one : store.find(held.key, tensor, piece.box)) {
          boxes.push_back({one.part, store.target(one).source()});
          set_box(one.part, tensor, one.dtype, *reply.add_stats()->mutable_box());
        }
      }
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const std::vector<tensor::ElementStats> found,
                          box_stats(places_.backend(), boxes, holdings_.threads()));
  for (size_t i = 0; i < found.size(); ++i) set_stats(found[i], *reply.mutable_stats(static_cast<int>(i)));
  return absl::OkStatus();
}

// Of a box that several devices hold the first one's, all of which are the same.
absl::Status HostCopies::digest_held(const VersionKey& key, const std::set<int32_t>& wanted, int64_t bytes,
                                     ReplyBody& reply) const {
  struct One {
    const state::Store* store;
    TensorId tensor;
    Piece piece;
  };
  std::map<std::pair<TensorId, Box>, One> held;
  for (const DeviceId device : places_.devices()) {
    for (const auto& [tensor, pieces] : holdings_.store(device).pieces(key)) {
      if (!wanted.empty() && !wanted.contains(static_cast<int32_t>(tensor.value))) continue;
      for (const Piece& piece : pieces)
        held.try_emplace({tensor, piece.part}, One{&holdings_.store(device), tensor, piece});
    }
  }
  for (const auto& [box, one] : held) {
    std::vector<device::BoxHash> parts;
    const state::Source source = one.store->target(one.piece).source();
    for (const Box& chunk : state::digest_chunks(one.piece.part, one.piece.dtype, bytes))
      parts.push_back({chunk, source});
    const size_t shares = std::min(parts.size(), static_cast<size_t>(holdings_.threads()));
    std::vector<std::vector<uint64_t>> digests(shares);
    SCALAI_RETURN_IF_ERROR(try_parallel_for(holdings_.threads(), shares, [&](size_t i) -> absl::Status {
      const size_t begin = parts.size() * i / shares, end = parts.size() * (i + 1) / shares;
      SCALAI_ASSIGN_OR_RETURN(digests[i], places_.backend().hash(std::span(parts).subspan(begin, end - begin)));
      return absl::OkStatus();
    }));
    proto::BoxDigests& out = *reply.add_digests();
    set_box(one.piece.part, one.tensor, one.piece.dtype, *out.mutable_box());
    for (const std::vector<uint64_t>& share : digests) {
      for (const uint64_t digest : share) out.add_digests(digest);
    }
  }
  return absl::OkStatus();
}

absl::Status HostCopies::copy_box_in(const Location& src, const VersionKey& from, const VersionKey& to, TensorId tensor,
                                     const Box& box, tensor::DType dtype, Batch& batch) {
  state::Store& store = *holdings_.host_store();
  std::vector<Box> there;
  for (const Piece& piece : store.find(to, tensor, box)) there.push_back(piece.part);
  for (const Box& part : subtract(box, there)) {
    SCALAI_ASSIGN_OR_RETURN(const state::Target target, store.add(to, tensor, part, dtype));
    SCALAI_RETURN_IF_ERROR(places_.gather(src, from, tensor, part, target, batch.copies));
    batch.bytes += state::packed_bytes(part, dtype);
  }
  return absl::OkStatus();
}

// Others can map it, and nothing changes it before its trainer says so: forward passes write buffers.
bool HostCopies::can_stay(DeviceId device, const VersionKey& key, TensorId tensor) const {
  const collection::Collection* const side = holdings_.side_of(key);
  return holdings_.store(device).address().fd >= 0 && side != nullptr &&
         side->tensors[static_cast<size_t>(tensor.value)].kind != model::StateKind::kBuffer;
}

void HostCopies::forget(const VersionKey& shown) {
  for (const DeviceId device : places_.devices()) holdings_.store(device).drop(shown);
  if (const auto found = shown_.find(shown.job); found != shown_.end())
    std::erase_if(found->second, [&](const Shown& one) { return one.version == shown.version; });
}

bool HostCopies::shows(int32_t job) const {
  const auto found = shown_.find(job);
  return found != shown_.end() && !found->second.empty();
}

// Peers find it in the host's memory before devices have it no more.
absl::Status HostCopies::copy_shown(const VersionKey& shown) {
  Batch batch;
  for (const DeviceId device : places_.devices()) {
    for (const auto& [tensor, pieces] : holdings_.store(device).pieces(shown)) {
      for (const Piece& piece : pieces)
        SCALAI_RETURN_IF_ERROR(
            copy_box_in(Location::device(device), shown, shown, tensor, piece.part, piece.dtype, batch));
    }
  }
  if (batch.copies.empty()) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(places_.backend().copy(batch.copies));
  return holdings_.host_store()->publish(shown);
}

void HostCopies::leave(int32_t job) {
  for (const Shown& one : std::vector<Shown>(shown_[job])) {
    const VersionKey shown{job, one.version};
    const absl::Status copied = one.fleeting ? absl::OkStatus() : copy_shown(shown);
    if (!copied.ok()) {
      say("worker: warning: readers lose a step of job {}: {}\n", holdings_.job(job).name, message_of(copied));
      holdings_.host_store()->drop(shown);
    }
    forget(shown);
  }
}

void HostCopies::before(const CommandBody& body) {
  const auto of = [&](int32_t index) {
    const WorkerJob* const job = holdings_.find(index);
    if (shows(index) && job != nullptr && !job->received) leave(index);
  };
  switch (body.what_case()) {
    case CommandBody::kCreate: return of(body.create().job());
    case CommandBody::kPrepare: return of(body.prepare().job());
    case CommandBody::kRound: return of(body.round().job());
    case CommandBody::kCommit: return of(body.commit().job());
    case CommandBody::kBegin: return of(body.begin().job());
    case CommandBody::kAdvance:
      if (const WorkerJob* const job = holdings_.find(body.advance().job()); job == nullptr || job->training == nullptr)
        of(body.advance().job());
      return;
    case CommandBody::kFail:
      for (const auto& [index, shown] : shown_) leave(index);
      return;
    default: return;
  }
}

}  // namespace scalai::executor::worker
