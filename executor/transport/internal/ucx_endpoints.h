#pragma once
// Connections of one UCX worker, by the address of the other worker, and what is sent over them. Of the transport
// thread. A connection that breaks is closed by force at once; whoever uses it hears about it twice: when it is lost,
// and when it is gone, after which UCX reads and writes no memory for it any more. No UCX header is needed to include
// this.

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/transport/internal/wire.h"

struct ucp_ep;
struct ucp_worker;

namespace scalai::executor::transport::internal {

struct UcxEndpoint {
  std::string address;  // of the other UCX worker
  std::string peer;     // the other transport's number
  ucp_ep* handle = nullptr;
  std::string lost;         // why; "" = alive
  uint64_t number = 0;      // of this worker's connections, growing
  uint64_t last_asker = 0;  // the greatest number that the other side gave its own
  class UcxEndpoints* owner = nullptr;
};
using EndpointPtr = std::shared_ptr<UcxEndpoint>;

// One active message. `body`, or what `parts` name, stays as it is until `sent` is called, which happens exactly once,
// at the latest when the worker is destroyed; `ok` says that the body is no longer needed because it left, not that it
// arrived.
struct UcxMessage {
  unsigned id = 0;
  std::array<std::byte, 64> header{};
  size_t header_bytes = 0;
  std::span<const std::byte> body;
  std::vector<std::span<const std::byte>> parts;  // the body as a list, in order; then `body` is empty
  std::shared_ptr<const void> body_owner;
  bool eager = false;  // never by rendezvous
  std::function<void(bool ok)> sent;

  template <class Header>
  void set_header(const Header& value) {
    static_assert(sizeof value <= sizeof header && std::is_trivially_copyable_v<Header>);
    std::memcpy(header.data(), &value, sizeof value);
    header_bytes = sizeof value;
  }
};

class UcxEndpoints {
 public:
  struct Listener {
    std::function<void(const EndpointPtr&)> lost, gone;
  };
  UcxEndpoints(ucp_worker* worker, Listener listener);

  // The living connection to that worker; made when there is none.
  absl::StatusOr<EndpointPtr> open(const PeerAddress& peer);
  // Dropped, with sent(false), when the connection is lost.
  void send(const EndpointPtr& endpoint, UcxMessage message);
  // Closes by force: calls `lost` now, and `gone` from a poll() later. Nothing when it is lost already.
  void fail(const EndpointPtr& endpoint, const std::string& why);
  // The end, gently: start_flushes(), poll() while flushing(), then close_all(). Connections that flushed are closed by
  // agreement, so that UCX still answers what their peers have on the way; others are failed.
  void start_flushes();
  bool flushing() const;
  void close_all(const std::string& why);

  // Handles what UCX reported since the last call; whether there was anything. To be called after each progress.
  bool poll();
  bool closing() const { return !closing_.empty(); }
  // After the worker is destroyed: no callback comes any more.
  void abandon();

  // From UCX's callbacks.
  void report(UcxEndpoint* endpoint, int status);
  struct Sending {
    UcxEndpoints* owner = nullptr;
    UcxMessage message;
    std::shared_ptr<void> list;  // of the parts, in UCX's form
  };
  void complete(Sending* sending, int status);

 private:
  struct Closing {
    EndpointPtr endpoint;
    void* request = nullptr;
  };
  static bool in_progress(const Closing& one);
  void begin_close(const EndpointPtr& endpoint, const std::string& why, bool force);

  ucp_worker* const worker_;
  const Listener listener_;
  std::map<std::string, EndpointPtr> living_;
  uint64_t last_number_ = 0;
  std::vector<std::pair<UcxEndpoint*, int>> reported_;
  std::vector<Closing> closing_;
  std::vector<Closing> flushing_;
  std::unordered_map<Sending*, std::unique_ptr<Sending>> sending_;
};

}  // namespace scalai::executor::transport::internal
