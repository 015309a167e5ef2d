#pragma once
// A child process that answers lines with lines: started by a shell, connected by pipes, ended by the destructor. One
// thread. It cannot block us or leave a zombie: every wait has a deadline. The end is EOF on its input, then SIGTERM,
// then SIGKILL to its process group, so its own children in the group end, too. Writing to an ended program is an
// error, never a SIGPIPE.

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::policy {

class LineProcess {
 public:
  // Runs `sh -c command` in `folder` ("" = our working directory). Its stderr goes to ours, each line after `prefix`
  // (at most 64 KiB of a line); the last lines are kept for messages. Aborted: it cannot be started.
  static absl::StatusOr<std::unique_ptr<LineProcess>> start(const std::string& command, const std::string& folder,
                                                            const std::string& prefix);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Sends a line and waits for the next line, both within `timeout_s`. Aborted: no answer in time; the program ended
  // (with its status and last stderr lines); a line of more than 64 MiB; output before the question.
  absl::StatusOr<std::string> ask(const std::string& line, double timeout_s);

 private:
  LineProcess() = default;
  using Clock = std::chrono::steady_clock;
  absl::Status exchange(const std::string& out, Clock::time_point deadline, double timeout_s);
  bool send_some(const std::string& out, size_t& sent);
  // Reads the available output; false at its end.
  bool receive_some();
  void receive_errors();
  void take_errors(std::string_view text);
  void show_error_line(const std::string& line);
  std::string ended();       // "ended with exit code 3"; waits for the end
  std::string last_words();  // of stderr, for messages
  void stop();
  bool reap(int& status, double wait_s);

  std::string prefix_;
  int pid_ = -1;  // −1: reaped
  int in_ = -1, out_ = -1, err_ = -1;
  std::string received_, error_part_;
  size_t searched_ = 0;  // length of the part of received_ without a line end
  std::deque<std::string> error_lines_;
};

}  // namespace scalai::policy
