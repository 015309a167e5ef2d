#pragma once
// Exchange: moves state between this worker's GPUs and GPUs of other workers, over NCCL. Each GPU of the run is a rank
// of one communicator, in the order of (host, GPU). Devices that share a GPU share its messages: two GPUs exchange one
// message for each hop and direction.
//
//   Execution ── messages of a hop, by device ──► Exchange ── by rank ──► a Channel for each GPU, each on a thread
//
// Thread rules: one thread at a time; abort() from any thread during run().

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/exchange/channel.h"
#include "executor/worker/places.h"

namespace scalai::executor::worker {

// A message between two devices. Both ends list the same boxes in the same order.
struct DeviceMessage {
  DeviceId src, dst;
  std::vector<exchange::WireBox> boxes;
};

class Exchange {
 public:
  struct Options {
    nccl::NcclApi api;
    device::Backend* backend = nullptr;  // outlives the exchange; never null
    exchange::ChannelOptions channel = {};
  };
  explicit Exchange(Options options) : options_(std::move(options)) {}

  // A new id for join(): one worker makes it, all workers join with it.
  absl::StatusOr<std::string> make_unique_id() const;
  // Leaves the communicator, then joins a new one: a rank for each GPU of host `own` among all of `gpus`. Returns when
  // all ranks have joined. Errors: InvalidArgument (no id), DeadlineExceeded (not all joined), Unavailable and others
  // of NCCL.
  absl::Status join(const std::map<DeviceId, Places::Gpu>& gpus, HostId own, const std::string& unique_id,
                    double timeout_s);
  // Whether the exchange has a healthy communicator of exactly these GPUs.
  bool joined(const std::map<DeviceId, Places::Gpu>& gpus) const;
  // Whether state between these two devices goes through the exchange: both have GPUs, of different hosts.
  bool carries(DeviceId a, DeviceId b) const;

  // Allocates buffers for run(): for each own device the largest number of messages of one hop. Errors: those of
  // Channel::reserve.
  absl::Status reserve(const std::map<DeviceId, size_t>& messages);
  // Sends and receives all messages of one hop of this worker's devices. Returns when they have arrived. `peers_live`
  // is called from the channels' threads, during the call only. Errors: Unavailable (not joined), those of
  // Channel::run.
  absl::Status run(std::vector<DeviceMessage> sends, std::vector<DeviceMessage> receives,
                   const std::function<bool()>& peers_live);
  // Aborts the communicators, so that peers stop waiting for this worker's messages. join() makes new ones.
  void abort();

 private:
  struct Own {
    int rank = 0;
    DeviceId device;  // the first device on this GPU
    std::unique_ptr<exchange::Channel> channel;
  };
  int rank_of(DeviceId device) const { return ranks_.at(gpus_.at(device)); }
  std::vector<exchange::Traffic> by_rank(std::vector<DeviceMessage>& messages, int rank, bool sending) const;

  const Options options_;
  std::map<DeviceId, Places::Gpu> gpus_;
  std::map<Places::Gpu, int> ranks_;
  std::vector<Own> own_;
  std::function<bool()> peers_live_;  // the argument of the current run()
};

}  // namespace scalai::executor::worker
