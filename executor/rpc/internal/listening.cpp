#include "executor/rpc/internal/listening.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::rpc::internal {
namespace {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool is_any_ipv4(const sockaddr& address) {
  return address.sa_family == AF_INET && reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
}

in_port_t& port_of(sockaddr& address) {
  return address.sa_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                      : reinterpret_cast<sockaddr_in6&>(address).sin6_port;
}

// Invalid, with errno, after an error.
FileDescriptor listen_at(const sockaddr& address, socklen_t length) {
  FileDescriptor fd(::socket(address.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return fd;
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // which accepted ones inherit
  if (address.sa_family == AF_INET6) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (::bind(fd.get(), &address, length) == 0 && ::listen(fd.get(), SOMAXCONN) == 0) return fd;
  const int error = errno;
  fd = FileDescriptor();
  errno = error;
  return fd;
}

int port_of(const FileDescriptor& fd) {
  sockaddr_storage own{};
  socklen_t length = sizeof(own);
  ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &length);
  return ntohs(port_of(reinterpret_cast<sockaddr&>(own)));
}

FileDescriptor listen_anywhere(in_port_t port) {
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = port;
  return listen_at(reinterpret_cast<const sockaddr&>(any), sizeof(any));
}

}  // namespace

absl::StatusOr<Listening> listen_on(const std::string& address) {
  const size_t colon = address.rfind(':');
  const bool shape = colon != std::string::npos && colon > 0;
  const auto port = shape ? parse_count(address.substr(colon + 1)) : absl::StatusOr<int64_t>(invalid(""));
  if (!port.ok() || *port > 65535)
    return invalid(fmt::format("'{}' is not HOST:PORT, such as 127.0.0.1:7000", address));
  Listening listening{.host = address.substr(0, colon), .port = static_cast<int>(*port)};
  std::string name = listening.host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), address.c_str() + colon + 1, &hints, &found); error != 0) {
    return absl::UnavailableError(fmt::format("cannot listen on {}: {}", address, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  listening.loopback = is_loopback(*found->ai_addr);
  std::string why = "no address";
  for (addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    in_port_t& wanted = port_of(*one->ai_addr);
    wanted = htons(static_cast<uint16_t>(listening.port));
    FileDescriptor fd = is_any_ipv4(*one->ai_addr) ? listen_anywhere(wanted) : FileDescriptor();
    if (fd.get() < 0) fd = listen_at(*one->ai_addr, one->ai_addrlen);
    if (fd.get() < 0) {
      why = std::strerror(errno);
      if (errno == EADDRINUSE) break;  // half of the callers would reach somebody else
      continue;                        // a name may have an address that this machine has not
    }
    if (listening.port == 0) listening.port = port_of(fd);
    listening.sockets.push_back(std::move(fd));
    why.clear();
  }
  if (listening.sockets.empty() || !why.empty())
    return absl::UnavailableError(fmt::format("cannot listen on {}: {}", address, why));
  return listening;
}

}  // namespace scalai::executor::rpc::internal
