#include "executor/rpc/network.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::executor::rpc {
namespace {

// The local address of a socket that would send to `info`. A datagram socket sends nothing when it is connected.
std::optional<sockaddr_storage> local_address(const addrinfo& info) {
  const int fd = ::socket(info.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  const bool known = ::connect(fd, info.ai_addr, info.ai_addrlen) == 0 &&
                     ::getsockname(fd, reinterpret_cast<sockaddr*>(&local), &length) == 0;
  ::close(fd);
  return known ? std::optional(local) : std::nullopt;
}

bool same_address(const sockaddr_storage& a, const sockaddr* b) {
  if (b == nullptr || a.ss_family != b->sa_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool is_loopback_v4(const sockaddr_storage& address) {
  return address.ss_family == AF_INET &&
         ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
}

std::string numbers_of(const sockaddr_storage& address) {
  char text[NI_MAXHOST] = "";
  const socklen_t length = address.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  (void)::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, text, sizeof text, nullptr, 0,
                      NI_NUMERICHOST);
  return text;
}

std::optional<Interface> interface_with(const sockaddr_storage& local) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    // All of 127.0.0.0/8 is the loopback interface's, which has only one of these addresses.
    if (!same_address(local, one->ifa_addr) && !(loopback && is_loopback_v4(local))) continue;
    const std::string name = one->ifa_name;
    // eth0:1 is an alias of eth0.
    return Interface{.name = name.substr(0, name.find(':')), .loopback = loopback, .address = numbers_of(local)};
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Interface> interface_to(const std::string& address) {
  const size_t colon = address.rfind(':');
  const bool shape = colon != std::string::npos && colon > 0 && parse_count(address.substr(colon + 1)).ok();
  if (!shape) return invalid(fmt::format("'{}' is not HOST:PORT, such as 127.0.0.1:7000", address));
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found); error != 0)
    return absl::UnavailableError(fmt::format("no controller at {}: {}", address, gai_strerror(error)));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* info = found; info != nullptr; info = info->ai_next) {
    const std::optional<sockaddr_storage> local = local_address(*info);
    const std::optional<Interface> interface = local ? interface_with(*local) : std::nullopt;
    if (interface) return *interface;
  }
  return absl::UnavailableError(fmt::format("no controller at {}: this machine has no way there", address));
}

}  // namespace scalai::executor::rpc
