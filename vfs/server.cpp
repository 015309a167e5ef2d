#define FUSE_USE_VERSION 35
#include "vfs/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "ptc/base/status.h"
#include "vfs/internal/kernel_flags.h"
#include "vfs/internal/operations.h"
#include "vfs/mounts.h"

namespace scalai::vfs {
namespace {

constexpr int kReadAheadKib = 1024;
constexpr double kFirstRequest_s = 10;
constexpr int kWakingSignal = SIGURG;  // ignored by those who do not expect it

ssize_t receive(int fd, void* buffer, size_t bytes, void* data) {
  const ssize_t got = ::read(fd, buffer, bytes);
  auto& system = *static_cast<FileSystem*>(data);
  if (got > 0 && system.negotiating && system.wants_mapped_direct)
    system.offered =
        system.offered || offers_mapped_direct_io({static_cast<const std::byte*>(buffer), static_cast<size_t>(got)});
  return got;
}

// The first message that we send is the answer to INIT: a header, and what is agreed on.
ssize_t send(int fd, iovec* parts, int count, void* data) {
  auto& system = *static_cast<FileSystem*>(data);
  const bool first = system.negotiating.exchange(false);
  if (first && system.offered && count == 2 &&
      accept_mapped_direct_io({static_cast<std::byte*>(parts[1].iov_base), parts[1].iov_len}))
    system.direct = true;
  return ::writev(fd, parts, count);
}

absl::Status check_device() {
  const int fd = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    ::close(fd);
    return absl::OkStatus();
  }
  if (errno == EACCES || errno == EPERM)
    return missing(fmt::format("/dev/fuse: {}; mounting needs the right to open it", std::strerror(errno)));
  return missing(fmt::format("/dev/fuse: {}; load the kernel module (modprobe fuse), or give the container the device",
                             std::strerror(errno)));
}

void wake_on_signal() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: a blocking read returns
  sigemptyset(&action.sa_mask);
  ::sigaction(kWakingSignal, &action, nullptr);
}

std::string mount_words(const ServerOptions& options) {
  return fmt::format("ro,nosuid,nodev,default_permissions,fsname=scalai-fs,subtype={}{}", kSubtype,
                     options.allow_other ? ",allow_other" : "");
}

// Held while we mount: two servers at one folder would hide each other.
class FolderLock {
 public:
  FolderLock() = default;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  absl::Status take(const std::string& directory) {
    SCALAI_RETURN_IF_ERROR(check_free(directory));
    fd_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd_ < 0) return missing(fmt::format("{}: {}", directory, std::strerror(errno)));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0)
      return invalid(fmt::format("{}: another process is mounting there right now", directory));
    return check_free(directory);  // whoever held the lock before us may have mounted
  }

 private:
  static absl::Status check_free(const std::string& directory) {
    const auto there = mount_at(directory);
    if (!there || !there->ours()) return absl::OkStatus();
    return invalid(fmt::format("{0}: is mounted by scalai fs already; `scalai fs unmount {0}` ends that", directory));
  }
  int fd_ = -1;
};

}  // namespace

struct Server::State {
  State(std::shared_ptr<Directory> root, ServerOptions wanted, Log& log, ControlHandler control)
      : options(std::move(wanted)), system(std::move(root), log, std::move(control)) {}

  void work();
  void end_of_thread();
  absl::Status open_session();
  absl::Status start_threads();
  absl::Status check_answer();
  bool seen() const;
  bool stop(double patience_s);
  bool join(double patience_s);

  ServerOptions options;
  FileSystem system;
  fuse_session* session = nullptr;
  std::string device;  // of our mount, as mount tables have it; empty: nothing was mounted
  int ended = -1;      // eventfd
  std::atomic<int> running = 0;
  std::vector<std::thread> threads;
};

void Server::State::work() {
  fuse_buf buffer = {};
  while (fuse_session_exited(session) == 0) {
    const int got = fuse_session_receive_buf(session, &buffer);
    if (got == -EINTR || got == -EAGAIN) continue;
    if (got <= 0) break;  // unmounted, or the connection is broken
    fuse_session_process_buf(session, &buffer);
  }
  std::free(buffer.mem);
  end_of_thread();
}

void Server::State::end_of_thread() {
  fuse_session_exit(session);
  if (--running > 0) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(ended, &one, sizeof(one));  // an eventfd takes it
}

absl::Status Server::State::open_session() {
  std::string name = "scalai-fs", option = "-o", words = mount_words(options);
  char* argv[] = {name.data(), option.data(), words.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, argv);
  session = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), &system);
  fuse_opt_free_args(&arguments);
  if (session == nullptr) return failed("libfuse refused to start a session");
  errno = 0;
  if (fuse_session_mount(session, options.directory.c_str()) != 0) {
    return missing(fmt::format("{}: mounting failed{}{}; it needs root, or fusermount3 and a folder of one's own{}",
                               options.directory, errno != 0 ? ": " : "", errno != 0 ? std::strerror(errno) : "",
                               options.allow_other ? ", and user_allow_other in /etc/fuse.conf" : ""));
  }
  const auto mount = mount_at(options.directory);
  if (!mount || !mount->ours()) return failed(fmt::format("{}: another mount hides ours", options.directory));
  device = mount->device;
  const fuse_custom_io io = {.writev = send, .read = receive, .splice_receive = nullptr, .splice_send = nullptr};
  const int error = fuse_session_custom_io(session, &io, fuse_session_fd(session));
  return error == 0 ? absl::OkStatus() : failed(fmt::format("libfuse: {}", std::strerror(std::abs(error))));
}

absl::Status Server::State::start_threads() {
  running = options.threads;
  for (int i = 0; i < options.threads; ++i) {
    try {
      threads.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {  // of the standard library: no more threads
      running -= options.threads - i;
      if (i == 0) return failed(fmt::format("starting a thread: {}", error.what()));
      options.threads = i;  // fewer serve as well
    }
  }
  return absl::OkStatus();
}

// The kernel has our answer to its first request, so it takes others. No file of the mount is touched from here: a
// process that is killed while it waits for itself never ends, and its mount neither.
absl::Status Server::State::check_answer() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kFirstRequest_s);
  while (system.negotiating) {
    if (std::chrono::steady_clock::now() > until || running < options.threads)
      return failed(fmt::format("{}: was mounted, and the kernel does not speak to us", options.directory));
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const auto mount = mount_at(options.directory);
  if (!mount || mount->device != device) return failed(fmt::format("{}: another mount hides ours", options.directory));
  raise_read_ahead(*mount, kReadAheadKib);
  return absl::OkStatus();
}

// A thread that waits for a request wakes up by a signal. One that was about to wait has missed it, hence again and
// again.
bool Server::State::join(double patience_s) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  while (running > 0) {
    for (std::thread& thread : threads) ::pthread_kill(thread.native_handle(), kWakingSignal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (std::chrono::steady_clock::now() > until) return false;
  }
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  return true;
}

// What lies at the folder is our mount. Mounts end by path, so when somebody has detached ours and mounted another one
// there, that one must stay.
bool Server::State::seen() const {
  if (device.empty()) return false;
  const auto mount = mount_at(options.directory);
  return mount && mount->device == device;
}

bool Server::State::stop(double patience_s) {
  if (session == nullptr) return true;
  fuse_session_exit(session);
  if (!join(patience_s)) {
    if (seen()) (void)unmount(options.directory, /*force=*/true);
    return false;
  }
  // Lets go of the device first, so nobody waits for an answer any more; without it fuse_session_destroy closes the
  // device.
  if (seen()) fuse_session_unmount(session);
  fuse_session_destroy(session);
  session = nullptr;
  return true;
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  if (state_->session != nullptr && !state_->stop(/*patience_s=*/10)) {
    std::fputs("scalai fs: a thread does not come back from its source\n", stderr);
    std::_Exit(5);
  }
  if (state_->ended >= 0) ::close(state_->ended);
}

absl::StatusOr<std::unique_ptr<Server>> Server::mount(std::shared_ptr<Directory> root, const ServerOptions& options,
                                                      Log& log, ControlHandler control) {
  SCALAI_CHECK(options.threads >= 1 && options.threads <= kMostThreads, std::to_string(options.threads));
  SCALAI_RETURN_IF_ERROR(check_device());
  wake_on_signal();
  std::unique_ptr<Server> server(
      new Server(std::make_unique<State>(std::move(root), options, log, std::move(control))));
  State& state = *server->state_;
  state.system.uid = ::getuid();
  state.system.gid = ::getgid();
  ::clock_gettime(CLOCK_REALTIME, &state.system.mounted_at);
  state.system.direct = options.reads == ReadPath::kDirect;
  state.system.wants_mapped_direct = options.reads != ReadPath::kCached;
  state.ended = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (state.ended < 0) return failed(fmt::format("eventfd: {}", std::strerror(errno)));
  FolderLock lock;
  SCALAI_RETURN_IF_ERROR(lock.take(options.directory));
  SCALAI_RETURN_IF_ERROR(state.open_session());
  SCALAI_RETURN_IF_ERROR(state.start_threads());
  SCALAI_RETURN_IF_ERROR(state.check_answer());
  return server;
}

int Server::ended() const { return state_->ended; }
bool Server::stop(double patience_s) { return state_->stop(patience_s); }
const Statistics& Server::statistics() const { return state_->system.statistics; }
bool Server::reads_directly() const { return state_->system.direct; }
size_t Server::nodes() const { return state_->system.nodes.size(); }

}  // namespace scalai::vfs
