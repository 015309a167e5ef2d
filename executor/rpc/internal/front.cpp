#include "executor/rpc/internal/front.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <vector>

#include "ptc/base/status.h"
#include "ptc/base/thread.h"

namespace scalai::executor::rpc::internal {
namespace {

constexpr int kAtOnce = 16;                 // connections, between two looks at those that wait
constexpr double kCrowdedPause_s = 0.002;   // so that the server behind closes as fast as connections come
constexpr double kShortagePause_s = 0.020;  // until it has closed one
constexpr size_t kTold = 100;               // parties

size_t most_of_this_process() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return static_cast<size_t>(std::clamp<rlim_t>(files.rlim_cur / 8, 16, 1024));
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

Front::Front(Listening listening, Options options)
    : listening_(std::move(listening)),
      options_(std::move(options)),
      most_(options_.most > 0 ? options_.most : most_of_this_process()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

absl::Status Front::start() {
  if (wake_.get() < 0) return absl::ResourceExhaustedError("no descriptor is left to listen with (ulimit -n)");
  SCALAI_ASSIGN_OR_RETURN(thread_, start_thread([this] { work(); }));
  return absl::OkStatus();
}

void Front::stop() {
  over_ = true;
  ::eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
  listening_.sockets.clear();
}

void Front::admit(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const auto& entry) { return entry.second.peer == peer; });
  if (found != waiting_.end()) waiting_.erase(found);
}

void Front::work() {
  while (!over_) {
    const double pause_s = std::exchange(pause_s_, 0);
    const auto [ended, comes] = look(pause_s > 0 ? pause_s : rest_s(), pause_s == 0);
    {
      const std::lock_guard lock(mutex_);
      for (const Id id : ended) waiting_.erase(id);
      close_late();
    }
    if (comes) accept_some();
  }
}

std::pair<std::set<Front::Id>, bool> Front::look(double timeout_s, bool also_new) {
  std::vector<pollfd> asked = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
  for (const FileDescriptor& socket : listening_.sockets)
    asked.push_back({.fd = also_new ? socket.get() : -1, .events = POLLIN, .revents = 0});
  const size_t first = asked.size();
  std::vector<Id> ids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, one] : waiting_) {
      ids.push_back(id);
      asked.push_back({.fd = one.connection.get(), .events = POLLRDHUP, .revents = 0});
    }
  }
  const int timeout_ms = timeout_s > 3600 ? -1 : static_cast<int>(timeout_s * 1000) + 1;
  std::pair<std::set<Id>, bool> result;
  if (::poll(asked.data(), asked.size(), timeout_ms) <= 0) return result;
  for (size_t i = 1; i < asked.size(); ++i) {
    if (asked[i].revents == 0) continue;
    if (i < first) {
      result.second = true;
    } else {
      result.first.insert(ids[i - first]);
    }
  }
  return result;
}

void Front::accept_some() {
  for (const FileDescriptor& socket : listening_.sockets) {
    for (int i = 0; i < kAtOnce && accept_one(socket); ++i) {
    }
  }
}

// False: no more for now.
bool Front::accept_one(const FileDescriptor& socket) {
  const int connection = ::accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (connection >= 0) {
    add(connection);
    return true;
  }
  if (!is_shortage(errno)) return errno != EAGAIN && errno != EWOULDBLOCK;  // one that ended before it was accepted
  // It stays in the backlog until then.
  pause_s_ = kShortagePause_s;
  if (told_.insert("").second)
    options_.log(fmt::format("a connection has to wait: {} (ulimit -n)", std::strerror(errno)));
  const std::lock_guard lock(mutex_);
  if (!waiting_.empty()) close_oldest_of_most();
  return false;
}

void Front::add(int connection) {
  Waiting one{.connection = FileDescriptor(::fcntl(connection, F_DUPFD_CLOEXEC, 0)),
              .peer = peer_of(connection),
              .party = parties_.of(connection),
              .since = Clock::now()};
  if (one.connection.get() < 0 || one.peer.empty()) {  // no room, or gone already
    ::close(connection);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    const auto of_party = static_cast<size_t>(std::count_if(
        waiting_.begin(), waiting_.end(), [&](const auto& entry) { return entry.second.party == one.party; }));
    const bool too_many = of_party + 1 > std::max<size_t>(1, most_ / 2);
    if (too_many) {
      close(std::find_if(waiting_.begin(), waiting_.end(),
                         [&](const auto& entry) { return entry.second.party == one.party; }));
    } else if (waiting_.size() + 1 > most_) {
      close_oldest_of_most();
    }
    if (too_many && told_.size() < kTold && told_.insert(one.party).second)
      options_.log(fmt::format("{} holds {} connections without a proof of the token: the oldest are closed", one.party,
                               of_party));
    waiting_.emplace(next_++, std::move(one));
  }
  options_.hand_over(connection);
}

void Front::close_late() {
  const TimePoint late = Clock::now() - seconds(options_.patience_s);
  while (!waiting_.empty() && waiting_.begin()->second.since <= late) close(waiting_.begin());
}

void Front::close_oldest_of_most() {
  std::map<std::string, size_t> counts;
  for (const auto& [id, one] : waiting_) ++counts[one.party];
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  close(std::find_if(waiting_.begin(), waiting_.end(),
                     [&](const auto& entry) { return entry.second.party == most->first; }));
}

// The server behind sees its end, and closes it.
void Front::close(std::map<Id, Waiting>::iterator one) {
  ::shutdown(one->second.connection.get(), SHUT_RDWR);
  waiting_.erase(one);
  pause_s_ = std::max(pause_s_, kCrowdedPause_s);
}

double Front::rest_s() {
  const std::lock_guard lock(mutex_);
  if (waiting_.empty()) return std::numeric_limits<double>::infinity();
  return std::max(
      0.0, std::chrono::duration<double>(waiting_.begin()->second.since + seconds(options_.patience_s) - Clock::now())
               .count());
}

}  // namespace scalai::executor::rpc::internal
