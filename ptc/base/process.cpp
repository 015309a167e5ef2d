#include "ptc/base/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <sstream>

#include "ptc/base/file.h"
#include "ptc/base/internal/program_text.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"

extern char** environ;

namespace scalai {
namespace {

constexpr const char* kCommandLine = "SCALAI_COMMAND_LINE";

// A word as a POSIX shell reads it.
std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=:,+-@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_of(const SpawnOptions& options) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; options.inherit_environment && *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) merged[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [name, value] : options.environment) merged[name] = value;
  std::vector<std::string> lines;
  for (const auto& [name, value] : merged) lines.push_back(name + "=" + value);
  return lines;
}

class Settings {
 public:
  explicit Settings(const SpawnOptions& options) {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int fd = 0; fd < 3; ++fd) place(fd, options);
    if (options.passes >= 0) posix_spawn_file_actions_adddup2(&actions, options.passes, SpawnOptions::kPassed);
    const int first_other = options.passes >= 0 ? SpawnOptions::kPassed + 1 : STDERR_FILENO + 1;
    if (options.close_others) posix_spawn_file_actions_addclosefrom_np(&actions, first_other);
    if (!options.folder.empty()) posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
    if (options.group != SpawnOptions::Group::kOurs) leave(options.group, options.joins);
  }
  ~Settings() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};

 private:
  void place(int fd, const SpawnOptions& options) {
    const int end = options.ends[static_cast<size_t>(fd)];
    if (fd == STDOUT_FILENO && !options.log_file.empty()) {
      posix_spawn_file_actions_addopen(&actions, fd, options.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
    } else if (fd == STDERR_FILENO && !options.log_file.empty()) {
      posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, fd);
    } else if (end == SpawnOptions::kNull) {
      posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY, 0);
    } else if (end != SpawnOptions::kInherit) {
      posix_spawn_file_actions_adddup2(&actions, end, fd);
    }
  }

  void leave(SpawnOptions::Group group, pid_t joins) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, joins);
    const int own = group == SpawnOptions::Group::kSession ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&attributes, static_cast<short>(own | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
};

absl::Status log_can_be_written(const std::string& file) {
  if (file.empty()) return absl::OkStatus();
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return missing(fmt::format("{}: cannot write: {}", file, std::strerror(errno)));
  ::close(fd);
  return absl::OkStatus();
}

// The first file of this name that allows `mode`, by the folders of PATH; empty: there is none.
std::string found_on_path(const std::string& name, int mode) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (std::filesystem::path(folder) / name).string();
    if (::access(file.c_str(), mode) == 0) return file;
  }
  return "";
}

}  // namespace

absl::StatusOr<pid_t> spawn(const SpawnOptions& options) {
  SCALAI_RETURN_IF_ERROR(log_can_be_written(options.log_file));
  const std::vector<std::string> words = options.words.empty() ? std::vector{options.program} : options.words;
  const std::vector<std::string> variables = environment_of(options);
  const Settings settings(options);
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, options.program.c_str(), &settings.actions, &settings.attributes,
                                 pointers(words).data(), pointers(variables).data());
  if (error == 0) return pid;
  if (error == ENOEXEC && options.runs_scripts) {
    SpawnOptions script = options;
    const bool named = options.program.find('/') == std::string::npos;
    script.program = "/bin/sh";
    script.words = {"sh", "--", named ? found_on_path(options.program, X_OK) : options.program};
    script.words.insert(script.words.end(), words.begin() + 1, words.end());
    script.runs_scripts = false;
    return spawn(script);
  }
  const std::string why = fmt::format("cannot start {}: {}", options.program, std::strerror(error));
  return error == EACCES ? absl::PermissionDeniedError(why) : missing(why);
}

int wait_for(pid_t pid) {
  int status = 0;
  pid_t found = -1;
  do {
    found = ::waitpid(pid, &status, 0);
  } while (found < 0 && errno == EINTR);
  return found == pid && WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled;
}

std::string missing_program_hint(const std::string& program) {
  static const std::map<std::string, std::string> labs = {
      {"scalai-accuracy", "labs/validation"}, {"scalai-bounds", "labs/bounds"}, {"scalai-near", "labs/near"}};
  const auto lab = labs.find(program);
  if (lab == labs.end())
    return fmt::format(
        "hint: install the package {0}, or build the CMake target {0} (its configure step prints\n"
        "      which libraries it found and what is not built without them)",
        program);
  return fmt::format(
      "hint: it is part of {}; a build with SCALAI_LABS=OFF leaves it out, one with ON has the target {}", lab->second,
      program);
}

absl::StatusOr<std::string> find_program(const std::string& name) {
  std::error_code ignored;  // without /proc there is still PATH
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const std::string beside = (self.parent_path() / name).string();
  if (!self.empty() && ::access(beside.c_str(), F_OK) == 0) return beside;
  if (!found_on_path(name, F_OK).empty()) return name;
  return missing(fmt::format("{} is neither in {} nor on PATH\n{}", name, self.parent_path().string(),
                             missing_program_hint(name)));
}

std::string command_line() {
  // "PID COMMAND": it counts for that process, whatever program it has become, and for its children.
  const char* const given = std::getenv(kCommandLine);
  const std::string_view text = given == nullptr ? "" : given;
  const size_t blank = text.find(' ');
  const auto pid =
      blank == std::string_view::npos ? absl::StatusOr<int64_t>(invalid("")) : parse_count(text.substr(0, blank));
  if (pid.ok() && (*pid == ::getpid() || *pid == ::getppid())) return std::string(text.substr(blank + 1));
  std::string line;
  std::istringstream words(read_file("/proc/self/cmdline").value_or(""));
  for (std::string word; std::getline(words, word, '\0');) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

std::pair<std::string, std::string> as_typed() {
  return {kCommandLine, fmt::format("{} {}", ::getpid(), command_line())};
}

absl::Status become(const std::string& name, std::vector<std::string> words) {
  SCALAI_ASSIGN_OR_RETURN(const std::string program, find_program(name));
  const auto [variable, typed] = as_typed();
  ::setenv(variable.c_str(), typed.c_str(), 1);
  words.insert(words.begin(), name);
  std::fflush(nullptr);
  ::execvp(program.c_str(), pointers(words).data());
  return missing(fmt::format("cannot run {}: {}", name, std::strerror(errno)));
}

int64_t raise_open_files() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return static_cast<int64_t>(std::min<uint64_t>(files.rlim_max, INT64_MAX));
}

}  // namespace scalai
