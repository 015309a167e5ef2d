#pragma once
// Starts and ends local workers. A worker gets its own session (no signal of our terminal reaches it), no descriptor of
// ours beyond stdin (/dev/null), stdout and stderr (its log file), and lives on when we die. Nothing here is killed by a
// destructor. May be called before or after gRPC starts; one thread at a time per Spawner.

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor {

// Of this machine, as it calls itself; "unknown" when it does not say.
std::string machine_name();

struct ProcessOptions {
  std::string binary = "/proc/self/exe";
  std::vector<std::string> arguments;                            // argv, from argv[0] on
  std::vector<std::pair<std::string, std::string>> environment;  // replaces and adds to ours
  std::string log_file;                                          // appended to; "" = /dev/null
};

// How a process ended.
struct ProcessEnd {
  int code = 0;    // exit code, when signal is 0
  int signal = 0;  // that killed it
  bool ok() const { return code == 0 && signal == 0; }
  std::string str() const;  // "exit code 3", "killed by signal 9 (Killed)"
};

// A child, by a descriptor that never names another process. Move-only; the destructor reaps it if it has ended.
class Process {
 public:
  // NotFound: no such binary, log file cannot be written.
  static absl::StatusOr<Process> start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_; }  // readable (poll) once it has ended
  // Ok also when it has ended already.
  absl::Status signal(int number);
  absl::Status kill();               // SIGKILL
  std::optional<ProcessEnd> poll();  // its end, if it has ended; reaps it
  std::optional<ProcessEnd> wait(double timeout_s);

 private:
  Process(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<ProcessEnd> end_;
};

// The local workers of a run, by host index, with one log file each: FOLDER/worker-HOST.log.
class Spawner {
 public:
  explicit Spawner(std::string log_folder) : log_folder_(std::move(log_folder)) {}
  // Starts the worker of `host`. AlreadyExists: one is running. `options.log_file` is set here.
  absl::Status start(int32_t host, ProcessOptions options);
  absl::Status kill(int32_t host);  // SIGKILL; NotFound: none was started
  // Those that have ended since the last call, by host; reaps them.
  std::vector<std::pair<int32_t, ProcessEnd>> reap();
  // Waits for one; nullopt after `timeout_s`, or when none was started.
  std::optional<ProcessEnd> wait(int32_t host, double timeout_s);
  // Gives all some time to end by themselves, then kills the rest; all are reaped. Returns how they ended.
  std::vector<std::pair<int32_t, ProcessEnd>> end_all(double patience_s);
  pid_t pid(int32_t host) const;  // -1 = none
  std::string log_file(int32_t host) const;

 private:
  std::string log_folder_;
  std::map<int32_t, Process> running_;
};

}  // namespace scalai::executor
