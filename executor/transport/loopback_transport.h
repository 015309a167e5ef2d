#pragma once
// A transport without a network, for tests of its users: all ends are in one process and copy directly, on the caller's
// thread. Ends can be killed; then all present and later fetches from them fail. Thread-safe.

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "executor/transport/peer_transport.h"

namespace scalai::executor::transport {

// Connects the ends of one test. Outlives them.
class LoopbackNetwork {
 public:
  // Simulates kill -9 of the process at `address`: its handler is not called again, fetches from it fail with
  // Unavailable, also those under way, and its own calls fail.
  void kill(const std::string& address);

 private:
  friend class LoopbackTransport;
  struct End {
    AnswerHandler handler;
    std::mutex calling;  // one call of the handler at a time, as on a transport thread
    bool dead = false;
  };

  std::string add(AnswerHandler handler);
  std::shared_ptr<End> find(const std::string& address) const;

  mutable std::mutex mutex_;  // also guards every End::dead
  std::map<std::string, std::shared_ptr<End>> ends_;
  int next_ = 0;
};

class LoopbackTransport : public PeerTransport {
 public:
  LoopbackTransport(LoopbackNetwork& network, AnswerHandler handler);
  ~LoopbackTransport() override;

  std::string address() const override { return address_; }
  absl::Status connect(HostId peer, std::string_view address) override;
  using PeerTransport::fetch;
  // The deadline does not interrupt the handler: it is checked before and after it, and after each chunk.
  absl::Status fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                     Deadline deadline) override;
  void close() override;

 private:
  // OK if a fetch may continue after `arrived` of `wanted` bytes.
  absl::Status check(HostId peer, const LoopbackNetwork::End& end, Deadline deadline, int64_t arrived,
                     int64_t wanted) const;
  absl::Status copy_from(HostId peer, LoopbackNetwork::End& end, std::string_view request,
                         std::span<const std::span<std::byte>> dst, Deadline deadline);

  LoopbackNetwork& network_;
  const std::string address_;
  const std::shared_ptr<LoopbackNetwork::End> own_;
  mutable std::mutex mutex_;
  std::condition_variable nobody_inside_;
  std::map<HostId, std::shared_ptr<LoopbackNetwork::End>> peers_;
  int callers_ = 0;
  bool closed_ = false;
};

}  // namespace scalai::executor::transport
