#include "executor/rpc/worker_deaths.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ptc/base/file_descriptor.h"
#include "ptc/base/utf8.h"

namespace scalai::executor::rpc {
namespace {

constexpr double kMoment_s = 2;  // from the end of a connection to that of its process
constexpr size_t kLogColumns = 240, kLogLines = 3;
constexpr size_t kLongestLog = size_t{16} << 20;  // of the kernel

// What there is at once: the kernel's log would wait for more. One of its records may be gone before it is read
// (EPIPE).
std::string read_without_waiting(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string text, part(size_t{1} << 14, '\0');
  while (file.get() >= 0 && text.size() < kLongestLog) {
    const ssize_t bytes = ::read(file.get(), part.data(), part.size());
    if (bytes < 0 && (errno == EPIPE || errno == EINTR)) continue;
    if (bytes <= 0) break;
    text.append(part, 0, static_cast<size_t>(bytes));
  }
  return text;
}

std::string last_columns(const std::string& text, size_t columns) {
  const std::vector<std::string_view> all = characters(text);
  if (all.size() <= columns) return text;
  return "…" + std::string(all[all.size() - columns + 1].data(), text.data() + text.size());
}

}  // namespace

OomWatch::Files OomWatch::Files::of_this_process() {
  Files files{.counter = "", .log = "/dev/kmsg"};
  std::ifstream groups("/proc/self/cgroup");
  std::vector<std::string> places;
  for (std::string line; std::getline(groups, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) places.push_back("/sys/fs/cgroup" + parts[2] + "/memory.events");
    if (parts[1] == "memory") places.push_back("/sys/fs/cgroup/memory" + parts[2] + "/memory.oom_control");
  }
  places.insert(places.end(), {"/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"});
  for (const std::string& place : places) {
    std::error_code ignored;
    if (files.counter.empty() && std::filesystem::exists(place, ignored)) files.counter = place;
  }
  return files;
}

OomWatch::OomWatch(Files files) : files_(std::move(files)), seen_(kills()) {}

std::optional<int64_t> OomWatch::kills() const {
  std::ifstream file(files_.counter);
  for (std::string line; std::getline(file, line);) {
    const std::string key = "oom_kill ";
    int64_t count = 0;
    if (line.starts_with(key) && absl::SimpleAtoi(line.substr(key.size()), &count)) return count;
  }
  return std::nullopt;
}

std::string OomWatch::killed(pid_t pid) {
  const std::optional<int64_t> now = kills();
  const bool more = now && seen_ && *now > *seen_;
  if (more) ++*seen_;
  const std::string name = fmt::format("Killed process {} ", pid);
  std::string found;
  std::istringstream log(read_without_waiting(files_.log));
  for (std::string line; std::getline(log, line);) {
    if (line.find(name) != std::string::npos) found = line.substr(line.find(';') + 1);  // behind number and time
  }
  if (!found.empty()) return "the kernel was out of memory: " + printable_text(found);
  return more ? "the kernel was out of memory and killed a process of its control group" : "";
}

std::string end_of_log(const std::string& path, size_t columns) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const auto bytes = static_cast<int64_t>(file.tellg());
  if (!file || bytes <= 0) return "";
  std::string text(static_cast<size_t>(std::min<int64_t>(bytes, 4096)), '\0');
  file.seekg(bytes - std::ssize(text));
  if (!file.read(text.data(), std::ssize(text))) return "";
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipWhitespace());
  if (lines.size() > kLogLines) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLogLines));
  return last_columns(printable_text(absl::StrJoin(lines, " | ")), columns);
}

std::vector<std::pair<int32_t, std::string>> WorkerDeaths::ended() {
  std::vector<std::pair<int32_t, std::string>> all;
  for (const auto& [number, end] : spawner_.reap()) all.emplace_back(number, describe(number, end));
  return all;
}

std::string WorkerDeaths::why(int32_t number) {
  if (const auto found = known_.find(number); found != known_.end()) return found->second;
  const pid_t pid = spawner_.pid(number);
  if (pid < 0) return "";
  if (const std::optional<ProcessEnd> end = spawner_.wait(number, kMoment_s)) return describe(number, *end);
  return fmt::format("its process {} has not ended", pid);
}

std::string WorkerDeaths::describe(int32_t number, const ProcessEnd& end) {
  const std::string path = spawner_.log_file(number);
  std::string text = end.str();
  if (end.signal == SIGKILL) {
    const std::string oom = oom_.killed(end.pid);
    if (!oom.empty()) text += "; " + oom;
  }
  const std::string last = end_of_log(path, kLogColumns);
  text += last.empty() ? fmt::format("; {} is empty", path) : fmt::format("; {} ends with: {}", path, last);
  return known_[number] = text;
}

}  // namespace scalai::executor::rpc
