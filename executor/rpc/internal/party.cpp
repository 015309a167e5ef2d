#include "executor/rpc/internal/party.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace scalai::executor::rpc::internal {
namespace {

struct Address {
  sa_family_t family = AF_UNSPEC;
  in6_addr bytes{};  // the first four where it is IPv4
  in_port_t port = 0;
};

// IPv4 in IPv6 is IPv4.
std::optional<Address> address_of(int fd, decltype(::getpeername)& ask) {
  sockaddr_storage found{};
  socklen_t length = sizeof(found);
  if (ask(fd, reinterpret_cast<sockaddr*>(&found), &length) != 0) return std::nullopt;
  Address address{.family = found.ss_family};
  if (found.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(found);
    std::memcpy(&address.bytes, &v4.sin_addr, sizeof(v4.sin_addr));
    address.port = v4.sin_port;
    return address;
  }
  if (found.ss_family != AF_INET6) return std::nullopt;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(found);
  address.port = v6.sin6_port;
  address.bytes = v6.sin6_addr;
  if (!IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) return address;
  address.family = AF_INET;
  std::memcpy(&address.bytes, &v6.sin6_addr.s6_addr[12], 4);
  return address;
}

std::string host_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_ntop(address.family, &address.bytes, text, sizeof(text));
  return text;
}

}  // namespace

std::string peer_of(int fd) {
  const std::optional<Address> peer = address_of(fd, ::getpeername);
  return peer ? fmt::format("{}:{}", host_of(*peer), ntohs(peer->port)) : "";
}

std::string peer_of(const std::string& grpc_peer) {
  const std::string text =
      absl::StrReplaceAll(grpc_peer, {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}, {"%25", "%"}});
  const size_t begin = text.find(':') + 1;  // behind the family
  const size_t port = text.rfind(':');
  if (begin == 0 || port < begin) return text;
  return text.substr(begin, std::min(text.find('%'), port) - begin) + text.substr(port);
}

Parties::Parties() : netlink_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)) {
  const timeval soon{.tv_sec = 0, .tv_usec = 100'000};  // the kernel answers before sendto() returns
  ::setsockopt(netlink_.get(), SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
}

std::string Parties::of(int fd) const {
  const std::optional<Address> peer = address_of(fd, ::getpeername), own = address_of(fd, ::getsockname);
  if (!peer || !own) return "";
  // The socket at the other end, if it is of this machine: its own address is our peer's.
  struct {
    nlmsghdr head{};
    inet_diag_req_v2 body{};
  } request;
  request.head = {.nlmsg_len = sizeof(request), .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST};
  request.body.sdiag_family = static_cast<uint8_t>(peer->family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_states = ~0U;
  request.body.id.idiag_sport = peer->port;
  request.body.id.idiag_dport = own->port;
  std::memcpy(request.body.id.idiag_src, &peer->bytes, sizeof(peer->bytes));
  std::memcpy(request.body.id.idiag_dst, &own->bytes, sizeof(own->bytes));
  std::fill(std::begin(request.body.id.idiag_cookie), std::end(request.body.id.idiag_cookie), INET_DIAG_NOCOOKIE);
  alignas(nlmsghdr) char answer[1024];
  const bool asked = ::send(netlink_.get(), &request, sizeof(request), 0) == static_cast<ssize_t>(sizeof(request));
  const ssize_t bytes = asked ? ::recv(netlink_.get(), answer, sizeof(answer), 0) : -1;
  const auto* head = reinterpret_cast<const nlmsghdr*>(answer);
  if (bytes >= static_cast<ssize_t>(NLMSG_LENGTH(sizeof(inet_diag_msg))) && head->nlmsg_type == SOCK_DIAG_BY_FAMILY) {
    const auto* found = static_cast<const inet_diag_msg*>(NLMSG_DATA(answer));
    // A machine's listener is what the kernel finds for a far peer with its port.
    if (found->idiag_state != TCP_LISTEN) return fmt::format("user {}", found->idiag_uid);
  }
  return host_of(*peer);
}

}  // namespace scalai::executor::rpc::internal
