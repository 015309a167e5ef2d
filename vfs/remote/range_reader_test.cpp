#include "vfs/remote/range_reader.h"

#include <optional>

#include "ptc/base/status.h"
#include "vfs/remote/testing/test_server.h"

namespace scalai::vfs {
namespace {

using Fault = TestServer::Fault;
using Request = TestServer::Request;

class RangeReaderTest : public ::testing::Test {
 protected:
  RangeReaderTest() : file_(random_bytes(100'000, 7)), server_(file_, "\"one\"") {
    context_ = context({.attempts = 4, .first_wait_s = 0.5, .longest_wait_s = 4, .longest_retry_after_s = 20});
  }
  // Waits are noted, not waited.
  std::shared_ptr<RequestContext> context(RetryPolicy policy) {
    policy.jitter_seed = 1;
    policy.sleep = [this](double seconds) { waits_.push_back(seconds); };
    return std::make_shared<RequestContext>(HttpOptions{.stall_timeout_s = 1}, policy);
  }
  RangeReader open() {
    absl::StatusOr<RangeReader> reader = RangeReader::open(context_, server_.url());
    EXPECT_TRUE(reader.ok()) << reader.status();
    waits_.clear();
    return std::move(reader).value();
  }
  // Requests from now on: the first `count` get the fault.
  void next_requests(int count, const Fault& fault) {
    const int from = static_cast<int>(server_.requests().size());
    server_.set_faults([=](const Request& request) { return request.number < from + count ? fault : Fault{}; });
  }
  absl::Status read(const RangeReader& reader, int64_t offset, int64_t bytes) {
    absl::Status status;
    const std::string found = read_string(reader, offset, bytes, status);
    EXPECT_TRUE(!status.ok() || found == file_.substr(static_cast<size_t>(offset), static_cast<size_t>(bytes)));
    return status;
  }
  void expect_error(const absl::Status& status, absl::StatusCode code, const std::string& part) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_EQ(message_of(status).find(server_.url() + ": "), 0u) << "no address: " << status;
    EXPECT_NE(message_of(status).find(part), std::string::npos) << status;
  }

  std::vector<double> waits_;
  std::string file_;
  TestServer server_;
  std::shared_ptr<RequestContext> context_;
};

TEST_F(RangeReaderTest, LearnsSizeAndVersionByOneRequest) {
  const RangeReader reader = open();
  EXPECT_EQ(reader.version(), (RemoteVersion{100'000, "\"one\"", ""}));
  ASSERT_EQ(server_.requests().size(), 1u);
  EXPECT_EQ(server_.requests()[0].headers["range"], "bytes=0-0");
  EXPECT_EQ(server_.requests()[0].headers["accept-encoding"], "identity");
}

TEST_F(RangeReaderTest, ReadsAnyRange) {
  const RangeReader reader = open();
  Random random(11);
  for (int i = 0; i < 50; ++i) {
    const int64_t offset = random.below(100'000);
    ASSERT_TRUE(read(reader, offset, random.between(0, 100'000 - offset)).ok());
  }
  EXPECT_EQ(context_->counts.retries, 0);
  EXPECT_EQ(server_.requests().back().headers["if-range"], "\"one\"");
}

TEST_F(RangeReaderTest, AnEmptyFileIsEmpty) {
  server_.set_file("", "\"one\"");
  const RangeReader reader = open();
  EXPECT_EQ(reader.version().bytes, 0);
  EXPECT_TRUE(reader.read(0, {}).ok());
}

TEST_F(RangeReaderTest, TriesAgainAfterWhatMayPass) {
  const RangeReader reader = open();
  for (const Fault& fault :
       {Fault{.status = 503}, Fault{.status = 429}, Fault{.status = 408}, Fault{.cut_after = 0}, Fault{.stall_s = 5}}) {
    SCOPED_TRACE(fault.status);
    const int64_t before = context_->counts.retries;
    next_requests(2, fault);
    waits_.clear();
    EXPECT_TRUE(read(reader, 10, 1000).ok());
    EXPECT_EQ(context_->counts.retries - before, 2);
    ASSERT_EQ(waits_.size(), 2u);
    EXPECT_GE(waits_[0], 0.25);
    EXPECT_LT(waits_[0], 0.5);
    EXPECT_GE(waits_[1], 0.5);
    EXPECT_LT(waits_[1], 1);
  }
}

TEST_F(RangeReaderTest, TriesAgainWhenTheServerHangsUp) {
  const RangeReader reader = open();
  // The first is on an old connection, which may have been closed for its age: libcurl takes a new one by itself.
  next_requests(3, {.close = true});
  EXPECT_TRUE(read(reader, 10, 1000).ok());
  EXPECT_EQ(context_->counts.retries, 2);
}

TEST_F(RangeReaderTest, GoesOnWhereAnAnswerWasCut) {
  const RangeReader reader = open();
  for (const Fault& fault : {Fault{.cut_after = 600}, Fault{.cut_after = 600, .no_length = true}}) {
    next_requests(1, fault);
    EXPECT_TRUE(read(reader, 100, 1000).ok());
    EXPECT_EQ(server_.requests().back().headers["range"], "bytes=700-1099");
  }
}

TEST_F(RangeReaderTest, AttemptsThatBringBytesDoNotCount) {
  const RangeReader reader = open();
  next_requests(100, {.most = 1000});
  EXPECT_TRUE(read(reader, 50, 20'000).ok());
  EXPECT_EQ(server_.requests().size(), 21u);
  EXPECT_EQ(waits_.size(), 0u) << "a short answer that ended in order is no reason to wait";
  const int64_t before = context_->counts.retries;
  next_requests(10, {.cut_after = 1000});
  EXPECT_TRUE(read(reader, 50, 20'000).ok());
  EXPECT_EQ(context_->counts.retries - before, 10);
  ASSERT_EQ(waits_.size(), 10u);
  for (const double wait_s : waits_) EXPECT_LT(wait_s, 0.5) << "each is the first wait";
  next_requests(100, {.status = 500});
  expect_error(read(reader, 0, 10), absl::StatusCode::kAborted, "tried 4 times");
}

TEST_F(RangeReaderTest, AReadHasATimeAllInAll) {
  RetryPolicy policy{.attempts = 1000, .first_wait_s = 0.01, .longest_wait_s = 0.01, .total_s = 0.3};
  context_ = context(policy);
  context_->retry.sleep = nullptr;
  const auto seconds_of = [&](const RangeReader& reader, const std::string& part) {
    const auto start = std::chrono::steady_clock::now();
    expect_error(read(reader, 0, 10), absl::StatusCode::kAborted, part);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const RangeReader reader = open();
  next_requests(1000, {.stall_s = 5});  // one attempt
  EXPECT_LT(seconds_of(reader, "at most 300 ms"), 4);
  next_requests(1000, {.status = 503});  // many
  const double seconds = seconds_of(reader, "answered 503; a read has at most 300 ms");
  EXPECT_GE(seconds, 0.2);
  EXPECT_LT(seconds, 9) << "a thousand attempts take 10 s";
  next_requests(1, {.status = 429, .headers = "Retry-After: 60\r\n"});
  EXPECT_LT(seconds_of(reader, "asks to wait"), 30) << "there is no time to wait for that";
}

TEST_F(RangeReaderTest, TheServersAnswerIsTheReasonAndNotTheLastAttemptsLackOfTime) {
  context_ = context({.attempts = 1000, .first_wait_s = 0.01, .longest_wait_s = 0.01, .total_s = 0.3});
  context_->retry.sleep = nullptr;
  const RangeReader reader = open();
  const int from = static_cast<int>(server_.requests().size());
  server_.set_faults(
      [=](const Request& request) { return request.number == from ? Fault{.status = 503} : Fault{.stall_s = 5}; });
  expect_error(read(reader, 0, 10), absl::StatusCode::kAborted, "answered 503; a read has at most 300 ms");
}

TEST_F(RangeReaderTest, GivesUpAfterAllAttempts) {
  const RangeReader reader = open();
  next_requests(100, {.status = 500});
  expect_error(read(reader, 0, 10), absl::StatusCode::kAborted, "answered 500; tried 4 times");
  EXPECT_EQ(waits_.size(), 3u);
  next_requests(100, {.cut_after = 0});
  expect_error(read(reader, 0, 10), absl::StatusCode::kAborted, "tried 4 times");
}

TEST_F(RangeReaderTest, WaitsAsLongAsAsked) {
  const RangeReader reader = open();
  next_requests(1, {.status = 429, .headers = "Retry-After: 17\r\n"});
  EXPECT_TRUE(read(reader, 0, 10).ok());
  EXPECT_EQ(waits_, std::vector<double>{17});
  next_requests(1, {.status = 429, .headers = "Retry-After: 3600\r\n"});
  expect_error(read(reader, 0, 10), absl::StatusCode::kAborted, "asks to wait");
}

TEST_F(RangeReaderTest, WhatCannotPassIsNotTriedAgain) {
  for (const auto& [status, code] : {std::pair{404, absl::StatusCode::kNotFound},
                                     {403, absl::StatusCode::kNotFound},
                                     {400, absl::StatusCode::kAborted},
                                     {501, absl::StatusCode::kAborted}}) {
    next_requests(1, {.status = status});
    expect_error(RangeReader::open(context_, server_.url()).status(), code, fmt::format("answered {}", status));
  }
  EXPECT_EQ(context_->counts.retries, 0);
}

// Ends of reads near its end would be no numbers, and reading the last bytes had no end.
TEST_F(RangeReaderTest, ASizeThatNoFileHasIsRefused) {
  next_requests(1, {.content_range = "bytes 0-0/9223372036854775807"});
  expect_error(RangeReader::open(context_, server_.url()).status(), absl::StatusCode::kInvalidArgument,
               "9223372036854775807 bytes, which no file has");
}

TEST_F(RangeReaderTest, AServerWithoutRangesIsRefused) {
  next_requests(1, {.ignore_range = true});
  expect_error(RangeReader::open(context_, server_.url()).status(), absl::StatusCode::kInvalidArgument, "200");
  next_requests(1, {.content_range = "bytes 0-0/*"});
  expect_error(RangeReader::open(context_, server_.url()).status(), absl::StatusCode::kInvalidArgument, "size");
  next_requests(1, {.headers = "Content-Encoding: gzip\r\n"});
  expect_error(RangeReader::open(context_, server_.url()).status(), absl::StatusCode::kInvalidArgument, "gzip");
  const RangeReader reader = open();
  next_requests(1, {.ignore_range = true});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "ignores ranges");
}

TEST_F(RangeReaderTest, AnotherRangeThanAskedForIsRefused) {
  const RangeReader reader = open();
  next_requests(1, {.shift = 1});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument,
               "asked for bytes 5-9, the server sent \"bytes 6-10");
  next_requests(1, {.shift = -1});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "bytes 4-8");
  next_requests(1, {.content_range = "bytes 5-9/100000, more"});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "asked for");
  next_requests(1, {.surplus = 1});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "more than asked for");
}

TEST_F(RangeReaderTest, AChangedFileIsAnErrorThatSaysSo) {
  const RangeReader reader = open();
  server_.set_file(random_bytes(100'000, 8), "\"two\"");
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "was changed while in use");
  server_.set_file(file_ + "x", "\"one\"");  // a server whose ETag does not tell
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "100001 bytes");
  server_.set_file(file_.substr(0, 50), "\"one\"");
  expect_error(read(reader, 500, 5), absl::StatusCode::kInvalidArgument, "50 bytes");
  server_.set_file(file_, "\"one\"");
  next_requests(1, {.status = 404});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "gone");
  EXPECT_TRUE(read(reader, 5, 5).ok());
}

TEST_F(RangeReaderTest, AChangeBetweenTwoHalvesIsNoticed) {
  const RangeReader reader = open();
  next_requests(1, {.cut_after = 400});
  const std::string other = random_bytes(100'000, 8);
  context_->retry.sleep = [&](double) { server_.set_file(other, "\"two\""); };
  expect_error(read(reader, 0, 1000), absl::StatusCode::kInvalidArgument, "was changed while in use");
}

TEST_F(RangeReaderTest, WithoutAnETagTheDateTells) {
  server_.set_file(file_, "");
  server_.set_last_modified("Sun, 22 Nov 2026 05:00:00 GMT");
  const RangeReader reader = open();
  EXPECT_TRUE(read(reader, 5, 5).ok());
  EXPECT_EQ(server_.requests().back().headers["if-range"], "Sun, 22 Nov 2026 05:00:00 GMT");
  server_.set_last_modified("Sun, 22 Nov 2026 05:00:01 GMT");
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "was changed while in use");
}

TEST_F(RangeReaderTest, AWeakETagIsComparedButNotSent) {
  server_.set_file(file_, "W/\"one\"");
  const RangeReader reader = open();
  EXPECT_TRUE(read(reader, 5, 5).ok());
  EXPECT_EQ(server_.requests().back().headers.count("if-range"), 0u);
  next_requests(1, {.without_etag = true});
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "no longer sends a version");
  server_.set_file(file_, "W/\"two\"");
  expect_error(read(reader, 5, 5), absl::StatusCode::kInvalidArgument, "was changed while in use");
}

}  // namespace
}  // namespace scalai::vfs
