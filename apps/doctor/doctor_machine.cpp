#include "apps/doctor/doctor_machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "executor/state/available_memory.h"
#include "executor/state/huge_pages.h"

namespace scalai::apps {
namespace {

// The text after the first "KEY…:" of a file like /proc/meminfo.
std::string value_of(const std::string& file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string first_line(const std::string& file) {
  std::ifstream lines(file);
  std::string line;
  std::getline(lines, line);
  return line;
}

std::optional<int64_t> number_in(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                     : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

int64_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return -1;
  return static_cast<int64_t>(limit.rlim_max);
}

std::string found_on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = folder + "/" + program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return "";
}

std::string problem_opening(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return fmt::format("{}: {}", file, std::strerror(errno));
  ::close(fd);
  return "";
}

// Runs `work` in a child; its exit code, or −1. Nothing here has begun a thread, so fork() is safe.
template <class Work>
int in_child(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Two siblings, as two workers are: one holds a memory file, the other opens it as a worker would.
std::string problem_mapping_a_sibling() {
  const int fd = ::memfd_create("scalai-doctor", MFD_CLOEXEC);
  if (fd < 0) return fmt::format("memfd_create: {}", std::strerror(errno));
  const pid_t owner = ::fork();
  if (owner == 0) {
    ::pause();
    ::_exit(0);
  }
  const std::string path = fmt::format("/proc/{}/fd/{}", owner, fd);
  const int error = owner < 0 ? errno : in_child([&] { return ::open(path.c_str(), O_RDONLY) >= 0 ? 0 : errno; });
  if (owner > 0) {
    ::kill(owner, SIGKILL);
    ::waitpid(owner, nullptr, 0);
  }
  ::close(fd);
  return error == 0 ? ""
                    : fmt::format("/proc/PID/fd/N of another process: {}", std::strerror(error < 0 ? ECHILD : error));
}

}  // namespace

MachineFacts look_at_machine(const std::string& root) {
  MachineFacts facts;
  utsname system{};
  if (::uname(&system) == 0) facts.kernel = system.release;
  facts.libc = gnu_get_libc_version();
  facts.cpu = value_of(root + "/proc/cpuinfo", "model name");
  facts.cores = usable_cores();
  facts.memory_bytes = number_in(value_of(root + "/proc/meminfo", "MemTotal")).value_or(0) * 1024;
  facts.available_bytes = executor::state::available_memory(root);
  facts.open_files = limit_of(RLIMIT_NOFILE);
  facts.locked_bytes = limit_of(RLIMIT_MEMLOCK);
  struct statvfs shm {};
  if (::statvfs((root + "/dev/shm").c_str(), &shm) == 0) {
    facts.shm_bytes = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
    facts.shm_free_bytes = static_cast<int64_t>(shm.f_bavail * shm.f_frsize);
  }
  facts.huge_pages = executor::state::huge_page_support(root).setting;
  if (const auto scope = number_in(first_line(root + "/proc/sys/kernel/yama/ptrace_scope")))
    facts.ptrace_scope = static_cast<int>(*scope);
  facts.peers_problem = problem_mapping_a_sibling();
  facts.fuse_problem = problem_opening(root + "/dev/fuse");
  facts.fusermount = found_on_path("fusermount3");
  facts.root = ::geteuid() == 0;
  return facts;
}

}  // namespace scalai::apps
