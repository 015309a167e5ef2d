#include "executor/rpc/internal/bind_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::internal {
namespace {

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

absl::Status bind_once(const addrinfo& info, const std::string& address) {
  const int fd = ::socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return absl::UnavailableError(fmt::format("cannot listen on {}: {}", address, std::strerror(errno)));
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const int error = ::bind(fd, info.ai_addr, info.ai_addrlen) == 0 ? 0 : errno;
  // Without listen() a second bind to a port that somebody listens on fails all the same.
  ::close(fd);
  if (error == 0) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("cannot listen on {}: {}", address, std::strerror(error)));
}

}  // namespace

absl::StatusOr<BindAddress> try_to_bind(const std::string& address) {
  const size_t colon = address.rfind(':');
  const bool shape = colon != std::string::npos && colon > 0;
  const auto port = shape ? parse_count(address.substr(colon + 1)) : absl::StatusOr<int64_t>(invalid(""));
  if (!port.ok() || *port > 65535)
    return invalid(fmt::format("'{}' is not HOST:PORT, such as 127.0.0.1:7000", address));
  BindAddress bind{.host = address.substr(0, colon)};
  std::string name = bind.host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(name.c_str(), address.c_str() + colon + 1, &hints, &found); error != 0) {
    return absl::UnavailableError(fmt::format("cannot listen on {}: {}", address, gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  bind.loopback = is_loopback(*found->ai_addr);
  SCALAI_RETURN_IF_ERROR(bind_once(*found, address));
  return bind;
}

}  // namespace scalai::executor::internal
