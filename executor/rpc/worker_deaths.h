#pragma once
// Why local workers ended, in words for people: "killed by signal 9 (Killed); the kernel was out of memory: …; its log
// ends with: …". One thread.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "executor/rpc/process.h"

namespace scalai::executor::rpc {

// Sees that the kernel killed processes for memory: by the counter of our control group, and by its log where that may
// be read. Both may be absent.
class OomWatch {
 public:
  struct Files {
    std::string counter;  // memory.events (cgroup 2) or memory.oom_control (cgroup 1): a line "oom_kill N"
    std::string log;      // /dev/kmsg: a record a line
    static Files of_this_process();
  };
  explicit OomWatch(Files files = Files::of_this_process());

  // What is known about this process, which a signal 9 ended; "" if nothing speaks for a lack of memory. A kill that
  // the counter alone tells of belongs to the first process that is asked about after it.
  std::string killed(pid_t pid);

 private:
  std::optional<int64_t> kills() const;

  const Files files_;
  std::optional<int64_t> seen_;  // kills of which somebody was told
};

// The last lines of a log, printable, at most `columns` characters; "" if it is empty or cannot be read.
std::string end_of_log(const std::string& path, size_t columns);

// The ends of a Spawner's processes, which nobody else reaps.
class WorkerDeaths {
 public:
  // `spawner` outlives this object.
  explicit WorkerDeaths(Spawner& spawner, OomWatch::Files files = OomWatch::Files::of_this_process())
      : spawner_(spawner), oom_(std::move(files)) {}

  // Processes that have ended since the last call, and why.
  std::vector<std::pair<int32_t, std::string>> ended();
  // Why the process of this number is gone, or that it is not. Its connection has just closed: waits a moment for its
  // end.
  std::string why(int32_t number);
  // Whether the process of this number has ended.
  bool is_over(int32_t number) const { return known_.contains(number); }
  // A process of this number is about to be started: what is known about the one before it does not count any more.
  void forget(int32_t number) { known_.erase(number); }

 private:
  std::string describe(int32_t number, const ProcessEnd& end);

  Spawner& spawner_;
  OomWatch oom_;
  std::map<int32_t, std::string> known_;
};

}  // namespace scalai::executor::rpc
