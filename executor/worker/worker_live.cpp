// Copies into this host's memory, and what of devices' state is shown in place until something is about to change it.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "executor/state/digest.h"
#include "executor/worker/box_stats.h"
#include "executor/worker/internal/handling.h"
#include "ptc/base/parallel.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"
#include "ptc/collection/rank_parts.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {

absl::Status Worker::Handling::copy(const CommandBody& body) {
  const CommandBody::Copy& copy = body.copy();
  Store& store = *host_store();
  SCALAI_ASSIGN_OR_RETURN(const VersionKey from, key_of(copy.job(), copy.from_version()));
  if (copy.stats()) return stats_held(from, {copy.tensors().begin(), copy.tensors().end()});
  SCALAI_ASSIGN_OR_RETURN(const VersionKey to, key_of(copy.job(), copy.to_version()));
  if (from == to) return invalid(fmt::format("{} cannot be copied onto itself", from.str()));
  if (copy.in_place()) show_no_more(to);
  store.drop(to);
  std::vector<BoxCopy> batch;
  if (copy.own_devices()) {
    const std::set<int32_t> wanted(copy.tensors().begin(), copy.tensors().end());
    bool shown = false;
    for (const DeviceId device : places_.devices()) {
      for (const auto& [tensor, pieces] : store_of(device).pieces(from)) {
        if (!wanted.empty() && !wanted.contains(static_cast<int32_t>(tensor.value))) continue;
        const bool stays = copy.in_place() && can_stay(device, from, tensor);
        for (const Piece& piece : pieces)
          SCALAI_RETURN_IF_ERROR(
              stays ? store_of(device).keep(from, to.version, tensor, piece.part)
                    : copy_box_in(Location::device(device), from, to, tensor, piece.part, piece.dtype, batch));
      }
      if (store_of(device).pieces(to).empty()) continue;
      SCALAI_RETURN_IF_ERROR(store_of(device).publish(to));
      shown = true;
    }
    if (shown) job(copy.job()).in_place.push_back({to.version, copy.fleeting()});
    if (copy.digest_bytes() > 0) SCALAI_RETURN_IF_ERROR(digest_held(from, wanted, copy.digest_bytes()));
  }
  for (const CommandBody::Copy::From& source : copy.from()) {
    const std::optional<Location> place = parse_place(source.place());
    if (!place || !places_.in_cluster(*place))
      return invalid(fmt::format("\"{}\" is no place of the cluster", source.place()));
    const Location src = copy.from_host_memory() ? Location::host_memory(places_.host_of(*place)) : *place;
    for (const proto::TensorBox& one : source.boxes()) {
      SCALAI_ASSIGN_OR_RETURN(const Box box, box_of(one));
      SCALAI_ASSIGN_OR_RETURN(const DType dtype, dtype_of(one));
      SCALAI_RETURN_IF_ERROR(copy_box_in(src, from, to, TensorId(one.tensor()), box, dtype, batch));
    }
  }
  SCALAI_RETURN_IF_ERROR(places_.backend().copy(batch));
  if (store.pieces(to).empty()) return absl::OkStatus();
  return store.publish(to);
}

// Of a box that several devices hold the holders take turns, from tensor to tensor.
absl::Status Worker::Handling::stats_held(const VersionKey& key, const std::set<int32_t>& wanted) {
  const collection::Collection* const side = side_of(known_job(key.job), key.version);
  if (side == nullptr) return not_held(key);
  std::vector<BoxHash> boxes;
  for (size_t i = 0; i < side->tensors.size(); ++i) {
    const TensorId tensor(static_cast<int64_t>(i));
    if (!wanted.empty() && !wanted.contains(static_cast<int32_t>(i))) continue;
    for (const collection::RankPart& part : collection::rank_parts(*side, tensor)) {
      const LogicalRank rank = part.ranks[i % part.ranks.size()];
      const DeviceId device = side->device_of_rank[static_cast<size_t>(rank.value)];
      if (places_.host_of(Location::device(device)) != places_.host()) continue;
      for (const tensor::Piece& piece : part.buffer.pieces) {
        for (const Piece& held : store_of(device).find(key, tensor, piece.box)) {
          boxes.push_back({held.part, store_of(device).target(held).source()});
          set_box(held.part, tensor, held.dtype, *reply.add_stats()->mutable_box());
        }
      }
    }
  }
  SCALAI_ASSIGN_OR_RETURN(const std::vector<tensor::ElementStats> found,
                          box_stats(places_.backend(), boxes, worker_.threads_));
  for (size_t i = 0; i < found.size(); ++i) set_stats(found[i], *reply.mutable_stats(static_cast<int>(i)));
  return absl::OkStatus();
}

// Of a box that several devices hold the first one's, all of which are the same.
absl::Status Worker::Handling::digest_held(const VersionKey& key, const std::set<int32_t>& wanted, int64_t bytes) {
  struct One {
    const Store* store;
    TensorId tensor;
    Piece piece;
  };
  std::map<std::pair<TensorId, Box>, One> held;
  for (const DeviceId device : places_.devices()) {
    for (const auto& [tensor, pieces] : store_of(device).pieces(key)) {
      if (!wanted.empty() && !wanted.contains(static_cast<int32_t>(tensor.value))) continue;
      for (const Piece& piece : pieces) held.try_emplace({tensor, piece.part}, One{&store_of(device), tensor, piece});
    }
  }
  for (const auto& [box, one] : held) {
    std::vector<BoxHash> parts;
    const Source source = one.store->target(one.piece).source();
    for (const Box& chunk : digest_chunks(one.piece.part, one.piece.dtype, bytes)) parts.push_back({chunk, source});
    const size_t shares = std::min(parts.size(), static_cast<size_t>(worker_.threads_));
    std::vector<std::vector<uint64_t>> digests(shares);
    SCALAI_RETURN_IF_ERROR(try_parallel_for(worker_.threads_, shares, [&](size_t i) -> absl::Status {
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

absl::Status Worker::Handling::copy_box_in(const Location& src, const VersionKey& from, const VersionKey& to,
                                           TensorId tensor, const Box& box, DType dtype, std::vector<BoxCopy>& batch) {
  Store& store = *host_store();
  std::vector<Box> there;
  for (const Piece& piece : store.find(to, tensor, box)) there.push_back(piece.part);
  for (const Box& part : subtract(box, there)) {
    SCALAI_ASSIGN_OR_RETURN(const Target target, store.add(to, tensor, part, dtype));
    SCALAI_RETURN_IF_ERROR(places_.gather(src, from, tensor, part, target, batch));
    reply.set_bytes(reply.bytes() + packed_bytes(part, dtype));
  }
  return absl::OkStatus();
}

// Others can map it, and nothing changes it before its trainer says so: forward passes write buffers.
bool Worker::Handling::can_stay(DeviceId device, const VersionKey& key, TensorId tensor) {
  const collection::Collection* const side = side_of(known_job(key.job), key.version);
  return store_of(device).address().fd >= 0 && side != nullptr &&
         side->tensors[static_cast<size_t>(tensor.value)].kind != model::StateKind::kBuffer;
}

void Worker::Handling::show_no_more(const VersionKey& shown) {
  for (const DeviceId device : places_.devices()) store_of(device).drop(shown);
  if (Job* const known = known_job(shown.job); known != nullptr)
    std::erase_if(known->in_place, [&](const Job::InPlace& one) { return one.version == shown.version; });
}

// Peers find it in the host's memory before devices have it no more.
absl::Status Worker::Handling::copy_shown(const VersionKey& shown) {
  std::vector<BoxCopy> batch;
  for (const DeviceId device : places_.devices()) {
    for (const auto& [tensor, pieces] : store_of(device).pieces(shown)) {
      for (const Piece& piece : pieces)
        SCALAI_RETURN_IF_ERROR(
            copy_box_in(Location::device(device), shown, shown, tensor, piece.part, piece.dtype, batch));
    }
  }
  if (batch.empty()) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(places_.backend().copy(batch));
  return host_store()->publish(shown);
}

void Worker::Handling::leave_in_place(Job& job) {
  const int64_t told = reply.bytes();
  for (const Job::InPlace& one : std::vector<Job::InPlace>(job.in_place)) {
    const VersionKey shown{index_of(job), one.version};
    const absl::Status copied = one.fleeting ? absl::OkStatus() : copy_shown(shown);
    if (!copied.ok()) {
      say("worker: warning: readers lose a step of job {}: {}\n", job.name, message_of(copied));
      host_store()->drop(shown);
    }
    show_no_more(shown);
  }
  reply.set_bytes(told);
}

int32_t Worker::Handling::index_of(const Job& job) const {
  const auto found = std::find_if(worker_.jobs_.begin(), worker_.jobs_.end(),
                                  [&](const auto& entry) { return entry.second.get() == &job; });
  SCALAI_CHECK(found != worker_.jobs_.end());
  return found->first;
}

void Worker::Handling::leave_in_place_before(const CommandBody& body) {
  const auto of = [&](int32_t index) {
    if (Job* const known = known_job(index); known != nullptr && !known->received) leave_in_place(*known);
  };
  switch (body.what_case()) {
    case CommandBody::kCreate: return of(body.create().job());
    case CommandBody::kPrepare: return of(body.prepare().job());
    case CommandBody::kRound: return of(body.round().job());
    case CommandBody::kCommit: return of(body.commit().job());
    case CommandBody::kBegin: return of(body.begin().job());
    case CommandBody::kAdvance:  // real training has a later moment for it
      if (const Job* const known = known_job(body.advance().job()); known == nullptr || known->training == nullptr)
        of(body.advance().job());
      return;
    case CommandBody::kFail:
      for (const auto& [index, known] : worker_.jobs_) leave_in_place(*known);
      return;
    default: return;
  }
}

}  // namespace scalai::executor
