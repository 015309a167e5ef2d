#include "executor/transport/testing/test_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include "executor/transport/ucx_transport.h"
#include "ptc/base/process.h"
#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::executor::transport::internal {
namespace {

std::string to_hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

// To the process that started this one.
void say(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (written < 0) return;  // nobody listens any more
    at += static_cast<size_t>(written);
  }
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

void fill(uint64_t seed, int64_t offset, std::span<std::byte> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = expected_byte(seed, offset + static_cast<int64_t>(i));
}

Payload in_parts(uint64_t seed, int64_t bytes) {
  const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
  fill(seed, 0, *memory);
  Random random(seed);
  std::vector<std::span<const std::byte>> parts;
  for (size_t at = 0; at < memory->size();) {
    const auto size = std::min(memory->size() - at, static_cast<size_t>(random.between(0, 100'000)));
    parts.push_back(std::span(*memory).subspan(at, size));
    at += size;
  }
  return Payload::of(std::move(parts), memory);
}

std::string fetch_some(UcxTransport& transport, HostId peer, uint64_t seed, int count) {
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    std::vector<std::byte> into(static_cast<size_t>(random.between(0, int64_t{1} << random.between(0, 21))));
    const std::string request = fmt::format("{} {} {}", i % 2 == 0 ? "parts" : "owned", seed, into.size());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    const absl::Status status = transport.fetch(peer, request, into, deadline);
    if (!status.ok()) return message_of(status);
    for (size_t at = 0; at < into.size(); ++at) {
      if (into[at] != expected_byte(seed, static_cast<int64_t>(at))) return request + " gave wrong bytes";
    }
  }
  return "";
}

std::string storm(UcxTransport& transport, const std::vector<HostId>& peers, uint64_t seed, int count) {
  std::vector<std::string> results(peers.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < peers.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = fetch_some(transport, peers[i], seed + i, count); });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (const std::string& result : results) all += result.empty() ? "" : result + "; ";
  return all.empty() ? "ok" : all;
}

}  // namespace

std::byte expected_byte(uint64_t seed, int64_t index) {
  const uint64_t mixed = (seed + 1) * 0x9E3779B97F4A7C15ULL + static_cast<uint64_t>(index) * 0xD1B54A32D192ED03ULL;
  return static_cast<std::byte>(mixed >> 56);
}

absl::StatusOr<Payload> process_handler(std::string_view request) {
  std::istringstream words{std::string(request)};
  std::string kind;
  uint64_t seed = 0;
  int64_t bytes = 0;
  words >> kind >> seed;
  if (kind == "error") {
    words.get();
    std::string text(std::istreambuf_iterator<char>(words), {});
    return absl::Status(static_cast<absl::StatusCode>(seed), text);
  }
  words >> bytes;
  if (kind == "parts") return in_parts(seed, bytes);
  if (kind == "owned") {
    std::string text(static_cast<size_t>(bytes), ' ');
    fill(seed, 0, std::as_writable_bytes(std::span(text.data(), text.size())));
    return Payload::owned(std::move(text));
  }
  const bool slow = kind == "slow";
  return Payload::produced(bytes, [seed, slow](int64_t offset, std::span<std::byte> out) {
    fill(seed, offset, out);
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
}

int serve() {
  auto transport = UcxTransport::create(process_handler, {.key = kTestKey});
  if (!transport.ok()) return 1;
  say(to_hex((*transport)->address()));
  std::vector<HostId> peers;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "connect") {
      int peer = 0;
      std::string address;
      words >> peer >> address;
      peers.emplace_back(peer);
      if (!(*transport)->connect(peers.back(), from_hex(address)).ok()) return 2;
    } else if (verb == "storm") {
      uint64_t seed = 0;
      int count = 0;
      words >> seed >> count;
      say(storm(**transport, peers, seed, count));
    }
  }
  return 0;
}

TestProcess::TestProcess() {
  std::array<int, 2> in{}, out{};
  SCALAI_CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0);
  const absl::StatusOr<pid_t> pid = spawn({.program = "/proc/self/exe",
                                           .words = {"/proc/self/exe", kServe},
                                           .ends = {in[0], out[1], SpawnOptions::kInherit}});
  SCALAI_CHECK(pid.ok(), message_of(pid.status()));
  pid_ = *pid;
  ::close(in[0]);
  ::close(out[1]);
  in_ = fdopen(in[1], "w");
  out_ = fdopen(out[0], "r");
  address_ = from_hex(line());
}

TestProcess::~TestProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (in_ != nullptr) std::fclose(in_);
  std::fclose(out_);
}

void TestProcess::freeze() const {
  signal(SIGSTOP);
  int status = 0;
  SCALAI_CHECK(::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status), "the test's process did not stop");
}

int TestProcess::end() {
  std::fclose(in_);
  in_ = nullptr;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string TestProcess::line() {
  std::string text;
  for (int c = std::fgetc(out_); c != EOF && c != '\n'; c = std::fgetc(out_)) text += static_cast<char>(c);
  return text;
}

void TestProcess::tell(const std::string& line) {
  std::fputs((line + "\n").c_str(), in_);
  std::fflush(in_);
}

void TestProcess::connect(int peer, const std::string& address) {
  tell(fmt::format("connect {} {}", peer, to_hex(address)));
}

void TestProcess::start_storm(uint64_t seed, int count) { tell(fmt::format("storm {} {}", seed, count)); }

std::string TestProcess::storm_result() { return line(); }

}  // namespace scalai::executor::transport::internal
