#pragma once
// Starts and ends local workers. A worker has its own session (it gets no signal of our terminal), no descriptor of
// ours except stdin (/dev/null), stdout and stderr (its log file), and survives our death. Destructors kill no process.
// Allowed before and after the start of gRPC; one thread at a time per object.

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::executor::rpc {

// Host name of this machine; "unknown" if there is none.
std::string machine_name();

// A word as /bin/sh reads it.
std::string quoted_for_shell(const std::string& word);

struct ProcessOptions {
  std::string binary = "/proc/self/exe";
  std::vector<std::string> arguments;                            // argv, including argv[0] (CHECK: not empty)
  std::vector<std::pair<std::string, std::string>> environment;  // added to our environment; replaces equal names
  std::string log_file;                                          // appended to; "" = /dev/null
  int passes = -1;                                               // as SpawnOptions::passes
  pid_t joins = 0;  // a process group of this session; 0 = a session of its own
};

// The end of a process.
struct ProcessEnd {
  int code = 0;    // exit code, when signal is 0
  int signal = 0;  // the signal that killed it, or 0
  pid_t pid = -1;
  bool ok() const { return code == 0 && signal == 0; }
  std::string str() const;  // "exit code 3", "killed by signal 9 (Killed)"
};

// A child process, held by a descriptor that never refers to another process. Move-only. The destructor reaps it if it
// has ended.
class Process {
 public:
  // NotFound: no such binary, the log file cannot be written, or the process cannot be watched.
  static absl::StatusOr<Process> start(const ProcessOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_; }  // readable (poll) after the end; owned by this object
  // OK also after its end.
  absl::Status signal(int number);
  absl::Status kill();               // SIGKILL
  std::optional<ProcessEnd> poll();  // its end, or nullopt while it runs; reaps it
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
  // Starts the worker of `host`; sets `options.log_file`. AlreadyExists: one is running.
  absl::Status start(int32_t host, ProcessOptions options);
  absl::Status kill(int32_t host);  // SIGKILL; NotFound: none is running
  // Workers that ended since the last call, by host; reaps them.
  std::vector<std::pair<int32_t, ProcessEnd>> reap();
  // Waits for one worker; nullopt after `timeout_s`, or if none is running.
  std::optional<ProcessEnd> wait(int32_t host, double timeout_s);
  // Waits up to `patience_s` for all, kills and reaps the rest; returns their ends. A process that survives SIGKILL for
  // 60 s is left behind.
  std::vector<std::pair<int32_t, ProcessEnd>> end_all(double patience_s);
  pid_t pid(int32_t host) const;  // -1 = none
  std::string log_file(int32_t host) const;

 private:
  std::string log_folder_;
  std::map<int32_t, Process> running_;
};

}  // namespace scalai::executor::rpc
