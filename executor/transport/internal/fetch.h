#pragma once
// One fetch under way: where its bytes go, and the caller who waits for it. The transport thread writes and finishes
// it; the caller only waits, and then reads the status.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "executor/transport/internal/chunk_set.h"
#include "executor/transport/internal/span_list.h"
#include "executor/transport/peer_transport.h"

namespace scalai::executor::transport::internal {

struct UcxEndpoint;

struct Fetch {
  Fetch(HostId from, std::string_view text, std::span<const std::span<std::byte>> dst)
      : peer(from), request(text), into({dst.begin(), dst.end()}) {}

  const HostId peer;
  const std::string request;
  const SpanList<std::byte> into;

  // Of the transport thread.
  uint64_t id = 0;
  std::shared_ptr<UcxEndpoint> endpoint;
  int64_t arrived = 0;
  ChunkSet chunks;                    // that have begun to arrive
  int receiving = 0;                  // chunks that UCX may still write into `into`
  std::optional<absl::Status> given;  // the result, as soon as it is known; nothing is received from then on

  // Of the caller, when it no longer matters what is written to `into`.
  void finish(absl::Status status) {
    const std::lock_guard lock(mutex_);
    status_ = std::move(status);
    done_.notify_all();
  }
  bool wait_until(Deadline deadline) {
    std::unique_lock lock(mutex_);
    return done_.wait_until(lock, deadline, [&] { return status_.has_value(); });
  }
  absl::Status wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable done_;
  std::optional<absl::Status> status_;
};

}  // namespace scalai::executor::transport::internal
