#pragma once
// Channel: all messages of one GPU with GPUs of other workers, over one communicator, as a pipeline of chunks. Owns its
// queues and staging memory; shares the communicator. One thread, except abort().
//
//   queue "pack"     pack 0 │ pack 1 │ pack 2 │ …
//   queue "wire"            │ group 0│ group 1│ group 2 …     one group: sends and receives of chunk k of all messages
//   queue "unpack"                   │ unpack 0 │ unpack 1 …
//
// Each slot of staging memory is reused kDepth chunks later. Dense chunks are sent and received in place.
//
// Both ends issue the same sequence of operations: they cut messages alike (message.h), and chunk k of every message is
// in group k.

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "executor/exchange/message.h"
#include "executor/nccl/communicator.h"

namespace scalai::executor::exchange {

// A message to or from a rank.
struct Traffic {
  int peer = 0;
  std::vector<WireBox> boxes;
};

struct ChannelOptions {
  int64_t chunk_bytes = 0;  // equal on all ranks; 0: what chunk_bytes_for says
  double stall_s = 30;      // after this time without progress a peer hangs
  double begin_s = 600;     // the same for the first progress: a peer may have other work before
  // True if the visible peers are alive; queried every 20 ms by a thread of run(). Empty: always true.
  std::function<bool()> peers_live;
};

// The chunks of a communicator. A group of NCCL takes the host 65 to 105 µs whatever its size (results/gpu), in which
// NVLink carries 30 MB and more; so a chunk for each other rank together has 32 MiB, as a power of two from 4 MiB on.
// Staging for three of them to and from each is 192 MiB at most with up to 9 ranks, and 24 MiB a rank beyond.
int64_t chunk_bytes_for(int ranks);

class Channel {
 public:
  static constexpr int kDepth = 3;  // chunks of a message in flight

  // A channel of the back end's device, whose GPU is the communicator's. The back end outlives the channel.
  static absl::StatusOr<std::unique_ptr<Channel>> create(device::Backend& backend, int device,
                                                         std::shared_ptr<nccl::Communicator> communicator,
                                                         ChannelOptions options);

  // Allocates for this number of messages, sent and received together; then run() allocates nothing.
  absl::Status reserve(size_t messages);

  // Sends and receives all messages; blocks. At most one message per peer and direction (CHECK). The messages and their
  // memory must live during the call. After an error the communicator is aborted, nobody writes to the memory of the
  // messages any more, and the content of received boxes is undefined:
  //   Unavailable         a peer is gone or does not answer, now or in an earlier run
  //   ResourceExhausted   no memory for so many messages
  //   Aborted             work on the GPU does not end: this process must be given up
  absl::Status run(std::span<const Traffic> sends, std::span<const Traffic> receives);

  // Valid as long as the channel.
  const nccl::Communicator& communicator() const { return *communicator_; }
  // From any thread: run() returns an error.
  void abort() { communicator_->abort(); }

 private:
  Channel(device::Backend& backend, int device, std::shared_ptr<nccl::Communicator> communicator,
          ChannelOptions options)
      : backend_(backend), device_(device), communicator_(std::move(communicator)), options_(std::move(options)) {}

  struct Message {
    const Traffic* traffic = nullptr;
    std::vector<Chunk> chunks;
    size_t number = 0;  // among all messages: where its staging lies
  };
  struct Moments {
    std::unique_ptr<device::Mark> on_wire, unpacked;
  };
  absl::Status run_pipeline(const std::vector<Message>& sends, const std::vector<Message>& receives);
  absl::Status step(size_t chunk, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    std::vector<Moments>& moments);
  absl::Status wait_for(const device::Mark& mark);
  std::byte* staged(const Message& message, size_t chunk) const;
  bool drain();
  nccl::Deadline deadline() const;

  device::Backend& backend_;
  const int device_;
  const std::shared_ptr<nccl::Communicator> communicator_;
  const ChannelOptions options_;
  std::unique_ptr<device::Queue> pack_, wire_, unpack_;
  std::unique_ptr<device::Staging> staging_;
  size_t messages_ = 0;                // room of staging_
  std::atomic<int64_t> progress_ = 0;  // marks passed in the present run
};

}  // namespace scalai::executor::exchange
