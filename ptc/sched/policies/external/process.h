#pragma once
// A program that answers lines with lines: started by a shell, spoken to over pipes, gone when this object is. One thread.
// Nothing it does can hang us or leave a zombie: every wait has a deadline, and the end is EOF on its input, then SIGTERM, then
// SIGKILL to its process group; what it started in its group and left behind is killed when it ends. A program that goes away
// is an error here, never a SIGPIPE.

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::sched {

class LineProcess {
 public:
  // Runs `sh -c command` in `folder` ("" = where we are). What it writes to stderr goes to ours, each line (of a
  // longer one the first 64 KiB) after `prefix`; the last lines are kept for messages. Error: FailedPrecondition, it cannot be started.
  static absl::StatusOr<std::unique_ptr<LineProcess>> start(const std::string& command, const std::string& folder,
                                                            const std::string& prefix);
  ~LineProcess();
  LineProcess(const LineProcess&) = delete;
  LineProcess& operator=(const LineProcess&) = delete;

  // Sends a line and waits for the next line, both within `timeout_s`. Errors (DataLoss in the sense of DESIGN's exit 5): no answer in
  // time; the program ended (with its status and what it said last on stderr); a line of more than 64 MiB; a line that was
  // there before it was asked for.
  absl::StatusOr<std::string> ask(const std::string& line, double timeout_s);

 private:
  LineProcess() = default;
  using Clock = std::chrono::steady_clock;
  absl::Status exchange(const std::string& out, Clock::time_point deadline, double timeout_s);
  bool send_some(const std::string& out, size_t& sent);
  // Takes in what there is; false at its end.
  bool receive_some();
  void receive_errors();
  void take_errors(std::string_view text);
  void show_error_line(const std::string& line);
  std::string ended();       // "ended with exit code 3", after waiting for it
  std::string last_words();  // of stderr, for messages
  void stop();
  bool reap(int& status, double wait_s);

  std::string prefix_;
  int pid_ = -1;  // −1: reaped
  int in_ = -1, out_ = -1, err_ = -1;
  std::string received_, error_part_;
  size_t searched_ = 0;  // of received_: no line end before
  std::deque<std::string> error_lines_;
};

}  // namespace scalai::sched
