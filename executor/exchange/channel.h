#pragma once
// Channel: all messages of one GPU with GPUs of other workers, over one communicator, as a pipeline of chunks:
//
//   queue "pack"     pack 0 │ pack 1 │ pack 2 │ …
//   queue "wire"            │ group 0│ group 1│ group 2 …     sends and receives of chunk k of all messages, in one group
//   queue "unpack"                   │ unpack 0 │ unpack 1 …
//
// A slot of staging memory is used again kDepth chunks later. Dense chunks go from or to where they lie.
//
// Both ends come to the same sequence of operations: messages are cut alike (message.h), and chunk k of every message is
// in the k-th group.
//
// One thread.

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "executor/exchange/message.h"
#include "executor/nccl/communicator.h"

namespace scalai::executor {

// A message to or from a rank.
struct Traffic {
  int peer = 0;
  std::vector<WireBox> boxes;
};

struct ChannelOptions {
  int64_t chunk_bytes = int64_t{4} << 20;  // the same on all ranks
  double stall_s = 30;                     // without any progress once it has begun: a peer hangs
  double begin_s = 600;                    // a peer may have other work before
  // Whether those we can see live; asked every few milliseconds while waiting. Empty: all do.
  std::function<bool()> peers_live;
};

class Channel {
 public:
  static constexpr int kDepth = 3;  // chunks of a message on their way at a time

  // Of the back end's device, whose GPU is the communicator's. The back end outlives it.
  static absl::StatusOr<std::unique_ptr<Channel>> create(Backend& backend, int device,
                                                         std::shared_ptr<Communicator> communicator,
                                                         ChannelOptions options);

  // Memory for so many messages at a time, sent or received: run() allocates nothing then.
  absl::Status reserve(size_t messages);

  // Sends and receives all of it. At most one message a peer and direction (CHECK). On an error the communicator has been
  // aborted, nobody writes to the memory of the messages any more, and what was to arrive may be anything:
  //   Unavailable         a peer is gone, or does not answer; or that was so in an earlier run
  //   ResourceExhausted   no memory for so many messages
  //   Aborted             what had begun does not come to its end: this process is to be given up
  absl::Status run(std::span<const Traffic> sends, std::span<const Traffic> receives);

  const Communicator& communicator() const { return *communicator_; }
  // From any thread: run() ends with an error.
  void abort() { communicator_->abort(); }

 private:
  Channel(Backend& backend, int device, std::shared_ptr<Communicator> communicator, ChannelOptions options)
      : backend_(backend), device_(device), communicator_(std::move(communicator)), options_(std::move(options)) {}

  struct Message {
    const Traffic* traffic = nullptr;
    std::vector<Chunk> chunks;
    size_t number = 0;  // among all messages: where its staging lies
  };
  struct Moments {
    std::unique_ptr<Mark> on_wire, unpacked;
  };
  absl::Status run_pipeline(const std::vector<Message>& sends, const std::vector<Message>& receives);
  absl::Status step(size_t chunk, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    std::vector<Moments>& moments);
  absl::Status wait_for(const Mark& mark);
  std::byte* staged(const Message& message, size_t chunk) const;
  bool drain();
  Deadline deadline() const;

  Backend& backend_;
  const int device_;
  const std::shared_ptr<Communicator> communicator_;
  const ChannelOptions options_;
  std::unique_ptr<Queue> pack_, wire_, unpack_;
  std::unique_ptr<Staging> staging_;
  size_t messages_ = 0;                // that staging_ has room for
  std::atomic<int64_t> progress_ = 0;  // of the run under way: moments that have passed
};

}  // namespace scalai::executor
