#pragma once
// The places of a worker and what it knows of everybody else's: one Store for each device of its host and for the
// host's memory, and a way to read a box wherever it lies.
//
//   read(place, version, box) ── own store, or of a worker of this process ► Backend::copy
//                             ── segment of a worker of this machine ► copy, then look whether it still counts
//                             ── PeerTransport ► packed bytes
//
// Devices' memory that others cannot map (GPUs) is read through the transport, where there is one; what a plan moves
// between GPUs goes by another way (executor/worker/exchange.h).
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
#include "executor/device/backend.h"
#include "executor/state/peer_segment.h"
#include "executor/state/store.h"
#include "executor/transport/peer_transport.h"
#include "executor/worker/local_stores.h"
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
  struct Options {
    HostId host;
    SegmentOptions segments = {};           // of each place
    int64_t device_limit = segments.limit;  // of a device's own memory, where that is less
    Backend* backend = nullptr;             // what devices are
    std::vector<HostId> hosts_here = {};    // that share the back end, in this order; empty: this one alone
    PeerTransport* transport = nullptr;     // to other machines; null: only workers of this one are reached
    std::shared_ptr<LocalStores> locals{};  // of all workers of this process; null: there are no others
  };
  // Back end and transport outlive this.
  explicit Places(Options options)
      : host_(options.host),
        segments_(std::move(options.segments)),
        device_limit_(options.device_limit),
        backend_(*options.backend),
        hosts_here_(std::move(options.hosts_here)),
        transport_(options.transport),
        locals_(options.locals ? std::move(options.locals) : std::make_shared<LocalStores>()) {}
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Devices of each host, in order. Stores that are there already stay. Errors: InvalidArgument (this host is not among
  // them, or a number makes no sense), those of Store::create.
  absl::Status setup(const std::vector<int>& gpus_of_host);
  // Where others' places are. Places that are not named any more are forgotten. Those without a descriptor, or all
  // with `force_network`, are read through the transport; without one, of GPUs that is an error only when they are read.
  absl::Status peers(const std::vector<WorkerJoined>& workers, bool force_network);
  std::vector<WorkerPlace> addresses() const;
  // Devices that the last peers() named, of this host too: whose GPU each is. Absent: it has none.
  struct Gpu {
    HostId host;
    int number = 0;  // on its host
    friend auto operator<=>(const Gpu&, const Gpu&) = default;
  };
  const std::map<DeviceId, Gpu>& gpus() const { return gpus_; }
  // Whether another device of this process is on the same GPU.
  bool shares_gpu(DeviceId device) const;

  HostId host() const { return host_; }
  Backend& backend() const { return backend_; }
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
  // The same, but copies out of this host's own stores are only added to `batch`, for backend().copy().
  absl::Status gather(const Location& place, const VersionKey& version, TensorId tensor, const Box& box,
                      const Target& dst, std::vector<BoxCopy>& batch);
  // Whether all the workers of this machine that others' places belong to live.
  bool neighbours_live() const;
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
  static absl::StatusOr<PeerSegment*> opened(Remote& remote);
  bool in_process(const Location& place) const;
  absl::Status read_segment(const Location& place, Remote& remote, const VersionKey& version, TensorId tensor,
                            const Box& box, const Target& dst);
  absl::Status read_network(const Location& place, const VersionKey& version, TensorId tensor, const Box& box,
                            const Target& dst);

  const HostId host_;
  const SegmentOptions segments_;
  const int64_t device_limit_;
  Backend& backend_;
  const std::vector<HostId> hosts_here_;
  int first_device_ = 0;  // number of this host's first device in the back end
  PeerTransport* const transport_;
  const std::shared_ptr<LocalStores> locals_;
  int32_t hosts_ = 0;
  std::vector<HostId> host_of_device_;
  std::vector<DeviceId> devices_;
  mutable std::mutex own_mutex_;  // guards own_: answer() looks there while fail() replaces
  std::map<Location, std::shared_ptr<Store>> own_;
  std::map<Location, std::shared_ptr<Remote>> remote_;
  std::set<HostId> networked_;  // reached through the transport
  std::map<DeviceId, Gpu> gpus_;
};

}  // namespace scalai::executor
