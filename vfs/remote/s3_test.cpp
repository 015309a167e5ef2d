#include "vfs/remote/s3.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "vfs/remote/remote_source.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::vfs {
namespace s3_test {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(S3, AddressesAreThoseOfTheEndpoint) {
  EXPECT_TRUE(is_s3("s3://b/k"));
  EXPECT_FALSE(is_s3("https://b/k"));
  S3Access access{.region = "eu-west-1"};
  EXPECT_EQ(s3_address("s3://bucket/a/b c+d.bin", access), "https://bucket.s3.eu-west-1.amazonaws.com/a/b%20c%2Bd.bin");
  access.endpoint = "http://127.0.0.1:9000";
  EXPECT_EQ(s3_address("s3://bucket/a", access), "http://127.0.0.1:9000/bucket/a");
  EXPECT_EQ(s3_address("s3://bucket", access), "http://127.0.0.1:9000/bucket");
}

TEST(S3, RequestsAreSignedWhereThereAreCredentials) {
  TestServer server(random_bytes(3000, 1), "\"1\"");
  RemoteOptions options;
  options.http.s3 = {.endpoint = server.url(""), .region = "eu-west-1"};
  const auto plain = open_remote_source("s3://bucket/file", options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(server.requests().back().headers.count("authorization"), 0U);
  options.http.s3.key = "KEY";
  options.http.s3.secret = "SECRET";
  options.http.s3.session_token = "TOKEN";
  const auto opened = open_remote_source("s3://bucket/file", options);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->size(), 3000);
  EXPECT_EQ((*opened)->name(), "s3://bucket/file");
  auto request = server.requests().back();
  EXPECT_EQ(request.path, "/bucket/file");
  EXPECT_THAT(request.headers["authorization"], StartsWith("AWS4-HMAC-SHA256 Credential=KEY/"));
  EXPECT_THAT(request.headers["authorization"], HasSubstr("/eu-west-1/s3/aws4_request"));
  EXPECT_THAT(request.headers["authorization"], HasSubstr("x-amz-security-token"));
  EXPECT_EQ(request.headers["x-amz-security-token"], "TOKEN");
}

TEST(S3, TokensDoNotFollowRedirects) {
  TestServer server(random_bytes(3000, 1), "\"1\"");
  server.set_faults([&](const TestServer::Request&) {
    TestServer::Fault fault;
    fault.status = 302;
    fault.headers = fmt::format("Location: {}\r\n", server.url("/elsewhere"));
    return fault;
  });
  RemoteOptions options;
  options.http.s3 = {.endpoint = server.url(""), .region = "r", .key = "KEY", .secret = "S", .session_token = "TOKEN"};
  EXPECT_FALSE(open_remote_source("s3://bucket/file", options).ok());
  for (const TestServer::Request& request : server.requests()) EXPECT_EQ(request.path, "/bucket/file");
}

}  // namespace s3_test
}  // namespace scalai::vfs
