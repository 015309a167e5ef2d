#include "executor/nccl/testing/fake_nccl_rank.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace scalai::executor::nccl::fake {
namespace {

constexpr int kRetryMs = 2;
constexpr int kSocketBytes = 1 << 20;

std::pair<sockaddr_un, socklen_t> address_of(const std::string& name, int rank) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero: an abstract address, which is gone with its socket.
  const std::string path = '\0' + name + "." + std::to_string(rank);
  const size_t length = std::min(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), length);
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)};
}

int new_socket() {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket >= 0) {
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
    ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
  }
  return socket;
}

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

std::vector<std::byte> as_bytes_of(const Header& header) {
  std::vector<std::byte> bytes(sizeof header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace

FakeCommunicator::FakeCommunicator(std::string name, int rank, int size)
    : name_(std::move(name)), rank_(rank), size_(size), peers_(static_cast<size_t>(size)) {
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { run(); });
}

FakeCommunicator::~FakeCommunicator() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  ::eventfd_write(wake_, 1);
  thread_.join();
  close_all();
}

std::string FakeCommunicator::problem() const {
  const std::scoped_lock lock(mutex_);
  return problem_;
}

NcclResult FakeCommunicator::post(std::vector<Operation> operations, bool never_done) {
  const std::scoped_lock lock(mutex_);
  if (state_ == NcclResult::kInProgress) {
    problem_ = "the operation before is still in progress";
    return NcclResult::kInvalidArgument;
  }
  if (state_ != NcclResult::kSuccess) return state_;
  if (finalize_) return NcclResult::kInvalidUsage;
  state_ = NcclResult::kInProgress;
  hang_ = never_done;
  posted_ = std::move(operations);
  ::eventfd_write(wake_, 1);
  return NcclResult::kInProgress;
}

NcclResult FakeCommunicator::finalize() {
  const std::scoped_lock lock(mutex_);
  if (state_ != NcclResult::kSuccess || finalize_) return NcclResult::kInvalidArgument;
  state_ = NcclResult::kInProgress;
  finalize_ = true;
  ::eventfd_write(wake_, 1);
  return NcclResult::kInProgress;
}

// --- the thread ------------------------------------------------------------------------------------------------------

void FakeCommunicator::run() {
  if (!listen()) fail(NcclResult::kInvalidUsage, "two ranks of the number " + std::to_string(rank_));
  for (;; sleep()) {
    {
      const std::scoped_lock lock(mutex_);
      if (stop_) return;
    }
    if (state_ != NcclResult::kSuccess && state_ != NcclResult::kInProgress) continue;
    if (joined_ < size_ - 1) {
      connect_lower();
      accept_higher();
      read_hellos();
      if (joined_ < size_ - 1) continue;
    }
    take_posted();
    exchange_with_self(peers_[static_cast<size_t>(rank_)]);
    for (Peer& peer : peers_) {
      if (peer.socket < 0) continue;
      send_some(peer);
      receive_some(peer);
    }
    settle();
  }
}

bool FakeCommunicator::listen() {
  listener_ = new_socket();
  const auto address = address_of(name_, rank_);
  return listener_ >= 0 && ::bind(listener_, reinterpret_cast<const sockaddr*>(&address.first), address.second) == 0 &&
         ::listen(listener_, size_) == 0;
}

void FakeCommunicator::connect_lower() {
  for (int rank = 0; rank < rank_; ++rank) {
    Peer& peer = peers_[static_cast<size_t>(rank)];
    if (peer.socket >= 0) continue;
    const int socket = new_socket();
    const auto address = address_of(name_, rank);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address.first), address.second) != 0) {
      ::close(socket);  // not there so far
      continue;
    }
    peer.socket = socket;
    peer.out_header =
        as_bytes_of({static_cast<uint32_t>(Kind::kHello), static_cast<uint32_t>(rank_), static_cast<uint64_t>(size_)});
    send_some(peer);
    ++joined_;
  }
}

void FakeCommunicator::accept_higher() {
  for (;;) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSocketBytes, sizeof kSocketBytes);
    newcomers_.push_back({socket, {}, 0});
  }
}

void FakeCommunicator::read_hellos() {
  for (auto newcomer = newcomers_.begin(); newcomer != newcomers_.end();) {
    newcomer = take_hello(*newcomer) ? newcomers_.erase(newcomer) : newcomer + 1;
  }
}

// True when it is no newcomer any more.
bool FakeCommunicator::take_hello(Newcomer& newcomer) {
  auto* into = reinterpret_cast<std::byte*>(&newcomer.hello);
  const ssize_t got = ::recv(newcomer.socket, into + newcomer.got, sizeof newcomer.hello - newcomer.got, 0);
  if (got < 0 && would_block()) return false;
  if (got <= 0) {
    ::close(newcomer.socket);  // it died, or gave up; it may come again
    return true;
  }
  newcomer.got += static_cast<size_t>(got);
  if (newcomer.got < sizeof newcomer.hello) return false;
  const auto rank = static_cast<size_t>(newcomer.hello.rank);
  if (newcomer.hello.bytes != static_cast<uint64_t>(size_) || rank >= peers_.size() || peers_[rank].socket >= 0) {
    ::close(newcomer.socket);
    fail(NcclResult::kInvalidUsage, "ranks do not agree on who joins");
    return true;
  }
  peers_[rank].socket = newcomer.socket;
  ++joined_;
  return true;
}

void FakeCommunicator::take_posted() {
  std::vector<Operation> posted;
  bool finalize = false;
  {
    const std::scoped_lock lock(mutex_);
    posted.swap(posted_);
    finalize = finalize_ && !left_;
    if (hang_) posted.clear();
  }
  if (finalize) say_leaving();
  open_operations_ += posted.size();
  for (Operation& operation : posted) {
    Peer& peer = peers_[static_cast<size_t>(operation.peer)];
    (operation.outgoing ? peer.sending : peer.receiving).push_back(operation);
  }
}

void FakeCommunicator::exchange_with_self(Peer& self) {
  while (!self.sending.empty() || !self.receiving.empty()) {
    if (self.sending.empty() || self.receiving.empty() || self.sending.front().bytes != self.receiving.front().bytes) {
      fail(NcclResult::kInvalidUsage, "what a rank sends to itself it receives in the same group");
      return;
    }
    std::memmove(self.receiving.front().into, self.sending.front().from, self.sending.front().bytes);
    self.sending.pop_front();
    self.receiving.pop_front();
    open_operations_ -= 2;
  }
}

void FakeCommunicator::send_some(Peer& peer) {
  while (peer.socket >= 0) {
    if (peer.out_header.empty()) {
      if (peer.sending.empty()) return;
      const Operation& next = peer.sending.front();
      peer.out_header = as_bytes_of({static_cast<uint32_t>(next.kind), 0, next.bytes});
      peer.sending_now = true;
    }
    const bool in_header = peer.out_header_sent < peer.out_header.size();
    const size_t body = peer.sending_now ? peer.sending.front().bytes : 0;
    const std::byte* from =
        in_header ? peer.out_header.data() + peer.out_header_sent : peer.sending.front().from + peer.out_sent;
    const size_t left = in_header ? peer.out_header.size() - peer.out_header_sent : body - peer.out_sent;
    const ssize_t sent = ::send(peer.socket, from, left, MSG_NOSIGNAL);
    if (sent < 0 && would_block()) return;
    if (sent < 0) return lost(peer, std::strerror(errno));
    (in_header ? peer.out_header_sent : peer.out_sent) += static_cast<size_t>(sent);
    if (peer.out_header_sent < peer.out_header.size() || peer.out_sent < body) continue;
    if (peer.sending_now) {
      peer.sending.pop_front();
      --open_operations_;
    }
    peer.out_header.clear();
    peer.out_header_sent = peer.out_sent = 0;
    peer.sending_now = false;
  }
}

void FakeCommunicator::receive_some(Peer& peer) {
  peer.blocked = false;
  while (peer.socket >= 0 && !peer.left) {
    if (peer.header_got < sizeof peer.header && !read_header(peer)) return;
    if (!peer.matched && !match(peer)) return;
    if (!read_bytes(peer)) return;
  }
}

bool FakeCommunicator::read_header(Peer& peer) {
  auto* into = reinterpret_cast<std::byte*>(&peer.header);
  const ssize_t got = ::recv(peer.socket, into + peer.header_got, sizeof peer.header - peer.header_got, 0);
  if (got < 0 && would_block()) return false;
  if (got <= 0) {
    lost(peer, got == 0 ? "closed" : std::strerror(errno));
    return false;
  }
  peer.header_got += static_cast<size_t>(got);
  return peer.header_got == sizeof peer.header;
}

bool FakeCommunicator::match(Peer& peer) {
  const auto kind = static_cast<Kind>(peer.header.kind);
  if (kind == Kind::kLeave) {
    peer.left = true;
    return false;
  }
  const auto found = std::find_if(peer.receiving.begin(), peer.receiving.end(),
                                  [&](const Operation& operation) { return operation.kind == kind; });
  if (found == peer.receiving.end()) {
    peer.blocked = true;
    return false;
  }
  if (found->bytes != peer.header.bytes) {
    fail(NcclResult::kInvalidUsage, "a rank sends " + std::to_string(peer.header.bytes) + " bytes where " +
                                        std::to_string(found->bytes) + " are received");
    return false;
  }
  peer.current = *found;
  peer.current_got = 0;
  peer.matched = true;
  peer.receiving.erase(found);
  return true;
}

bool FakeCommunicator::read_bytes(Peer& peer) {
  while (peer.current_got < peer.current.bytes) {
    const ssize_t got =
        ::recv(peer.socket, peer.current.into + peer.current_got, peer.current.bytes - peer.current_got, 0);
    if (got < 0 && would_block()) return false;
    if (got <= 0) {
      lost(peer, got == 0 ? "closed" : std::strerror(errno));
      return false;
    }
    peer.current_got += static_cast<size_t>(got);
  }
  peer.matched = false;
  peer.header_got = 0;
  --open_operations_;
  return true;
}

void FakeCommunicator::lost(Peer& peer, const char* how) {
  ::close(std::exchange(peer.socket, -1));
  const std::string rank = std::to_string(&peer - peers_.data());
  if (!left_) fail(NcclResult::kRemoteError, "connection to rank " + rank + " lost: " + how);
}

void FakeCommunicator::say_leaving() {
  const Header header{static_cast<uint32_t>(Kind::kLeave), 0, 0};
  for (Peer& peer : peers_) {
    if (peer.socket >= 0 && !peer.left) peer.out_header = as_bytes_of(header);
  }
  left_ = true;
}

void FakeCommunicator::settle() {
  for (const Peer& peer : peers_) {
    if (peer.left && !left_ && (!peer.sending.empty() || !peer.receiving.empty())) {
      return fail(NcclResult::kRemoteError, "a rank has left the communicator");
    }
  }
  const auto writing = [](const Peer& peer) { return peer.socket >= 0 && !peer.out_header.empty(); };
  const std::scoped_lock lock(mutex_);
  const bool idle = open_operations_ == 0 && posted_.empty() && !hang_ && finalize_ == left_ &&
                    std::none_of(peers_.begin(), peers_.end(), writing);
  if (idle && state_ == NcclResult::kInProgress) state_ = NcclResult::kSuccess;
}

void FakeCommunicator::fail(NcclResult result, const std::string& problem) {
  const std::scoped_lock lock(mutex_);
  if (state_ != NcclResult::kSuccess && state_ != NcclResult::kInProgress) return;
  problem_ = problem;
  state_ = result;
}

void FakeCommunicator::sleep() {
  const NcclResult state = state_;
  const bool working = state == NcclResult::kSuccess || state == NcclResult::kInProgress;
  std::vector<pollfd> watched = {{wake_, POLLIN, 0}};
  for (const Peer& peer : peers_) {
    // A peer that has left, or whose bytes nobody wants, would wake us for nothing.
    if (!working || peer.socket < 0 || peer.left) continue;
    const bool writing = !peer.out_header.empty() || !peer.sending.empty();
    const int events = (peer.blocked ? 0 : POLLIN) | (writing ? POLLOUT : 0);
    if (events != 0) watched.push_back({peer.socket, static_cast<short>(events), 0});
  }
  const bool joining = working && joined_ < size_ - 1;
  ::poll(watched.data(), watched.size(),
         joining || wake_ < 0 ? kRetryMs : -1);  // no descriptor was left to be woken by
  eventfd_t wakes = 0;
  ::eventfd_read(wake_, &wakes);
}

void FakeCommunicator::close_all() {
  for (Peer& peer : peers_) {
    if (peer.socket >= 0) ::close(peer.socket);
  }
  for (const Newcomer& newcomer : newcomers_) ::close(newcomer.socket);
  if (listener_ >= 0) ::close(listener_);
  ::close(wake_);
}

}  // namespace scalai::executor::nccl::fake
