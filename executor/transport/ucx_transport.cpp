#include "executor/transport/ucx_transport.h"

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>

#include "executor/transport/internal/errors.h"
#include "executor/transport/internal/fetch.h"
#include "executor/transport/internal/ucx_thread.h"
#include "executor/transport/internal/wire.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport {

using internal::Fetch;
using internal::FetchPtr;
using internal::UcxThread;

// Callers, and the bytes they may have in flight.
struct UcxTransport::State {
  UcxOptions options;
  std::unique_ptr<UcxThread> thread;
  std::string address;

  std::mutex closing;  // one close() at a time
  std::mutex mutex;
  std::condition_variable changed;
  int64_t in_flight = 0;
  int callers = 0;
  bool closed = false;

  // Waits for room; false: the deadline came first, or the end.
  bool enter(int64_t bytes, Deadline deadline) {
    std::unique_lock lock(mutex);
    ++callers;
    const bool room = changed.wait_until(
        lock, deadline, [&] { return closed || in_flight == 0 || in_flight + bytes <= options.in_flight_bytes; });
    if (!room || closed || std::chrono::steady_clock::now() >= deadline) return false;
    in_flight += bytes;
    return true;
  }
  void leave(int64_t bytes) {
    const std::lock_guard lock(mutex);
    in_flight -= bytes;
    --callers;
    changed.notify_all();
  }
  bool is_closed() {
    const std::lock_guard lock(mutex);
    return closed;
  }
};

namespace {

absl::Status run_fetch(UcxThread& thread, const FetchPtr& fetch, Deadline deadline) {
  const bool posted = thread.post([&thread, fetch] {
    if (thread.stopping()) {
      fetch->finish(internal::closed());
    } else {
      thread.asking().start(fetch);
    }
  });
  if (!posted) return internal::closed();
  if (!fetch->wait_until(deadline)) {
    thread.post([&thread, fetch] {
      thread.asking().cancel(fetch, internal::too_late(fetch->peer, fetch->arrived, fetch->into.bytes()));
    });
  }
  return fetch->wait();
}

}  // namespace

UcxTransport::UcxTransport(std::unique_ptr<State> state) : state_(std::move(state)) {}

UcxTransport::~UcxTransport() { close(); }

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::create(AnswerHandler handler, const UcxOptions& options) {
  SCALAI_CHECK(options.chunk_bytes > 0 && options.chunks_in_flight > 0 && options.in_flight_bytes > 0 && handler,
               "the options make no sense");
  auto state = std::make_unique<State>();
  state->options = options;
  SCALAI_ASSIGN_OR_RETURN(state->thread, UcxThread::start(std::move(handler), options));
  state->address = state->thread->self().address;
  return std::unique_ptr<UcxTransport>(new UcxTransport(std::move(state)));
}

std::string UcxTransport::address() const { return state_->address; }

absl::Status UcxTransport::connect(HostId peer, std::string_view address) {
  SCALAI_ASSIGN_OR_RETURN(const internal::PeerAddress inner,
                          internal::read_address(state_->thread->self(), peer, address));
  const auto result = std::make_shared<std::promise<absl::Status>>();
  UcxThread& thread = *state_->thread;
  const bool posted = thread.post([&thread, peer, inner, result] {
    result->set_value(thread.stopping() ? internal::closed() : thread.asking().connect(peer, inner));
  });
  return posted ? result->get_future().get() : internal::closed();
}

absl::Status UcxTransport::fetch(HostId peer, std::string_view request, std::span<const std::span<std::byte>> dst,
                                 Deadline deadline) {
  if (request.size() > static_cast<size_t>(internal::kMostRequestBytes)) return invalid("a request of more than 1 MiB");
  const auto fetch = std::make_shared<Fetch>(peer, request, dst);
  const int64_t bytes = fetch->into.bytes();
  if (deadline <= Deadline::clock::now()) return internal::too_late(peer, 0, bytes);
  if (!state_->enter(bytes, deadline)) {
    state_->leave(0);
    return state_->is_closed() ? internal::closed() : internal::no_room(peer, bytes);
  }
  const absl::Status status = run_fetch(*state_->thread, fetch, deadline);
  state_->leave(bytes);
  return status;
}

void UcxTransport::close() {
  const std::lock_guard closing(state_->closing);
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
    state_->changed.notify_all();
  }
  state_->thread->stop();
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->callers == 0; });
}

}  // namespace scalai::executor::transport
