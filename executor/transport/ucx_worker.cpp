#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "executor/transport/internal/ucx_worker.h"
#include "ptc/base/say.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace {

// Doubles the throughput of TCP on UCX 1.13 over its defaults of 8 KiB segments and the system's socket buffers.
constexpr std::array<std::pair<const char*, const char*>, 4> kTcpSettings = {
    {{"TX_SEG_SIZE", "512k"}, {"RX_SEG_SIZE", "512k"}, {"SNDBUF", "4m"}, {"RCVBUF", "4m"}}};

// How the library in use wants its TCP settings called: UCX 1.13.1 takes them without a prefix only, 1.18.1 with it
// only, and both ignore the other spelling with a warning. Versions between them were not tried.
std::string tcp_prefix() {
  unsigned major = 0, minor = 0, release = 0;
  ucp_get_version(&major, &minor, &release);
  return std::pair(major, minor) > std::pair(1U, 13U) ? "TCP_" : "";
}

// We allocate and map much memory that UCX never sees; it need not follow each call.
void leave_memory_calls_alone() {
  ucm_global_config_t options = ucm_global_opts;
  options.enable_events = 0;
  ucm_set_global_opts(&options);
}

ucs_log_func_rc_t log_to_stderr(const char*, unsigned, const char*, ucs_log_level_t, const ucs_log_component_config_t*,
                                const char* format, va_list arguments) {
  std::array<char, 1000> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  say("ucx: {}\n", text.data());
  return UCS_LOG_FUNC_RC_STOP;
}

// UCX logs to standard output, which is for results. UCX_LOG_FILE still names another place.
void keep_standard_output_clean() {
  if (std::getenv("UCX_LOG_FILE") == nullptr && ucs_log_num_handlers() == 1) ucs_log_push_handler(log_to_stderr);
}

// Endpoints that notice a dead peer never use shared memory, but UCX makes its segments at every start, and one of a
// process killed at that moment stays in /dev/shm.
constexpr const char* kUsualTransports = "^shm";

absl::Status os_error(const std::string& what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::strerror(errno)));
}

absl::Status watch(int epoll, int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0 ? absl::OkStatus() : os_error("epoll_ctl");
}

// Milliseconds, rounded up so that a sleep does not end before its time; -1 = for ever.
int timeout_ms(std::optional<std::chrono::steady_clock::time_point> until) {
  if (!until.has_value()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

}  // namespace

absl::Status ucx_error(const std::string& what, int status) {
  return absl::UnavailableError(fmt::format("{}: {}", what, ucs_status_string(static_cast<ucs_status_t>(status))));
}

absl::StatusOr<std::unique_ptr<UcxWorker>> UcxWorker::create(const UcxOptions& options) {
  std::unique_ptr<UcxWorker> worker(new UcxWorker());
  SCALAI_RETURN_IF_ERROR(worker->open(options));
  return worker;
}

absl::Status UcxWorker::open(const UcxOptions& options) {
  SCALAI_RETURN_IF_ERROR(open_context(options));
  SCALAI_RETURN_IF_ERROR(open_worker());
  return open_descriptors();
}

absl::Status UcxWorker::open_context(const UcxOptions& options) {
  keep_standard_output_clean();
  leave_memory_calls_alone();
  ucp_config_t* config = nullptr;
  if (const auto status = ucp_config_read(nullptr, nullptr, &config); status != UCS_OK)
    return ucx_error("ucp_config_read", status);
  absl::Status problem;
  const auto set = [&](const char* name, const char* value) {
    const ucs_status_t status = ucp_config_modify(config, name, value);
    if (status != UCS_OK) problem.Update(ucx_error(fmt::format("UCX_{}={}", name, value), status));
  };
  const std::string prefix = tcp_prefix();
  for (const auto& [name, value] : kTcpSettings) set((prefix + name).c_str(), value);
  if (!options.transports.empty()) set("TLS", options.transports.c_str());
  if (options.transports.empty() && std::getenv("UCX_TLS") == nullptr) set("TLS", kUsualTransports);
  if (!options.devices.empty()) set("NET_DEVICES", options.devices.c_str());
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (problem.ok()) {
    const ucs_status_t status = ucp_init(&params, config, &context_);
    if (status != UCS_OK) problem = ucx_error("ucp_init", status);
  }
  ucp_config_release(config);
  return problem;
}

absl::Status UcxWorker::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  if (const auto status = ucp_worker_create(context_, &params, &worker_); status != UCS_OK)
    return ucx_error("ucp_worker_create", status);
  ucp_address_t* address = nullptr;
  size_t length = 0;
  if (const auto status = ucp_worker_get_address(worker_, &address, &length); status != UCS_OK)
    return ucx_error("ucp_worker_get_address", status);
  address_.assign(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker_, address);
  return absl::OkStatus();
}

absl::Status UcxWorker::open_descriptors() {
  int ucx = -1;
  if (const auto status = ucp_worker_get_efd(worker_, &ucx); status != UCS_OK)
    return ucx_error("ucp_worker_get_efd", status);
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || event_ < 0) return os_error("epoll_create1 or eventfd");
  SCALAI_RETURN_IF_ERROR(watch(epoll_, ucx));
  return watch(epoll_, event_);
}

UcxWorker::~UcxWorker() {
  if (worker_ != nullptr) ucp_worker_destroy(worker_);
  if (context_ != nullptr) ucp_cleanup(context_);
  if (event_ >= 0) ::close(event_);
  if (epoll_ >= 0) ::close(epoll_);
}

bool UcxWorker::progress() { return ucp_worker_progress(worker_) != 0; }

void UcxWorker::sleep(std::optional<std::chrono::steady_clock::time_point> until) {
  // Arming fails while events wait to be progressed.
  if (const ucs_status_t status = ucp_worker_arm(worker_); status != UCS_OK) {
    SCALAI_CHECK(status == UCS_ERR_BUSY, ucs_status_string(status));
    return;
  }
  std::array<epoll_event, 2> events{};
  const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), timeout_ms(until));
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<size_t>(i)].data.fd != event_) continue;
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t taken = ::read(event_, &wakes, sizeof wakes);
    // After the read: whoever finds it still set has queued its work before we look.
    woken_ = false;
  }
}

void UcxWorker::wake() {
  if (woken_.exchange(true)) return;
  const uint64_t one = 1;
  const ssize_t written = ::write(event_, &one, sizeof one);
  SCALAI_CHECK(written == sizeof one, std::strerror(errno));
}

}  // namespace scalai::executor::transport::internal
