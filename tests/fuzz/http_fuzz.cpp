// What a web server answers to somebody who reads a file by ranges: a list of answers, one a request, the last one
// again and again. Reading may fail but must not crash, hang or give bytes that no answer had.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ptc/base/file_descriptor.h"
#include "ptc/base/json.h"
#include "ptc/base/status.h"
#include "tests/fuzz/mutate.h"
#include "vfs/remote/remote_source.h"

namespace {

using namespace scalai;
using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 3> kSeeds = {
    R"([{"status":206,"headers":{"Content-Range":"bytes 0-0/20","ETag":"\"a\"","Content-Length":"1"},"body":"x"},
        {"status":206,"headers":{"Content-Range":"bytes 0-19/20","ETag":"\"a\"","Content-Length":"20"},"body":"xxxxxxxxxxxxxxxxxxxx"}])",
    R"([{"status":206,"headers":{"Content-Range":"bytes 0-0/9000","Last-Modified":"Sat, 01 Jan 2000 00:00:00 GMT"},"body":"x"},
        {"status":503,"headers":{"Retry-After":"1","Content-Length":"0"},"body":""},
        {"status":206,"headers":{"Content-Range":"bytes 0-9/9000"},"body":"xxxxxxxxxx"},
        {"status":206,"headers":{"Content-Range":"bytes 10-4095/9000"},"body":"xxxxx"}])",
    R"([{"status":302,"headers":{"Location":"/other","Content-Length":"0"},"body":""},
        {"status":416,"headers":{"Content-Range":"bytes */0","Content-Encoding":"identity","Content-Length":"0"},"body":""},
        {"status":200,"headers":{"Content-Length":"0","Transfer-Encoding":"chunked"},"body":""}])"};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string answer_of(const Json& answer) {
  if (!answer.is_object()) return text_of(answer);
  std::string text = "HTTP/1.1 " + text_of(answer.value("status", Json())) + " Told\r\n";
  const Json headers = answer.value("headers", Json());
  for (const auto& [name, value] : headers.items()) text += name + ": " + text_of(value) + "\r\n";
  return text + "Connection: close\r\n\r\n" + text_of(answer.value("body", Json()));
}

// Answers one request a connection, on a thread of its own, as long as this process lives.
class Server {
 public:
  Server() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    SCALAI_CHECK(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    SCALAI_CHECK(::listen(listener_.get(), 64) == 0);
    SCALAI_CHECK(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/file";
    std::thread([this] { serve(); }).detach();
  }
  const std::string& url() const { return url_; }
  void set(std::vector<std::string> answers) {
    const std::lock_guard lock(mutex_);
    answers_ = std::move(answers);
    next_ = 0;
  }

 private:
  void serve() {
    for (;;) {
      const FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      std::string request(4096, '\0');
      if (connection.get() < 0 || ::recv(connection.get(), request.data(), request.size(), 0) <= 0) continue;
      const std::lock_guard lock(mutex_);
      if (answers_.empty()) continue;
      const std::string& answer = answers_[std::min(next_++, answers_.size() - 1)];
      (void)::send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      ::shutdown(connection.get(), SHUT_WR);
    }
  }

  const FileDescriptor listener_;
  std::string url_;
  std::mutex mutex_;
  std::vector<std::string> answers_;
  size_t next_ = 0;
};

void read(const ByteSource& source) {
  SCALAI_CHECK(source.size() >= 0);
  std::vector<std::byte> bytes(5000);
  const int64_t most = std::ssize(bytes), end = source.size();
  for (const int64_t offset : {int64_t{0}, end / 2, std::max<int64_t>(0, end - most), int64_t{7}}) {
    if (offset > end) continue;
    const auto part = std::span(bytes).first(static_cast<size_t>(std::min(most, end - offset)));
    const absl::Status status = source.read(offset, part);
    SCALAI_CHECK(status.ok() || !message_of(status).empty());
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_input(data, size, max_size, seed, [](std::string_view input, Random& random) {
    return fuzz::mutate_json(input, kSeeds.at(static_cast<size_t>(random.below(3))), random);
  });
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Server* const server = new Server;
  const auto list = read_ordered_json({reinterpret_cast<const char*>(data), size});
  if (!list.ok() || !list->is_array()) return 0;
  std::vector<std::string> answers;
  for (const Json& answer : *list) answers.push_back(answer_of(answer));
  server->set(std::move(answers));
  const auto source = vfs::open_remote_source(
      server->url(), {.http = {.connect_timeout_s = 2, .stall_timeout_s = 1, .request_timeout_s = 2, .idle_handles = 0},
                      .retry = {.attempts = 2, .total_s = 0.2, .jitter_seed = 1, .sleep = [](double) {}},
                      .block_bytes = 4096,
                      .memory_bytes = 1 << 20});
  if (source.ok()) read(**source);
  SCALAI_CHECK(source.ok() || !message_of(source.status()).empty());
  return 0;
}
