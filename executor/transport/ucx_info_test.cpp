#include "executor/transport/ucx_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "ptc/base/status.h"

namespace scalai::executor::transport {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(UcxInfo, FindsTcpAndSharedMemoryHere) {
  const auto info = ucx_info();
  ASSERT_TRUE(info.ok()) << message_of(info.status());
  EXPECT_THAT(info->version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  const auto has = [&](const std::string& transport, bool network) {
    return std::any_of(info->devices.begin(), info->devices.end(), [&](const UcxDevice& device) {
      return device.transport == transport && device.network == network && !device.device.empty();
    });
  };
  EXPECT_TRUE(has("tcp", true));
  EXPECT_TRUE(has("posix", false));
  EXPECT_FALSE(has("self", false));
}

TEST(UcxInfo, IsTheSameTwice) {
  const auto first = ucx_info(), second = ucx_info();
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(first->devices.size(), second->devices.size());
  for (size_t i = 0; i < first->devices.size(); ++i) EXPECT_EQ(first->devices[i].device, second->devices[i].device);
}

TEST(UcxInfo, TcpIsOnOneInterface) {
  EXPECT_EQ(ucx_devices_on("lo", true), "lo");
  const auto info = ucx_info().value();
  const std::string devices = "," + ucx_devices_on("eth7", false) + ",";
  EXPECT_THAT(devices, HasSubstr(",eth7,"));
  for (const UcxDevice& one : info.devices) {
    const bool wanted = one.network && one.transport != "tcp";
    EXPECT_EQ(devices.find("," + one.device + ",") != std::string::npos, wanted) << one.transport << " " << one.device;
  }
}

TEST(UcxInfo, IsUnavailableWithoutATransport) {
  ASSERT_EQ(setenv("UCX_TLS", "nonsense", 1), 0);
  const auto info = ucx_info();
  ASSERT_EQ(unsetenv("UCX_TLS"), 0);
  ASSERT_TRUE(absl::IsUnavailable(info.status())) << info.status();
  EXPECT_THAT(message_of(info.status()), HasSubstr("ucp_"));
}

}  // namespace
}  // namespace scalai::executor::transport
