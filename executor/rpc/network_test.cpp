#include "executor/rpc/network.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <memory>

namespace scalai::executor::rpc {
namespace {

TEST(NetworkTest, LoopbackIsKnown) {
  for (const char* address : {"127.0.0.1:7000", "127.3.2.1:1", "localhost:7000"}) {
    const auto interface = interface_to(address);
    ASSERT_TRUE(interface.ok()) << interface.status();
    EXPECT_TRUE(interface->loopback) << address;
    EXPECT_EQ(interface->address.substr(0, 4), "127.") << address;
    EXPECT_FALSE(interface->name.empty());
  }
}

// Each address of this machine, over the interface that has it.
TEST(NetworkTest, OwnAddressesAreOnTheirInterfaces) {
  ifaddrs* all = nullptr;
  ASSERT_EQ(::getifaddrs(&all), 0);
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[NI_MAXHOST] = "";
    ASSERT_EQ(::getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text, sizeof text, nullptr, 0, NI_NUMERICHOST), 0);
    const auto interface = interface_to(std::string(text) + ":7000");
    ASSERT_TRUE(interface.ok()) << text << ": " << interface.status();
    EXPECT_EQ(interface->loopback, (one->ifa_flags & IFF_LOOPBACK) != 0) << text;
    if (!interface->loopback) {
      EXPECT_EQ(interface->address, text);
    }
    EXPECT_EQ(std::string(one->ifa_name).substr(0, interface->name.size()), interface->name) << text;
  }
}

TEST(NetworkTest, BadAddressesAreErrors) {
  EXPECT_TRUE(absl::IsInvalidArgument(interface_to("nowhere").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(interface_to(":7000").status()));
  EXPECT_TRUE(absl::IsUnavailable(interface_to("no.such.host.invalid:7000").status()));
}

}  // namespace
}  // namespace scalai::executor::rpc
