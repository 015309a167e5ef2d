#include "executor/transport/internal/ucx_thread.h"

#include <ucp/api/ucp.h>

#include <cstring>
#include <utility>

#include "executor/transport/internal/errors.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace {

// At the end: for what is still to be sent, and for connections to close. What takes longer is broken off, or left to
// the destruction of the worker.
constexpr auto kFlushTime = std::chrono::milliseconds(300);
constexpr auto kCloseTime = std::chrono::seconds(1);
// UCX 1.13 aborts when a worker is destroyed in the middle of its side of somebody's connection set-up, so we wait
// until nothing has happened for this long.
constexpr auto kQuietTime = std::chrono::milliseconds(50);
// A close need not wake the worker when it is done.
constexpr auto kClosePoll = std::chrono::milliseconds(5);

template <class Header>
bool read_header(const void* bytes, size_t size, Header& header) {
  if (size != sizeof header) return false;
  std::memcpy(&header, bytes, sizeof header);
  return true;
}

// Of a message by rendezvous only UCX's handle is here, and its size is the sender's word. Ours send no ask or cancel
// so.
bool is_here(const ucp_am_recv_param_t* param) { return (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0; }

ucs_status_t on_ask(void* self, const void* header_bytes, size_t header_size, void* data, size_t size,
                    const ucp_am_recv_param_t* param) {
  AskHeader header;
  if (!read_header(header_bytes, header_size, header) || !is_here(param)) return UCS_OK;
  static_cast<UcxThread*>(self)->ask_came(header, {static_cast<const char*>(data), size});
  return UCS_OK;
}

ucs_status_t on_cancel(void* self, const void* header_bytes, size_t header_size, void* data, size_t size,
                       const ucp_am_recv_param_t* param) {
  CancelHeader header;
  if (!read_header(header_bytes, header_size, header) || !is_here(param)) return UCS_OK;
  static_cast<UcxThread*>(self)->cancel_came(header, {static_cast<const char*>(data), size});
  return UCS_OK;
}

ucs_status_t on_answer(void* self, const void* header_bytes, size_t header_size, void* data, size_t size,
                       const ucp_am_recv_param_t* param) {
  AnswerHeader header;
  if (!read_header(header_bytes, header_size, header)) return UCS_OK;
  const bool rendezvous = !is_here(param);
  const bool taken = static_cast<UcxThread*>(self)->answer_came(header, data, static_cast<int64_t>(size), rendezvous);
  // With rendezvous, UCS_OK would refuse the body.
  return taken ? UCS_INPROGRESS : UCS_OK;
}

}  // namespace

UcxThread::UcxThread(std::unique_ptr<UcxWorker> worker, Self self, AnswerHandler handler, const UcxOptions& options)
    : self_(std::move(self)),
      worker_(std::move(worker)),
      endpoints_(worker_->handle(), {.lost =
                                         [this](const EndpointPtr& endpoint) {
                                           asking_.lost(endpoint);
                                           answering_.lost(endpoint);
                                         },
                                     .gone = [this](const EndpointPtr& endpoint) { asking_.gone(endpoint); }}),
      asking_(endpoints_, worker_->handle(), self_),
      answering_(endpoints_, self_, std::move(handler), options, [this](Task task) { post(std::move(task)); }) {}

absl::StatusOr<std::unique_ptr<UcxThread>> UcxThread::start(AnswerHandler handler, const UcxOptions& options) {
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::create(options));
  SCALAI_ASSIGN_OR_RETURN(Self self, make_self(options.key, worker->address()));
  std::unique_ptr<UcxThread> made(new UcxThread(std::move(worker), std::move(self), std::move(handler), options));
  SCALAI_RETURN_IF_ERROR(made->listen());
  made->thread_ = std::thread([self = made.get()] { self->run(); });
  return made;
}

absl::Status UcxThread::listen() {
  const auto listen_to = [&](unsigned id, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t param{};
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = id;
    param.flags = UCP_AM_FLAG_WHOLE_MSG;
    param.cb = callback;
    param.arg = this;
    const ucs_status_t status = ucp_worker_set_am_recv_handler(worker_->handle(), &param);
    return status == UCS_OK ? absl::OkStatus() : ucx_error("ucp_worker_set_am_recv_handler", status);
  };
  SCALAI_RETURN_IF_ERROR(listen_to(AskHeader::kId, on_ask));
  SCALAI_RETURN_IF_ERROR(listen_to(AnswerHeader::kId, on_answer));
  return listen_to(CancelHeader::kId, on_cancel);
}

bool UcxThread::answer_came(const AnswerHeader& header, void* data, int64_t bytes, bool rendezvous) {
  return asking_.receive(header, data, bytes, rendezvous);
}

bool UcxThread::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (over_) return false;
    tasks_.push_back(std::move(task));
  }
  worker_->wake();
  return true;
}

bool UcxThread::run_tasks() {
  std::deque<Task> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (const Task& task : tasks) task();
  return !tasks.empty();
}

std::optional<Deadline> UcxThread::next_timer() const {
  std::optional<Deadline> next = asking_.next_late();
  const Deadline poll = std::chrono::steady_clock::now() + kClosePoll;
  return endpoints_.closing() && (!next || poll < *next) ? poll : next;
}

void UcxThread::run() {
  while (!stopping_) {
    bool busy = worker_->progress();
    // Each may give UCX something to do, which is why it is asked again before sleeping.
    busy = endpoints_.poll() || busy;
    busy = answering_.serve() || busy;
    busy = run_tasks() || busy;
    asking_.give_up_late();
    if (!busy) worker_->sleep(next_timer());
  }
  shut_down();
}

void UcxThread::progress_while(std::chrono::milliseconds limit, const std::function<bool()>& unfinished) {
  const Deadline until = std::chrono::steady_clock::now() + limit;
  Deadline quiet = std::chrono::steady_clock::now() + kQuietTime;
  for (Deadline now{}; now < until && (unfinished() || now < quiet);) {
    const bool progressed = worker_->progress();
    const bool busy = endpoints_.poll() || progressed;
    now = std::chrono::steady_clock::now();
    if (busy) {
      quiet = now + kQuietTime;
    } else {
      worker_->sleep(now + kClosePoll);
    }
  }
}

void UcxThread::shut_down() {
  answering_.stop();
  asking_.cancel_all(closed());
  asking_.give_up_late(/*all=*/true);
  endpoints_.start_flushes();
  progress_while(kFlushTime, [this] { return endpoints_.flushing(); });
  endpoints_.close_all("closed");
  progress_while(kCloseTime, [this] { return endpoints_.closing(); });
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  run_tasks();
  asking_.cancel_all(closed());
}

void UcxThread::stop() {
  post([this] { stopping_ = true; });
  if (!thread_.joinable()) return;
  thread_.join();
  worker_.reset();
  endpoints_.abandon();
  asking_.abandon();
}

}  // namespace scalai::executor::transport::internal
