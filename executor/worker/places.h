#pragma once
// The places of a worker and what it knows of everybody else's: one Store for each device of its host and for the
// host's memory, and a way to read a box wherever it lies.
//
//   read(place, version, box) ── own store ─────────────────► copy
//                             ── segment of a local worker ─► copy, then look whether it still counts
//                             ── PeerTransport ─────────────► packed bytes
//
// Thread rules: setup(), peers() and fail() by one thread while nobody else reads; read() and the stores from any;
// answer() from any, at any time.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/control/messages.h"
#include "executor/state/peer_segment.h"
#include "executor/state/store.h"
#include "executor/transport/peer_transport.h"
#include "ptc/plan/plan.h"

namespace scalai::proto {
class TensorBox;
}

namespace scalai::executor {

using plan::Location;

// "g3", "h1.mem" back into a place.
std::optional<Location> parse_place(std::string_view text);
// What messages say of a box. Errors (InvalidArgument): too many dimensions, bounds that are no range, no such type.
absl::StatusOr<Box> box_of(const proto::TensorBox& box);
absl::StatusOr<DType> dtype_of(const proto::TensorBox& box);

class Places {
 public:
  // `transport` may be null: then only workers of this machine are reached. It outlives this.
  Places(HostId host, SegmentOptions segments, PeerTransport* transport)
      : host_(host), segments_(std::move(segments)), transport_(transport) {}

  // Devices of each host, in order. Stores that are there already stay. Errors: InvalidArgument (this host is not among
  // them, or a number makes no sense), those of Store::create.
  absl::Status setup(const std::vector<int>& gpus_of_host);
  // Where others' places are. Places that are not named any more are forgotten. A worker without descriptors, or any
  // with `force_network`, is read through the transport.
  absl::Status peers(const std::vector<WorkerJoined>& workers, bool force_network);
  std::vector<WorkerPlace> addresses() const;

  HostId host() const { return host_; }
  bool in_cluster(const Location& place) const;                      // a device or a host's memory that setup() named
  HostId host_of(const Location& place) const;                       // CHECK: in_cluster
  const std::vector<DeviceId>& devices() const { return devices_; }  // of this host
  Store* own(const Location& place) const;                           // null: somebody else's; until fail(place)
  std::vector<Store*> stores() const;
  // A place that lost all it held: a new store. What peers have mapped of the old one is forgotten with their next
  // peers().
  absl::Status fail(const Location& place);

  // Copies `box` of what the place has of this version, cast to dst's type. Errors: NotFound (it has not all of it),
  // Unavailable (its worker is gone, or was never named), InvalidArgument (no such cast).
  absl::Status read(const Location& place, const VersionKey& version, TensorId tensor, const Box& box,
                    const Target& dst);
  // What the transport's handler answers: one box, packed in the type that was asked for. Errors: NotFound,
  // InvalidArgument; Unavailable (the version went while it was copied).
  absl::StatusOr<Payload> answer(std::string_view request) const;

 private:
  struct Remote {
    SegmentAddress address;
    std::mutex mutex;  // guards what follows
    std::unique_ptr<PeerSegment> segment;
    std::shared_ptr<const Directory> directory;
    uint64_t directory_epoch = 0;  // the segment's; at another one the directory may point at other bytes
  };
  std::shared_ptr<Store> shared(const Location& place) const;
  absl::Status read_segment(const Location& place, Remote& remote, const VersionKey& version, TensorId tensor,
                            const Box& box, const Target& dst);
  absl::Status read_network(const Location& place, const VersionKey& version, TensorId tensor, const Box& box,
                            const Target& dst);

  const HostId host_;
  const SegmentOptions segments_;
  PeerTransport* const transport_;
  int32_t hosts_ = 0;
  std::vector<HostId> host_of_device_;
  std::vector<DeviceId> devices_;
  mutable std::mutex own_mutex_;  // guards own_: answer() looks there while fail() replaces
  std::map<Location, std::shared_ptr<Store>> own_;
  std::map<Location, std::shared_ptr<Remote>> remote_;
  std::set<HostId> networked_;  // reached through the transport
};

}  // namespace scalai::executor
