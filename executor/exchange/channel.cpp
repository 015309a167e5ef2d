#include "executor/exchange/channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

#include "ptc/base/status.h"

namespace scalai::executor::exchange {
namespace {

constexpr double kDrain_s = 10;  // streams are idle by then after an abort

nccl::Deadline in(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<nccl::Deadline::duration>(std::chrono::duration<double>(seconds));
}

// Looks on a thread of its own whether peers live, and gives the communicator up when one does not: NCCL itself may not
// notice, and whoever waits in it looks at nothing else.
class PeerWatch {
 public:
  PeerWatch(const std::function<bool()>& live, const std::function<bool()>& stuck,
            const std::function<void()>& give_up) {
    thread_ = std::jthread([this, live, stuck, give_up](const std::stop_token& stop) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      while (!over_.wait_for(lock, stop, kLook, [&] { return stop.stop_requested(); })) {
        if (stop.stop_requested()) return;
        if ((!live || live()) && !stuck()) continue;
        lost_ = true;
        return give_up();
      }
    });
  }
  bool lost() const { return lost_; }

 private:
  static constexpr auto kLook = std::chrono::milliseconds(20);
  std::atomic<bool> lost_ = false;
  std::condition_variable_any over_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

int64_t chunk_bytes_for(int ranks) {
  constexpr int64_t kMiB = 1 << 20, kTogether = 32 * kMiB;
  const auto share = static_cast<uint64_t>(kTogether / std::max(1, ranks - 1));
  return std::max(static_cast<int64_t>(std::bit_floor(share)), 4 * kMiB);
}

absl::StatusOr<std::unique_ptr<Channel>> Channel::create(device::Backend& backend, int device,
                                                         std::shared_ptr<nccl::Communicator> communicator,
                                                         ChannelOptions options) {
  if (options.chunk_bytes == 0) options.chunk_bytes = chunk_bytes_for(communicator->size());
  std::unique_ptr<Channel> channel(new Channel(backend, device, std::move(communicator), std::move(options)));
  SCALAI_ASSIGN_OR_RETURN(channel->pack_, backend.queue(device));
  SCALAI_ASSIGN_OR_RETURN(channel->wire_, backend.queue(device));
  SCALAI_ASSIGN_OR_RETURN(channel->unpack_, backend.queue(device));
  return channel;
}

absl::Status Channel::reserve(size_t messages) {
  if (messages <= messages_) return absl::OkStatus();
  staging_.reset();
  messages_ = 0;
  SCALAI_ASSIGN_OR_RETURN(staging_,
                          backend_.staging(device_, static_cast<int64_t>(messages) * kDepth * options_.chunk_bytes));
  messages_ = messages;
  return absl::OkStatus();
}

std::byte* Channel::staged(const Message& message, size_t chunk) const {
  const size_t slot = message.number * kDepth + chunk % kDepth;
  return staging_->data() + static_cast<int64_t>(slot) * options_.chunk_bytes;
}

nccl::Deadline Channel::deadline() const { return in(progress_ > 0 ? options_.stall_s : options_.begin_s); }

absl::Status Channel::wait_for(const device::Mark& mark) {
  SCALAI_RETURN_IF_ERROR(communicator_->watch([&] { return mark.query(); }, deadline()));
  ++progress_;
  return absl::OkStatus();
}

absl::Status Channel::run(std::span<const Traffic> sends, std::span<const Traffic> receives) {
  if (!communicator_->healthy()) return absl::UnavailableError(message_of(communicator_->status()));
  SCALAI_RETURN_IF_ERROR(reserve(sends.size() + receives.size()));
  size_t number = 0;
  const auto messages_of = [&](std::span<const Traffic> list) {
    std::vector<Message> messages;
    std::set<int> peers;
    for (const Traffic& one : list) {
      SCALAI_CHECK(peers.insert(one.peer).second, fmt::format("two messages with rank {}", one.peer));
      messages.push_back({&one, cut(one.boxes, options_.chunk_bytes), number++});
    }
    return messages;
  };
  const std::vector<Message> outgoing = messages_of(sends), incoming = messages_of(receives);
  progress_ = 0;
  absl::Status done;
  {
    // A queue that is full waits for the GPU, and so for a peer, without a deadline of its own.
    const auto stuck = [this, seen = progress_.load(), since = std::chrono::steady_clock::now()]() mutable {
      const int64_t now = progress_;
      if (std::exchange(seen, now) != now) since = std::chrono::steady_clock::now();
      const double limit_s = 2 * (now > 0 ? options_.stall_s : options_.begin_s);
      return std::chrono::steady_clock::now() - since > std::chrono::duration<double>(limit_s);
    };
    const PeerWatch watch(options_.peers_live, stuck, [this] { communicator_->abort(); });
    done = run_pipeline(outgoing, incoming);
    if (watch.lost()) done = absl::UnavailableError("a peer's process ended or hangs");
  }
  if (done.ok()) return done;
  communicator_->abort();
  if (!drain()) return failed(fmt::format("{}; the GPU does not finish its queued work either", message_of(done)));
  // Whoever has failed first, all others see a peer that is gone.
  const bool of_ours = absl::IsResourceExhausted(done) || absl::IsInvalidArgument(done);
  return of_ours ? done
                 : absl::UnavailableError(fmt::format("rank {} of {}: {}", communicator_->rank(), communicator_->size(),
                                                      message_of(done)));
}

absl::Status Channel::run_pipeline(const std::vector<Message>& sends, const std::vector<Message>& receives) {
  size_t chunks = 0;
  for (const std::vector<Message>* list : {&sends, &receives}) {
    for (const Message& message : *list) chunks = std::max(chunks, message.chunks.size());
  }
  std::vector<Moments> moments(chunks);
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    // Not further ahead than this: so that a peer that stands still is noticed, and streams stay short.
    if (chunk >= 2 * kDepth) SCALAI_RETURN_IF_ERROR(wait_for(*moments[chunk - 2 * kDepth].unpacked));
    SCALAI_RETURN_IF_ERROR(step(chunk, sends, receives, moments));
  }
  if (chunks == 0) return absl::OkStatus();
  SCALAI_RETURN_IF_ERROR(wait_for(*moments.back().on_wire));
  return wait_for(*moments.back().unpacked);
}

absl::Status Channel::step(size_t chunk, const std::vector<Message>& sends, const std::vector<Message>& receives,
                           std::vector<Moments>& moments) {
  const Moments* const before = chunk < kDepth ? nullptr : &moments[chunk - kDepth];  // who used the slots
  struct Piece {
    int peer;
    std::byte* at;
    size_t bytes;
  };
  std::vector<Piece> out, in;
  std::vector<device::BoxCopy> packing, unpacking;
  for (const Message& message : sends) {
    if (chunk >= message.chunks.size()) continue;
    const Chunk& one = message.chunks[chunk];
    std::byte* at = dense_at(message.traffic->boxes, one);
    if (at == nullptr) add_packing(message.traffic->boxes, one, at = staged(message, chunk), packing);
    out.push_back({message.traffic->peer, at, static_cast<size_t>(one.bytes)});
  }
  for (const Message& message : receives) {
    if (chunk >= message.chunks.size()) continue;
    const Chunk& one = message.chunks[chunk];
    std::byte* at = dense_at(message.traffic->boxes, one);
    if (at == nullptr) add_unpacking(message.traffic->boxes, one, at = staged(message, chunk), unpacking);
    in.push_back({message.traffic->peer, at, static_cast<size_t>(one.bytes)});
  }
  if (!packing.empty()) {
    if (before != nullptr) SCALAI_RETURN_IF_ERROR(pack_->wait(*before->on_wire));
    SCALAI_RETURN_IF_ERROR(pack_->copy(packing));
    SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<device::Mark> packed, pack_->mark());
    SCALAI_RETURN_IF_ERROR(wire_->wait(*packed));
  }
  if (before != nullptr) SCALAI_RETURN_IF_ERROR(wire_->wait(*before->unpacked));
  SCALAI_RETURN_IF_ERROR(communicator_->start_group());
  for (const Piece& piece : out)
    SCALAI_RETURN_IF_ERROR(communicator_->send(piece.peer, piece.at, piece.bytes, wire_->stream()));
  for (const Piece& piece : in)
    SCALAI_RETURN_IF_ERROR(communicator_->receive(piece.peer, piece.at, piece.bytes, wire_->stream()));
  SCALAI_RETURN_IF_ERROR(communicator_->end_group(deadline()));
  SCALAI_ASSIGN_OR_RETURN(moments[chunk].on_wire, wire_->mark());
  SCALAI_RETURN_IF_ERROR(unpack_->wait(*moments[chunk].on_wire));
  if (!unpacking.empty()) SCALAI_RETURN_IF_ERROR(unpack_->copy(unpacking));
  SCALAI_ASSIGN_OR_RETURN(moments[chunk].unpacked, unpack_->mark());
  return absl::OkStatus();
}

// What has begun comes to its end: then nobody uses the messages' memory.
bool Channel::drain() {
  const nccl::Deadline until = in(kDrain_s);
  for (const std::unique_ptr<device::Queue>* queue : {&pack_, &wire_, &unpack_}) {
    const absl::StatusOr<std::unique_ptr<device::Mark>> end = (*queue)->mark();
    for (;;) {
      if (!end.ok()) break;  // the GPU is broken: nothing runs on it
      const absl::StatusOr<bool> ready = (*end)->query();
      if (!ready.ok() || *ready) break;
      if (std::chrono::steady_clock::now() > until) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

}  // namespace scalai::executor::exchange
