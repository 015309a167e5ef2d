#include "executor/secret/secret.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace scalai::executor::secret {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// Against `openssl dgst -sha256 -hmac` of the same bytes.
TEST(SecretTest, MacsAreHmacSha256OverPartsWithLengths) {
  EXPECT_EQ(hex(mac_of("key", {})), "5d5d139563c95b5967b9bd9a8c9b233a9dedb45072794cd232dc1b74832607d0");
  EXPECT_EQ(hex(mac_of("key", {"ab"})), "3c8525153e9778c5277c1afbeeabe6a12a065916b8a476bff3e64a169bd700a9");
  EXPECT_EQ(mac_of("key", {"ab"}).size(), kMacBytes);
}

TEST(SecretTest, OtherPartsAndKeysGiveOtherMacs) {
  const std::set<std::string> macs = {mac_of("key", {}),         mac_of("key", {""}),       mac_of("key", {"", ""}),
                                      mac_of("key", {"ab"}),     mac_of("key", {"a", "b"}), mac_of("key", {"", "ab"}),
                                      mac_of("key2", {"ab"}),    key_for("key", "ab"),      key_for("key", "ac"),
                                      mac_of("key", {"b", "a"}), key_for("key2", "ab")};
  EXPECT_EQ(macs.size(), 11U);
}

TEST(SecretTest, SecretsAreEqualOrNot) {
  EXPECT_TRUE(same_secret("abc", "abc"));
  EXPECT_TRUE(same_secret("", ""));
  EXPECT_FALSE(same_secret("abc", "abd"));
  EXPECT_FALSE(same_secret("bbc", "abc"));
  EXPECT_FALSE(same_secret("abc", "abcd"));
  EXPECT_FALSE(same_secret("", "a"));
}

TEST(SecretTest, RandomBytesDiffer) {
  std::set<std::string> all;
  for (int i = 0; i < 100; ++i) all.insert(random_bytes(kNonceBytes).value());
  EXPECT_EQ(all.size(), 100U);
  EXPECT_EQ(all.begin()->size(), kNonceBytes);
  EXPECT_EQ(random_bytes(0).value(), "");
}

}  // namespace
}  // namespace scalai::executor::secret
