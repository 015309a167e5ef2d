#pragma once
// Child processes: start, wait, or replace this process. Libraries and programs call posix_spawn and exec only here.
// Any thread may call, while no thread changes the environment (setenv).

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai {

struct SpawnOptions {
  using Variables = std::vector<std::pair<std::string, std::string>>;  // names and values
  static constexpr int kInherit = -1, kNull = -2;  // in place of a descriptor: the one of this process, or /dev/null

  // A path, or a name that is looked up on PATH.
  std::string program;
  // argv, from argv[0] on; empty = the program name alone.
  std::vector<std::string> words;
  // Descriptors for stdin, stdout and stderr of the child. They stay open in this process.
  std::array<int, 3> ends = {kInherit, kInherit, kInherit};
  // One more descriptor, which is number kPassed in the child. It stays open in this process; -1 = none.
  static constexpr int kPassed = 3;
  int passes = -1;
  // The child appends stdout and stderr to this file, and `ends` counts for stdin only; "" = no file.
  std::string log_file;
  // Working directory; "" = the one of this process.
  std::string folder;
  // Variables that are added to the inherited ones, or replace them.
  Variables environment = {};
  bool inherit_environment = true;
  // Process group: that of this process, a new one, or a new session. A session receives no signal of this terminal and
  // may outlive this process. kGroup and kSession start with default signal handling and an empty signal mask.
  enum class Group { kOurs, kGroup, kSession } group = Group::kOurs;
  pid_t joins = 0;  // with kGroup: a group that is there; 0 = a new one
  // Closes all descriptors but these in the child, also those that a library opened without O_CLOEXEC.
  bool close_others = false;
  // A file that may be run and is no program, as a script without "#!", is a script of sh, as to a shell.
  bool runs_scripts = false;
};

// Starts a child and returns its pid; the caller reaps it. NotFound: it cannot start, or the log file cannot be opened.
// PermissionDenied: the program is there, and may not be run.
absl::StatusOr<pid_t> spawn(const SpawnOptions& options);

// Waits for a child that nobody else reaps and returns its exit code, or kSignalled if a signal ended it.
inline constexpr int kSignalled = 70;
int wait_for(pid_t pid);

// The path of `name` beside this executable; else the bare name if PATH has it. NotFound (exit code 4), with a hint,
// otherwise.
absl::StatusOr<std::string> find_program(const std::string& name);

// The command as it was typed, words quoted as a shell needs it: of this process, or of the one that became it (become)
// or started it to do its work (as_typed).
std::string command_line();
// The variable by which a child started for this process's work knows the command; for SpawnOptions::environment.
std::pair<std::string, std::string> as_typed();

// Replaces this process by the program of find_program(name); argv[0] is `name`, then `words`. Flushes stdio first.
// Returns only on failure: NotFound as above.
absl::Status become(const std::string& name, std::vector<std::string> words);

// Raises this process's limit of open files as far as allowed, and returns it. Those that it starts inherit it.
int64_t raise_open_files();

}  // namespace scalai
