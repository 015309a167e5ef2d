#include "tests/chaos/faults.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "absl/cleanup/cleanup.h"
#include "ptc/base/file.h"
#include "ptc/base/random.h"

namespace scalai::chaos {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kGroups = "/sys/fs/cgroup/memory";  // version 1 of control groups …
constexpr const char* kUnified = "/sys/fs/cgroup";        // … and 2

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
void sleep_ms(int64_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

std::string word_of(pid_t pid, const std::string& file) {
  return read_file(fmt::format("/proc/{}/{}", pid, file)).value_or("");
}

void limit(pid_t pid, __rlimit_resource what, uint64_t value, double seconds) {
  struct rlimit before {};
  if (::prlimit(pid, what, nullptr, &before) != 0) return;
  const struct rlimit low = {.rlim_cur = std::min<rlim_t>(value, before.rlim_max), .rlim_max = before.rlim_max};
  (void)::prlimit(pid, what, &low, nullptr);
  sleep_ms(static_cast<int64_t>(1000 * seconds));
  (void)::prlimit(pid, what, &before, nullptr);
}

bool write_word(const std::string& path, const std::string& word) {
  std::ofstream file(path);
  file << word << std::flush;
  return file.good();
}

struct MemoryGroup {
  std::string path, limit, usage, none;
};
// Nothing where this machine has no such groups for us.
std::string group_root() {
  for (const char* root : {kGroups, kUnified}) {
    const std::string own = fmt::format("{}/scalai-chaos-try-{}", root, ::getpid());
    std::error_code error;
    if (!fs::create_directory(own, error)) continue;
    const bool has = fs::exists(own + "/memory.limit_in_bytes") || fs::exists(own + "/memory.max");
    fs::remove(own, error);
    if (has) return root;
  }
  return "";
}
MemoryGroup group_of(const std::string& name) {
  const std::string root = group_root(), path = root + "/" + name;
  if (root == kGroups) return {path, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "-1"};
  return {path, "/memory.max", "/memory.current", "max"};
}

// Ports of this machine's loopback on which one of these processes listens.
std::set<uint16_t> ports_of(const std::vector<pid_t>& pids) {
  std::set<std::string> sockets;
  std::error_code error;
  for (const pid_t pid : pids) {
    for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error))
      sockets.insert(fs::read_symlink(entry.path(), error).string());
  }
  std::set<uint16_t> ports;
  for (const char* table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::istringstream lines(read_file(table).value_or(""));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, tries, user, timeout, inode;
      words >> number >> local >> remote >> state >> queues >> timer >> tries >> user >> timeout >> inode;
      if (state == "0A" && sockets.contains("socket:[" + inode + "]"))
        ports.insert(static_cast<uint16_t>(std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16)));
    }
  }
  return ports;
}

int connect_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct sockaddr_in address {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)!::connect(fd, reinterpret_cast<const struct sockaddr*>(&address), sizeof address);  // to loopback: at once
  return fd;
}

std::string words_of_a_stranger(Random& random) {
  std::string text;
  const int64_t kind = random.below(4);
  if (kind == 0) return text;
  if (kind == 1) text = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  const int64_t length = random.below(kind == 2 ? 64 : 65'536);
  for (int64_t i = 0; i < length; ++i) text += static_cast<char>(random.below(256));
  return text;
}

}  // namespace

std::vector<pid_t> processes_of(const std::string& folder, Whose whose) {
  std::vector<pid_t> pids;
  const std::string mark = "SCALAI_CHAOS=" + folder + '\0';
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) continue;
    const std::string environment = word_of(pid, "environ"), command = word_of(pid, "cmdline");
    if (environment.find(mark) == std::string::npos) continue;
    const bool worker = command.find("--controller=") != std::string::npos;
    const bool trainer = environment.find("SCALAI_WORKER=") != std::string::npos;
    if (whose == Whose::kAll || worker || (trainer && whose == Whose::kWorkersAndTrainers)) pids.push_back(pid);
  }
  return pids;
}

void stop(pid_t pid, double seconds) {
  if (::kill(pid, SIGSTOP) != 0) return;
  sleep_ms(static_cast<int64_t>(1000 * seconds));
  ::kill(pid, SIGCONT);
}

void slow_down(pid_t pid, double seconds) {
  for (const auto until = after(seconds); Clock::now() < until && ::kill(pid, SIGSTOP) == 0;) {
    sleep_ms(9);
    ::kill(pid, SIGCONT);
    sleep_ms(1);
  }
}

void interrupt(const std::vector<pid_t>& pids, double seconds) {
  for (const auto until = after(seconds); Clock::now() < until;) {
    for (const pid_t pid : pids) {
      if (::kill(pid, SIGSTOP) == 0) ::kill(pid, SIGCONT);
    }
    sleep_ms(1);
  }
}

void limit_descriptors(pid_t pid, uint64_t spare, double seconds) {
  std::error_code error;
  uint64_t held = 0;
  for (auto entry = fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error); entry != fs::directory_iterator();
       ++entry)
    ++held;
  limit(pid, RLIMIT_NOFILE, held + spare, seconds);
}

void limit_addresses(pid_t pid, uint64_t spare, double seconds) {
  uint64_t pages = 0;
  std::istringstream(word_of(pid, "statm")) >> pages;
  limit(pid, RLIMIT_AS, pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + spare, seconds);
}

bool can_limit_memory() { return !group_root().empty(); }

void limit_memory(pid_t pid, const std::string& name, double seconds) {
  const MemoryGroup group = group_of(name);
  std::error_code error;
  if (!fs::create_directory(group.path, error)) return;
  write_word(group.path + "/cgroup.procs", fmt::to_string(pid));
  sleep_ms(50);  // memory is counted from now on
  (void)write_word(group.path + group.limit,
                   fmt::to_string(std::stoull("0" + read_file(group.path + group.usage).value_or("")) + (1 << 20)));
  sleep_ms(static_cast<int64_t>(1000 * seconds));
  (void)write_word(group.path + group.limit, group.none);
  std::istringstream left(read_file(group.path + "/cgroup.procs").value_or(""));
  for (std::string one; left >> one;) write_word(fs::path(group.path).parent_path() / "cgroup.procs", one);
  for (int tries = 0; tries < 100 && !fs::remove(group.path, error); ++tries) sleep_ms(20);
}

void fill_disk(const std::string& folder, bool inodes, double seconds) {
  const std::string filler = folder + "/filler";
  std::error_code error;
  fs::create_directory(filler, error);
  const absl::Cleanup removed = [&] { fs::remove_all(filler, error); };
  const std::string zeros(1 << 16, '\0');
  for (int file = 0; inodes || file == 0; ++file) {
    const int fd = ::open(fmt::format("{}/{}", filler, file).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) break;
    for (size_t bytes = zeros.size(); bytes > 0 && !inodes;) {
      if (::write(fd, zeros.data(), bytes) <= 0) bytes /= 2;
    }
    ::close(fd);
  }
  sleep_ms(static_cast<int64_t>(1000 * seconds));
}

void visit_ports(const std::string& folder, uint64_t seed, double seconds) {
  Random random(seed);
  std::vector<int> open;
  for (const auto until = after(seconds); Clock::now() < until; sleep_ms(20)) {
    for (const uint16_t port : ports_of(processes_of(folder, Whose::kAll))) {
      const int fd = connect_to(port);
      if (fd < 0) continue;
      const std::string words = words_of_a_stranger(random);
      (void)!::send(fd, words.data(), words.size(), MSG_NOSIGNAL);
      if (random.below(2) == 0) {
        ::close(fd);
      } else {
        open.push_back(fd);
      }
    }
  }
  for (const int fd : open) ::close(fd);
}

}  // namespace scalai::chaos
