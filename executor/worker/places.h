#pragma once
// Places: the stores of a worker (one for each device of its host, one for the host's memory), and the ways to the
// places of all other workers. read() copies a box from any place:
//
//   read(place, key, box) ── a store of this process ────────────► Backend::copy
//                         ── a segment of another process here ──► copy, then check that the segment has not changed
//                         ── a place elsewhere ──────────────────► PeerTransport, packed bytes
//
// Other processes cannot map a GPU's memory; they read it through the transport, if there is one. The exchange
// (executor/worker/exchange.h) moves state between GPUs of several workers without read().
//
// Thread rules: setup(), peers() and fail() by one thread, while no other thread calls anything but answer(); read(),
// gather() and the stores from any thread; answer() from any thread, at any time.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/backend.h"
#include "executor/state/peer_segment.h"
#include "executor/state/store.h"
#include "executor/transport/peer_transport.h"
#include "executor/worker/local_stores.h"
#include "ptc/plan/plan.h"

namespace scalai::proto {
class Peer;
class TensorBox;
class WorkerPlace;
}  // namespace scalai::proto

namespace scalai::executor::worker {

using plan::Location;

// The inverse of Location::str() for devices ("g3") and hosts' memories ("h1.mem"); nothing for other text.
std::optional<Location> parse_place(std::string_view text);
void set_box(const tensor::Box& box, TensorId tensor, tensor::DType dtype, proto::TensorBox& out);
// The box and the type of a message. InvalidArgument: too many dimensions, bounds that are no range, no such type.
absl::StatusOr<tensor::Box> box_of(const proto::TensorBox& box);
absl::StatusOr<tensor::DType> dtype_of(const proto::TensorBox& box);

class Places {
 public:
  struct Options {
    HostId host;
    state::SegmentOptions segments = {};            // for the memory of each place
    int64_t device_limit = segments.limit;          // most bytes of a device's memory, if less than segments.limit
    device::Backend* backend = nullptr;             // the kind of devices; never null
    std::vector<HostId> hosts_here = {};            // hosts that share the back end, in its order; empty: `host` alone
    transport::PeerTransport* transport = nullptr;  // to other machines; null: only workers of this machine are reached
    std::shared_ptr<LocalStores> locals{};          // stores of all workers of this process; null: no other workers
    double disturbed_s = 5;  // a read that the owner's changes to other things disturb is repeated for so long
  };
  // Back end and transport outlive this object.
  explicit Places(Options options)
      : host_(options.host),
        segments_(std::move(options.segments)),
        device_limit_(options.device_limit),
        backend_(*options.backend),
        hosts_here_(std::move(options.hosts_here)),
        transport_(options.transport),
        disturbed_s_(options.disturbed_s),
        locals_(options.locals ? std::move(options.locals) : std::make_shared<LocalStores>()) {}
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Makes the stores of this host. `gpus_of_host` has the number of devices of each host of the cluster. A second call
  // keeps the stores. Errors: InvalidArgument (this host is not among them, or a number is not from 0 to 1024), those
  // of Store::create.
  absl::Status setup(const std::vector<int>& gpus_of_host);
  // Replaces the ways to other workers' places. A worker on another machine, or with places that cannot be mapped, is
  // read through the transport; with `force_network` all are. Errors: InvalidArgument (text that is no place), NotFound
  // (there is no transport; for GPUs of this machine only read() is the error), those of PeerTransport::connect.
  absl::Status peers(const std::vector<proto::Peer>& workers, bool force_network);
  // This host's places, for the peers() of others.
  std::vector<proto::WorkerPlace> addresses() const;
  // The GPU of each device that the last peers() named, devices of this host included. Devices without a GPU are
  // absent. The reference is valid while this lives; peers() changes the map.
  struct Gpu {
    HostId host;
    int number = 0;  // on this host
    friend auto operator<=>(const Gpu&, const Gpu&) = default;
  };
  const std::map<DeviceId, Gpu>& gpus() const { return gpus_; }
  int gpu_of(DeviceId device) const;  // of this host; −1: none
  // Whether another device of this process is on the same GPU.
  bool shares_gpu(DeviceId device) const;

  HostId host() const { return host_; }
  device::Backend& backend() const { return backend_; }
  bool in_cluster(const Location& place) const;                      // a device or a host's memory that setup() named
  HostId host_of(const Location& place) const;                       // CHECK: in_cluster(place)
  const std::vector<DeviceId>& devices() const { return devices_; }  // of this host; setup() changes it
  // The store of a place of this host; null: the place is another host's. Valid until fail(place).
  state::Store* own(const Location& place) const;
  // All stores of this host, valid as of own().
  std::vector<state::Store*> stores() const;
  // Gives the place a new, empty store; the old one holds nothing any more, and answers under way that read it fail.
  // Peers keep their mappings of the old store until their next peers(). Errors: those
  // of Store::create and Backend::memory_of_device.
  absl::Status fail(const Location& place);

  // Copies `box` of a version that the place holds to dst, cast to dst's type. Errors: NotFound (the place does not
  // hold all of the box), Unavailable (its worker is dead, or peers() never named it), InvalidArgument (no such cast),
  // those of PeerTransport::fetch.
  absl::Status read(const Location& place, const state::VersionKey& key, TensorId tensor, const tensor::Box& box,
                    const state::Target& dst);
  // As read(), but copies out of stores of this process are only added to `batch`, for backend().copy(). The batch
  // points into these stores: the version stays, and no place fails, until the copy is done.
  absl::Status gather(const Location& place, const state::VersionKey& key, TensorId tensor, const tensor::Box& box,
                      const state::Target& dst, std::vector<device::BoxCopy>& batch);
  // Whether all workers that peers() named are there, as far as is known: no host has departed since, no newer
  // controller has taken over, and the processes of this machine whose segments it named are alive.
  bool neighbours_live() const;
  void note_departed(HostId host);  // any thread
  void note_superseded();           // any thread
  // Answers a peer's FetchRequest (the transport's handler): one box, row-major in the requested type. Errors: NotFound
  // (the place, or a part of the box), InvalidArgument (the request), Unavailable (the version changed during the
  // copy). A box in one piece is copied only when the transport sends it (rows.h); a change until then is Unavailable,
  // at Payload::check.
  absl::StatusOr<transport::Payload> answer(std::string_view request) const;

 private:
  struct Remote {
    state::SegmentAddress address;
    std::mutex mutex;  // guards the members below
    std::unique_ptr<state::PeerSegment> segment;
    std::shared_ptr<const state::Directory> directory;
    uint64_t directory_epoch = 0;  // the segment's epoch at which `directory` was read; at another one it is stale
  };
  std::shared_ptr<state::Store> shared(const Location& place) const;
  static absl::StatusOr<state::PeerSegment*> opened(Remote& remote);
  bool in_process(const Location& place) const;
  absl::Status read_segment(const Location& place, Remote& remote, const state::VersionKey& key, TensorId tensor,
                            const tensor::Box& box, const state::Target& dst);
  // Whether the bytes at a place of this host are in this process's reach.
  bool reaches(const Location& place) const;
  absl::Status fetch_part(HostId host, const std::string& request, const tensor::Box& part, const state::Target& dst,
                          std::vector<std::byte>& packed);
  absl::Status read_network(const Location& place, const state::VersionKey& key, TensorId tensor,
                            const tensor::Box& box, const state::Target& dst);

  const HostId host_;
  const state::SegmentOptions segments_;
  const int64_t device_limit_;
  device::Backend& backend_;
  const std::vector<HostId> hosts_here_;
  int first_device_ = 0;  // the back end's number of this host's first device
  transport::PeerTransport* const transport_;
  const double disturbed_s_;
  const std::shared_ptr<LocalStores> locals_;
  int32_t hosts_ = 0;
  std::vector<HostId> host_of_device_;
  std::vector<DeviceId> devices_;
  mutable std::mutex departed_mutex_;  // guards the next two
  std::set<HostId> named_;             // by peers()
  bool departed_ = false;              // one of them, or all for a newer controller, since
  mutable std::mutex own_mutex_;       // guards own_: answer() looks there while fail() replaces
  std::map<Location, std::shared_ptr<state::Store>> own_;
  std::map<Location, std::shared_ptr<Remote>> remote_;
  std::set<HostId> networked_;  // hosts reached through the transport
  std::map<DeviceId, Gpu> gpus_;
};

}  // namespace scalai::executor::worker
