#include "executor/controller/shown_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"
#include "ptc/state/collection/collection_file.h"

namespace scalai::executor::controller {

using proto::CommandBody;

absl::StatusOr<proto::LiveState> show_state(WorkerPool& pool, const std::set<HostId>& hosts, const ShownState& shown,
                                            state::StateVersion version, const LiveSteps::Kind& kind) {
  const collection::Collection& side = *shown.collection;
  proto::LiveState live;
  for (size_t i = 0; !kind.optimizer && i < side.tensors.size(); ++i) {
    const model::StateKind of_tensor = side.tensors[i].kind;
    if (of_tensor == model::StateKind::kParam || of_tensor == model::StateKind::kBuffer)
      live.add_tensors(static_cast<int32_t>(i));
  }
  CommandBody body;
  CommandBody::Copy& copy = *body.mutable_copy();
  copy.set_job(shown.job);
  copy.set_from_version(state::StateVersion::epoch(side.epoch).wire());
  copy.set_to_version(version.wire());
  copy.set_own_devices(true);
  copy.set_in_place(true);
  copy.set_fleeting(kind.fleeting);
  copy.set_digest_bytes(kind.digest_bytes);
  copy.set_stats(kind.stats);
  *copy.mutable_tensors() = live.tensors();
  SCALAI_ASSIGN_OR_RETURN(std::vector<proto::ReplyBody> replies, pool.call("copy", hosts, body));
  live.set_job(shown.job);
  live.set_name(shown.name);
  live.set_version(version.wire());
  live.set_step(shown.step);
  live.set_collection(collection::collection_text(side, {}));
  live.set_model(shown.model);
  for (const int gpus : shown.gpus_of_host) live.add_gpus_of_host(gpus);
  for (const HostId host : hosts) *live.add_peers() = pool.peer_of(host);
  live.set_force_network(pool.forces_network());
  live.set_digest_bytes(kind.digest_bytes);
  for (proto::ReplyBody& reply : replies) {
    for (proto::BoxDigests& one : *reply.mutable_digests()) *live.add_digests() = std::move(one);
    for (proto::BoxStats& one : *reply.mutable_stats()) *live.add_stats() = std::move(one);
  }
  return live;
}

}  // namespace scalai::executor::controller
