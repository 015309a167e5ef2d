#include "executor/bench/yardsticks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <vector>

#include "executor/bench/measurement.h"
#include "executor/rpc/process.h"
#include "ptc/base/file.h"
#include "ptc/base/json.h"
#include "ptc/base/statistics.h"
#include "ptc/base/status.h"

namespace scalai::executor::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMessageBytes = int64_t{8} << 20;
constexpr int kUcxTries = 20;  // the server may not listen yet

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

absl::Status unreadable(const std::string& output) {
  const std::vector<std::string> lines = lines_of(output);
  return absl::UnavailableError(lines.empty() ? "it printed nothing" : "it printed: " + lines.back());
}

// What the program prints, once it has ended well.
absl::StatusOr<std::string> output_of(const rpc::ProcessOptions& options, double timeout_s) {
  std::error_code ignored;  // of the time before
  fs::remove(options.log_file, ignored);
  SCALAI_ASSIGN_OR_RETURN(rpc::Process process, rpc::Process::start(options));
  const std::optional<rpc::ProcessEnd> end = process.wait(timeout_s);
  if (!end) {
    (void)process.kill();
    (void)process.wait(timeout_s);
    return absl::UnavailableError(fmt::format("{} did not end within {} s", options.binary, timeout_s));
  }
  SCALAI_ASSIGN_OR_RETURN(std::string output, read_file(options.log_file));
  if (end->ok()) return output;
  return absl::UnavailableError(fmt::format("{}: {}; {}", options.binary, end->str(), message_of(unreadable(output))));
}

absl::StatusOr<int> free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound = fd >= 0 && ::bind(fd, generic, size) == 0 && ::getsockname(fd, generic, &size) == 0;
  if (fd >= 0) ::close(fd);
  if (!bound) return absl::UnavailableError(fmt::format("no TCP port: {}", std::strerror(errno)));
  return ntohs(address.sin_port);
}

}  // namespace

double memcpy_seconds(int64_t bytes, int repetitions) {
  const auto size = static_cast<size_t>(bytes);
  const auto from = std::make_unique<char[]>(size), to = std::make_unique<char[]>(size);
  std::memset(from.get(), 1, size);
  std::memset(to.get(), 2, size);
  std::vector<double> seconds;
  for (int i = 0; i < repetitions; ++i) {
    const auto began = std::chrono::steady_clock::now();
    std::memcpy(to.get(), from.get(), size);
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
    // So that no copy is left out as dead.
    SCALAI_CHECK(size == 0 || static_cast<volatile char*>(to.get())[size - 1] == 1);
  }
  return median(std::move(seconds)).value_or(0);
}

std::optional<std::string> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + name;
    std::error_code ignored;
    if (::access(file.c_str(), X_OK) == 0 && fs::is_regular_file(file, ignored)) return file;
  }
  return std::nullopt;
}

absl::StatusOr<double> seconds_in(const std::string& output) {
  const std::vector<std::string> lines = lines_of(output);
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const nlohmann::json value = read_json(*line).value_or(nullptr);
    if (!value.is_object() || !value.contains("seconds") || !value["seconds"].is_number()) continue;
    const double seconds = value["seconds"].get<double>();
    if (seconds > 0) return seconds;
  }
  return unreadable(output);
}

absl::StatusOr<double> alltoallw_seconds(const AlltoallwOptions& options) {
  const std::optional<std::string> mpirun = find_program("mpirun");
  if (!mpirun) return absl::NotFoundError("no mpirun on PATH (Debian: openmpi-bin)");
  if (::access(options.program.c_str(), X_OK) != 0)
    return absl::NotFoundError(
        fmt::format("no program {} (Debian: libopenmpi-dev, then ./dev bench)", options.program));
  const rpc::ProcessOptions process{
      .binary = *mpirun,
      .arguments = {"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", fmt::format("{}", options.ranks),
                    options.program, fmt::format("--rows={}", options.rows),
                    fmt::format("--columns={}", options.columns), fmt::format("--repetitions={}", options.repetitions)},
      .log_file = options.log_file};
  SCALAI_ASSIGN_OR_RETURN(const std::string output, output_of(process, options.timeout_s));
  return seconds_in(output);
}

absl::StatusOr<double> bandwidth_in(const std::string& output) {
  const std::vector<std::string> lines = lines_of(output);
  if (lines.empty()) return unreadable(output);
  // iterations, percentile, average and overall latency, average and overall MiB/s, message rates
  std::istringstream in(lines.back());
  std::string cell;
  for (int column = 0; column <= 5; ++column) {
    if (!std::getline(in, cell, ',')) return unreadable(output);
  }
  double mebibytes_per_s = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), mebibytes_per_s);
  if (error != std::errc() || end != cell.data() + cell.size() || mebibytes_per_s <= 0) return unreadable(output);
  return mebibytes_per_s * 1024 * 1024;
}

absl::StatusOr<double> ucx_seconds(const UcxOptions& options) {
  const std::optional<std::string> perftest = find_program("ucx_perftest");
  if (!perftest) return absl::NotFoundError("no ucx_perftest on PATH (Debian: ucx-utils)");
  SCALAI_ASSIGN_OR_RETURN(const int port, free_port());
  const std::vector<std::pair<std::string, std::string>> tcp = {{"UCX_TLS", "tcp"}};
  SCALAI_ASSIGN_OR_RETURN(rpc::Process server,
                          rpc::Process::start({.binary = *perftest,
                                               .arguments = {"ucx_perftest", "-p", fmt::format("{}", port)},
                                               .environment = tcp,
                                               .log_file = ""}));
  const rpc::ProcessOptions client{
      .binary = *perftest,
      .arguments = {"ucx_perftest", "-p", fmt::format("{}", port), "-t", "tag_bw", "-s",
                    fmt::format("{}", kMessageBytes), "-n", "200", "-w", "20", "-f", "-v", "127.0.0.1"},
      .environment = tcp,
      .log_file = options.log_file};
  absl::StatusOr<std::string> output = absl::UnavailableError("");
  for (int tries = 0; !output.ok() && tries < kUcxTries; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    output = output_of(client, options.timeout_s);
  }
  (void)server.kill();
  (void)server.wait(options.timeout_s);
  if (!output.ok()) return output.status();
  SCALAI_ASSIGN_OR_RETURN(const double bandwidth, bandwidth_in(*output));
  return static_cast<double>(options.bytes) / bandwidth;
}

}  // namespace scalai::executor::bench
