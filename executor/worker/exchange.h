#pragma once
// Exchange: what a worker's GPUs send to and receive from GPUs of other workers, over NCCL. Each GPU of the run is a rank
// of one communicator, in the order of (host, GPU); devices that share a GPU share its messages, so that two GPUs
// exchange one message a hop and direction.
//
//   Execution ── messages of a hop, by device ──► Exchange ── by rank ──► a Channel for each GPU, each on a thread
//
// Thread rules: one thread at a time.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/exchange/channel.h"
#include "executor/worker/places.h"

namespace scalai::executor {

// Between two devices; both ends list the same boxes in the same order.
struct DeviceMessage {
  DeviceId src, dst;
  std::vector<WireBox> boxes;
};

class Exchange {
 public:
  struct Options {
    NcclApi api;
    Backend* backend = nullptr;  // outlives it
    ChannelOptions channel = {};
  };
  explicit Exchange(Options options) : options_(std::move(options)) {}

  absl::StatusOr<std::string> make_unique_id() const;
  // Becomes a rank for each GPU of `own` among all of `gpus`; whatever was joined before is left first. Errors:
  // InvalidArgument (no id), DeadlineExceeded (not all joined), Unavailable and others of NCCL.
  absl::Status join(const std::map<DeviceId, Places::Gpu>& gpus, HostId own, const std::string& unique_id,
                    double timeout_s);
  // Whether join() with these would change nothing.
  bool joined(const std::map<DeviceId, Places::Gpu>& gpus) const;
  // Whether it carries what goes between two devices: both have GPUs, of different workers.
  bool carries(DeviceId a, DeviceId b) const;

  // Memory for what run() will need at most, by own device.
  absl::Status reserve(const std::map<DeviceId, size_t>& messages);
  // All messages of one hop, of this worker's devices. Returns when they have arrived. Errors: those of Channel::run.
  absl::Status run(std::vector<DeviceMessage> sends, std::vector<DeviceMessage> receives,
                   const std::function<bool()>& peers_live);
  // Others that wait for us learn that nothing will come.
  void abort();

 private:
  struct Own {
    int rank = 0;
    DeviceId device;  // the first on this GPU
    std::unique_ptr<Channel> channel;
  };
  int rank_of(DeviceId device) const { return ranks_.at(gpus_.at(device)); }
  Own& own_of(DeviceId device);
  std::vector<Traffic> by_rank(std::vector<DeviceMessage>& messages, int rank, bool sending) const;

  const Options options_;
  HostId host_;
  std::map<DeviceId, Places::Gpu> gpus_;
  std::map<Places::Gpu, int> ranks_;
  std::vector<Own> own_;
  std::function<bool()> peers_live_;  // of the run under way
};

}  // namespace scalai::executor
