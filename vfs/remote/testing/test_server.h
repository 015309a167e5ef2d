#pragma once
// For tests: an HTTP server on 127.0.0.1 with one thread a connection, which serves one file by ranges and misbehaves
// as it is told. Header only; the file's bytes are a function of a seed.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "ptc/base/random.h"

namespace scalai::vfs {

inline std::string random_bytes(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random.next());
  return text;
}

class TestServer {
 public:
  // What a request asks for, and its number among all, from 0.
  struct Request {
    int number = 0;
    std::string path;
    std::map<std::string, std::string> headers;  // names in lower case
    int64_t first = 0, last = -1;                // of Range; last < first: none
  };
  // Told what to do other than to serve the file well.
  struct Fault {
    int status = 0;             // this instead, with no body
    std::string headers;        // added, each with \r\n
    int64_t cut_after = -1;     // bytes of the body, then the connection is closed
    int64_t most = 0;           // bytes of a range, which is served in order but short
    bool close = false;         // at once, without a word
    bool ignore_range = false;  // 200 and all of the file
    bool no_length = false;     // neither Content-Length nor the rest: the end is the end of the connection
    double stall_s = 0;         // before the body
    int64_t shift = 0;          // serves the range that is so many bytes further
    std::string content_range;  // instead of the right one
    bool without_etag = false;
    int64_t surplus = 0;  // so many bytes more than the range has
  };

  TestServer(std::string file, std::string etag) : file_(std::move(file)), etag_(std::move(etag)) {
    ::setenv("no_proxy", "127.0.0.1", 1);
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0) << std::strerror(errno);
    EXPECT_EQ(::listen(listener_, 128), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~TestServer() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& thread : connections_) thread.join();
    ::close(listener_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url(const std::string& path = "/file", const std::string& user = "") const {
    return fmt::format("http://{}127.0.0.1:{}{}", user, port_, path);
  }
  int port() const { return port_; }

  void set_faults(std::function<Fault(const Request&)> faults) {
    const std::lock_guard lock(mutex_);
    faults_ = std::move(faults);
  }
  void set_file(std::string file, std::string etag) {
    const std::lock_guard lock(mutex_);
    file_ = std::move(file);
    etag_ = std::move(etag);
  }
  void set_last_modified(const std::string& date) {
    const std::lock_guard lock(mutex_);
    last_modified_ = date;
  }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  int connections() const { return connection_count_; }

 private:
  bool readable(int fd) const {
    pollfd waiting = {fd, POLLIN, 0};
    while (!stopping_) {
      if (::poll(&waiting, 1, 20) > 0) return true;
    }
    return false;
  }
  void accept_all() {
    while (readable(listener_)) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const int at_once = 1;  // head and body are two writes, which the kernel would hold up for 40 ms
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
      ++connection_count_;
      connections_.emplace_back([this, fd] {
        while (answer(fd)) {
        }
        ::close(fd);
      });
    }
  }

  static Request parse(const std::string& text) {
    Request request;
    request.path = text.substr(4, text.find(' ', 4) - 4);
    size_t at = text.find("\r\n") + 2;
    for (size_t end; (end = text.find("\r\n", at)) != std::string::npos && end > at; at = end + 2) {
      const size_t colon = text.find(':', at);
      std::string name = text.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      request.headers[name] = text.substr(colon + 2, end - colon - 2);
    }
    long long first = 0, last = -1;
    if (std::sscanf(request.headers["range"].c_str(), "bytes=%lld-%lld", &first, &last) == 2) {
      request.first = first;
      request.last = last;
    }
    return request;
  }

  bool send(int fd, const char* data, size_t bytes) const {
    for (size_t done = 0; done < bytes;) {
      const ssize_t sent = ::send(fd, data + done, bytes - done, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += static_cast<size_t>(sent);
    }
    return true;
  }

  // One request of a connection; false: it is over.
  bool answer(int fd) {
    std::string text;
    while (text.find("\r\n\r\n") == std::string::npos) {
      char buffer[4096];
      if (!readable(fd)) return false;
      const ssize_t got = ::recv(fd, buffer, sizeof(buffer), 0);
      if (got <= 0) return false;
      text.append(buffer, static_cast<size_t>(got));
    }
    Request request = parse(text);
    std::string file, etag, last_modified;
    std::function<Fault(const Request&)> faults;
    {
      const std::lock_guard lock(mutex_);
      request.number = static_cast<int>(requests_.size());
      requests_.push_back(request);
      file = file_;
      etag = etag_;
      last_modified = last_modified_;
      faults = faults_;
    }
    return serve(fd, request, faults ? faults(request) : Fault{}, file, etag, last_modified);
  }

  bool serve(int fd, const Request& request, const Fault& fault, const std::string& file, const std::string& etag,
             const std::string& last_modified) const {
    if (fault.close) return false;
    std::string head = fault.headers;
    if (!etag.empty() && !fault.without_etag) head += "ETag: " + etag + "\r\n";
    if (!last_modified.empty()) head += "Last-Modified: " + last_modified + "\r\n";
    if (fault.status != 0) {
      head = fmt::format("HTTP/1.1 {} Told\r\nContent-Length: 0\r\n{}\r\n", fault.status, head);
      return send(fd, head.data(), head.size());
    }
    const auto asked = request.headers.find("if-range");
    const bool other = asked != request.headers.end() && asked->second != etag && asked->second != last_modified;
    const auto size = static_cast<int64_t>(file.size());
    int64_t first = 0, end = size;
    if (request.last >= request.first && !fault.ignore_range && !other) {
      if (request.first >= size) {
        head = fmt::format("HTTP/1.1 416 No\r\nContent-Length: 0\r\nContent-Range: bytes */{}\r\n{}\r\n", size, head);
        return send(fd, head.data(), head.size());
      }
      first = request.first + fault.shift;
      end = std::min(request.last + 1 + fault.shift, size);
      if (fault.most > 0) end = std::min(end, first + fault.most);
      const std::string range = fmt::format("bytes {}-{}/{}", first, end - 1, size);
      head += "Content-Range: " + (fault.content_range.empty() ? range : fault.content_range) + "\r\n";
      head = "HTTP/1.1 206 Part\r\n" + head;
    } else {
      head = "HTTP/1.1 200 All\r\n" + head;
    }
    end += fault.surplus;
    if (!fault.no_length) head += fmt::format("Content-Length: {}\r\n", end - first);
    head += "\r\n";
    if (!send(fd, head.data(), head.size())) return false;
    for (double waited = 0; waited < fault.stall_s && !stopping_; waited += 0.02) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const bool cut = fault.cut_after >= 0 && fault.cut_after < end - first;
    if (cut) end = first + fault.cut_after;
    return send(fd, file.data() + first, static_cast<size_t>(end - first)) && !cut && !fault.no_length;
  }

  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::string file_, etag_, last_modified_;
  std::function<Fault(const Request&)> faults_;
  std::vector<Request> requests_;
  std::atomic<int> connection_count_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> connections_;  // the acceptor's
  std::thread acceptor_;
};

// A folder of the test's own.
class RemoteTest : public ::testing::Test {
 protected:
  RemoteTest() {
    std::string path = (std::filesystem::temp_directory_path() / "scalai-remote-XXXXXX").string();
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  ~RemoteTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string folder_;
};

// Bytes of files below a folder whose names say blocks: "new/…" included, the lock not.
inline int64_t bytes_on_disk(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_regular_file(error) || it->path().filename() == "lock") continue;
    const auto size = it->file_size(error);
    if (!error) bytes += static_cast<int64_t>(size);
    error.clear();
  }
  return bytes;
}

inline std::string read_string(const auto& source, int64_t offset, int64_t bytes, absl::Status& status) {
  std::string text(static_cast<size_t>(bytes), '\0');
  status = source.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace scalai::vfs
