#include "executor/transport/loopback_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "executor/transport/internal/errors.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport {
namespace {

constexpr int64_t kChunkBytes = int64_t{1} << 16;

absl::Status lost(HostId peer) { return internal::unavailable(peer, "killed"); }

}  // namespace

std::string LoopbackNetwork::add(AnswerHandler handler) {
  const std::lock_guard lock(mutex_);
  const std::string address = fmt::format("loopback:{}", next_++);
  ends_[address] = std::make_shared<End>();
  ends_[address]->handler = std::move(handler);
  return address;
}

std::shared_ptr<LoopbackNetwork::End> LoopbackNetwork::find(const std::string& address) const {
  const std::lock_guard lock(mutex_);
  const auto end = ends_.find(address);
  return end == ends_.end() ? nullptr : end->second;
}

void LoopbackNetwork::kill(const std::string& address) {
  const std::lock_guard lock(mutex_);
  if (const auto end = ends_.find(address); end != ends_.end()) end->second->dead = true;
}

LoopbackTransport::LoopbackTransport(LoopbackNetwork& network, AnswerHandler handler)
    : network_(network), address_(network.add(std::move(handler))), own_(network.find(address_)) {}

LoopbackTransport::~LoopbackTransport() { close(); }

absl::Status LoopbackTransport::connect(HostId peer, std::string_view address) {
  const auto end = network_.find(std::string(address));
  if (end == nullptr) return invalid(internal::bad_address(peer));
  const std::lock_guard lock(mutex_);
  if (closed_) return internal::closed();
  peers_[peer] = end;
  return absl::OkStatus();
}

absl::Status LoopbackTransport::check(HostId peer, const LoopbackNetwork::End& end, Deadline deadline, int64_t arrived,
                                      int64_t wanted) const {
  const bool dead = [&] {
    const std::lock_guard lock(network_.mutex_);
    return end.dead || own_->dead;
  }();
  // Only now: close() says so before it kills its own end.
  const std::lock_guard lock(mutex_);
  if (closed_) return internal::closed();
  if (dead) return lost(peer);
  if (std::chrono::steady_clock::now() >= deadline) return internal::too_late(peer, arrived, wanted);
  return absl::OkStatus();
}

absl::Status LoopbackTransport::copy_from(HostId peer, LoopbackNetwork::End& end, std::string_view request,
                                          std::span<const std::span<std::byte>> dst, Deadline deadline) {
  const internal::SpanList<std::byte> into({dst.begin(), dst.end()});
  const auto still_possible = [&](int64_t arrived) { return check(peer, end, deadline, arrived, into.bytes()); };
  absl::StatusOr<Payload> payload = [&]() -> absl::StatusOr<Payload> {
    const std::lock_guard calling(end.calling);
    SCALAI_RETURN_IF_ERROR(still_possible(0));
    return end.handler(request);
  }();
  SCALAI_RETURN_IF_ERROR(payload.status());
  SCALAI_RETURN_IF_ERROR(still_possible(0));
  if (payload->bytes() != into.bytes()) return internal::wrong_size(peer, payload->bytes(), into.bytes());
  std::vector<std::byte> chunk;
  for (int64_t at = 0; at < into.bytes(); at += kChunkBytes) {
    chunk.resize(static_cast<size_t>(std::min(kChunkBytes, into.bytes() - at)));
    if (at > 0) SCALAI_RETURN_IF_ERROR(payload->check());
    payload->gather(at, chunk);
    if (at + kChunkBytes >= into.bytes()) SCALAI_RETURN_IF_ERROR(payload->check());
    SCALAI_RETURN_IF_ERROR(still_possible(at));
    into.visit(at, static_cast<int64_t>(chunk.size()), [&](int64_t from, std::span<std::byte> part) {
      std::memcpy(part.data(), chunk.data() + from, part.size());
    });
  }
  return absl::OkStatus();
}

absl::Status LoopbackTransport::fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                                      Deadline deadline) {
  std::shared_ptr<LoopbackNetwork::End> end;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return internal::closed();
    const auto found = peers_.find(peer);
    if (found == peers_.end()) return internal::not_connected(peer);
    end = found->second;
    ++callers_;
  }
  const absl::Status status = copy_from(peer, *end, request, dst, deadline);
  const std::lock_guard lock(mutex_);
  if (--callers_ == 0) nobody_inside_.notify_all();
  return status;
}

void LoopbackTransport::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  network_.kill(address_);
  // A call of the handler that runs is let out first.
  { const std::lock_guard calling(own_->calling); }
  std::unique_lock lock(mutex_);
  nobody_inside_.wait(lock, [&] { return callers_ == 0; });
}

}  // namespace scalai::executor::transport
