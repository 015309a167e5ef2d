#pragma once
// The controller's end of the control plane. One queue delivers events. Commands go to workers by host index, and each
// has exactly one outcome: the worker's reply, its loss, or the deadline. Thread-safe. Three implementations behave
// alike: ControlServer (gRPC), FakeNetwork (threads, no sockets), InlineControl (one thread, virtual time).
//
// A worker runs a command at most once: it remembers the ids of this controller's epoch and answers a repeated one from
// memory. So after a loss the same command may be sent again with the same id. Commands of an older epoch are refused.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/rpc/messages.h"

namespace scalai::executor::rpc {

// Options of every implementation.
struct ControllerOptions {
  std::string run_id = "run";
  int64_t epoch = 1;  // of the controller; incremented at each start of the same run
  int32_t hosts = 0;  // workers have indexes first_host to hosts-1; 0 = any number
  int32_t first_host = 0;
  double heartbeat_s = 1;
  int32_t missed_heartbeats = 5;
  int64_t max_message_bytes = int64_t{1} << 30;
};

struct Call {
  int32_t host = -1;
  Command command;
};

class ControllerEnd {
 public:
  virtual ~ControllerEnd() = default;  // does not end workers: they continue as after a crash; see dismiss()

  virtual std::string address() const = 0;  // for workers to connect to
  virtual int64_t epoch() const = 0;
  virtual std::vector<WorkerJoined> workers() const = 0;  // connected now, sorted by host

  // The next event, in order of occurrence; nullopt after `timeout_s`.
  virtual std::optional<Event> next_event(double timeout_s) = 0;
  // Puts a Note into the queue, to wake the control loop from a signal or a ctl handler.
  virtual void notify(std::string text) = 0;

  // Returns the command's id at once; a CommandDone event follows within `deadline_s` of the last work that the worker
  // has done (ptc/base/work_done.h, heard of by heartbeats). Commands to one host run one after another, in the order
  // of sending.
  virtual int64_t send(int32_t host, Command command, double deadline_s) = 0;

  // Sends all calls and waits for all; returns one entry per call, in the same order. An error at the worker is a Reply
  // with a status that is not OK. Without a reply the entry is:
  //   Unavailable        the worker is not connected, or was lost before its reply
  //   DeadlineExceeded   no reply, and no work done at the worker, for `deadline_s`
  //   Cancelled          another worker of these calls was lost (without goodbye), so this call was not awaited
  //   ResourceExhausted  the body is larger than max_message_bytes
  // If one of the hosts is not connected at the start, nothing is sent. Late replies are dropped.
  virtual std::vector<absl::StatusOr<Reply>> call_all(std::vector<Call> calls, double deadline_s) = 0;

  // Closes the connection of one worker, which may join again.
  virtual void cut(int32_t host, const std::string& reason) = 0;
  // Ends the run: all workers are told to leave, also those that join later. Waits up to `timeout_s` until they have
  // left.
  virtual void dismiss(const std::string& reason, double timeout_s) = 0;
};

// OK if every call has a reply and every reply is OK; otherwise the first loss, or the first other error.
absl::Status first_error(const std::vector<absl::StatusOr<Reply>>& outcomes);

}  // namespace scalai::executor::rpc
