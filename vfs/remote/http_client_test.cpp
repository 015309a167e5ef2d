#include "vfs/remote/http_client.h"

#include "ptc/base/status.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::vfs {
namespace {

TEST(Addresses, AreRemoteOrNot) {
  EXPECT_TRUE(is_remote("http://a/b"));
  EXPECT_TRUE(is_remote("HTTPS://a"));
  EXPECT_FALSE(is_remote("/http://a"));
  EXPECT_FALSE(is_remote("http:/a"));
  EXPECT_FALSE(is_remote("ftp://a"));
  EXPECT_FALSE(is_remote(""));
}

TEST(Addresses, ShowNoSecrets) {
  EXPECT_EQ(display_name("https://me:secret@host:8080/a/b?sig=secret#secret"), "https://host:8080/a/b");
  EXPECT_EQ(display_name("https://me:sec@ret@host/a"), "https://host/a");
  EXPECT_EQ(display_name("https://host?sig=x@y"), "https://host");
  EXPECT_EQ(display_name("http://host/a@b"), "http://host/a@b");
  EXPECT_EQ(without_user("http://me@host/a?b=c@d"), "http://host/a?b=c@d");
  EXPECT_EQ(without_user("http://host/a?b=c@d"), "http://host/a?b=c@d");
}

TEST(ContentRangeHeader, IsParsedStrictly) {
  EXPECT_EQ(parse_content_range("bytes 0-9/10"), (ContentRange{0, 9, 10}));
  EXPECT_EQ(parse_content_range("bytes 5-5/4294967297"), (ContentRange{5, 5, 4294967297}));
  EXPECT_EQ(parse_content_range("bytes */7"), (ContentRange{0, -1, 7}));
  for (const char* bad :
       {"", "bytes", "bytes ", "bytes 0-9", "bytes 0-9/", "bytes 0-9/*", "bytes 0-10/10", "bytes 5-4/10",
        "bytes -1-4/10", "bytes 0-9/10 ", "items 0-9/10", "bytes */", "bytes */*", "bytes 0-9/99999999999999999999"}) {
    EXPECT_FALSE(parse_content_range(bad)) << bad;
  }
}

struct Answer {
  HttpOutcome outcome;
  HttpHead head;
  std::string body;
};

Answer get(const HttpClient& client, const std::string& url, int64_t offset, int64_t bytes) {
  Answer answer;
  HttpRequest request;
  request.url = url;
  request.offset = offset;
  request.bytes = bytes;
  request.on_head = [&](const HttpHead& head) {
    answer.head = head;
    return absl::OkStatus();
  };
  request.on_bytes = [&](std::span<const std::byte> data) {
    answer.body.append(reinterpret_cast<const char*>(data.data()), data.size());
    return absl::OkStatus();
  };
  answer.outcome = client.get(request);
  return answer;
}

TEST(HttpClient, GetsARangeAndItsHead) {
  TestServer server("0123456789", "\"one\"");
  server.set_last_modified("Sun, 22 Nov 2026 05:00:00 GMT");
  const HttpClient client({});
  const Answer answer = get(client, server.url(), 3, 4);
  ASSERT_TRUE(answer.outcome.status.ok()) << answer.outcome.status;
  EXPECT_EQ(answer.body, "3456");
  EXPECT_EQ(answer.head.status, 206);
  EXPECT_EQ(answer.head.etag, "\"one\"");
  EXPECT_EQ(answer.head.last_modified, "Sun, 22 Nov 2026 05:00:00 GMT");
  EXPECT_EQ(answer.head.content_range, "bytes 3-6/10");
  EXPECT_EQ(answer.head.content_bytes, 4);
  EXPECT_FALSE(answer.head.retry_after_s);
}

TEST(HttpClient, KeepsItsConnection) {
  TestServer server("0123456789", "\"one\"");
  const HttpClient client({});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(get(client, server.url(), i, 1).body, std::to_string(i));
  EXPECT_EQ(server.connections(), 1);
}

TEST(HttpClient, TellsHowLongToWait) {
  TestServer server("0123456789", "\"one\"");
  server.set_faults([](const auto&) { return TestServer::Fault{.status = 503, .headers = "Retry-After: 7\r\n"}; });
  const Answer answer = get(HttpClient({}), server.url(), 0, 1);
  ASSERT_TRUE(answer.outcome.status.ok()) << answer.outcome.status;
  EXPECT_EQ(answer.head.status, 503);
  EXPECT_EQ(answer.head.retry_after_s, 7);
}

TEST(HttpClient, FollowsRedirectsUpToALimit) {
  TestServer server("0123456789", "\"one\"");
  server.set_faults([](const TestServer::Request& request) {
    const int left = std::stoi(request.path.substr(1));
    if (left == 0) return TestServer::Fault{};
    return TestServer::Fault{.status = 302,
                             .headers = fmt::format("Location: /{}\r\nLast-Modified: long ago\r\n", left - 1)};
  });
  const HttpClient client({.redirects = 2});
  const Answer answer = get(client, server.url("/2"), 1, 2);
  EXPECT_EQ(answer.body, "12");
  EXPECT_EQ(answer.head.last_modified, "") << "of the redirect";
  const Answer far = get(client, server.url("/3"), 1, 2);
  EXPECT_EQ(far.outcome.status.code(), absl::StatusCode::kAborted) << far.outcome.status;
  EXPECT_EQ(far.body, "");
}

TEST(HttpClient, DoesNotFollowToOtherProtocols) {
  TestServer server("0123456789", "\"one\"");
  server.set_faults(
      [](const auto&) { return TestServer::Fault{.status = 302, .headers = "Location: file:///etc/passwd\r\n"}; });
  const Answer answer = get(HttpClient({}), server.url(), 0, 1);
  EXPECT_EQ(answer.outcome.status.code(), absl::StatusCode::kAborted) << answer.outcome.status;
  EXPECT_EQ(answer.body, "");
}

TEST(HttpClient, CutsStallsAndDeadServersMayPass) {
  const HttpClient client({.stall_timeout_s = 1});
  std::string url;
  {
    TestServer server("0123456789", "\"one\"");
    url = server.url();
    for (const TestServer::Fault& fault :
         {TestServer::Fault{.cut_after = 3}, TestServer::Fault{.close = true}, TestServer::Fault{.stall_s = 10}}) {
      server.set_faults([&](const auto&) { return fault; });
      const Answer answer = get(client, server.url("/file?secret=1", "me:secret@"), 0, 8);
      EXPECT_EQ(answer.outcome.status.code(), absl::StatusCode::kUnavailable) << answer.outcome.status;
      const std::string message = message_of(answer.outcome.status);
      EXPECT_EQ(message.find(url + ": "), 0u) << message;
      EXPECT_EQ(message.find("secret"), std::string::npos) << message;
    }
  }
  EXPECT_EQ(get(client, url, 0, 1).outcome.status.code(), absl::StatusCode::kUnavailable);
}

TEST(HttpClient, AnErrorInTheMiddleEndsTheRequest) {
  TestServer server(std::string(1 << 20, 'x'), "\"one\"");
  HttpRequest request;
  request.url = server.url();
  request.bytes = 1 << 20;
  int calls = 0;
  request.on_head = [](const HttpHead&) { return absl::OkStatus(); };
  request.on_bytes = [&](std::span<const std::byte>) {
    ++calls;
    return invalid("enough");
  };
  EXPECT_EQ(HttpClient({}).get(request).status, invalid("enough"));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace scalai::vfs
