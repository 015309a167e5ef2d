#pragma once
// The controller's end of the control plane. One queue tells what happened; commands go to workers by host index, and
// each ends in exactly one outcome: the worker's reply, its loss, or the deadline. All functions may be called from any
// thread. Three ends behave the same: ControlServer (gRPC), FakeNetwork (threads, no sockets), InlineControl (one
// thread, virtual time).
//
// A worker runs a command at most once: it remembers the ids of this controller's epoch and answers a repeated one from
// memory. So after a loss the same command may be sent again under its id. Commands of an older epoch are refused.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/control/messages.h"

namespace scalai::executor {

// What every controller's end needs to know.
struct ControllerOptions {
  std::string run_id = "run";
  int64_t epoch = 1;  // of the controller: one more at every start of the same run
  int32_t hosts = 0;  // workers have indexes 0 to hosts-1; 0 = any number
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
  virtual ~ControllerEnd() = default;  // workers are left to themselves, as after a crash; see dismiss()

  virtual std::string address() const = 0;  // what a worker connects to
  virtual int64_t epoch() const = 0;
  virtual std::vector<WorkerJoined> workers() const = 0;  // connected now, by host

  // The next event, in the order they happened; nullopt after `timeout_s`.
  virtual std::optional<Event> next_event(double timeout_s) = 0;
  // Puts a Note into the queue: how a signal or a ctl handler wakes the control loop.
  virtual void notify(std::string text) = 0;

  // Returns the command's id at once; a CommandDone event follows within `deadline_s`. Commands to one host run one
  // after the other, in the order sent.
  virtual int64_t send(int32_t host, Command command, double deadline_s) = 0;

  // Sends all, waits for all; one entry a call, in the order given. A reply that says what went wrong at the worker is
  // a value with a status that is not ok. No reply:
  //   Unavailable        the worker is not connected, or was lost before it replied
  //   DeadlineExceeded   none within `deadline_s`
  //   Cancelled          another worker of these calls was lost (not by a goodbye), so this one was not waited for
  //   ResourceExhausted  the body is larger than max_message_bytes
  // When one of the hosts is not connected at the start, nothing is sent. Late replies are dropped.
  virtual std::vector<absl::StatusOr<Reply>> call_all(std::vector<Call> calls, double deadline_s) = 0;

  // Cuts the connection to one worker, which may join again.
  virtual void cut(int32_t host, const std::string& reason) = 0;
  // Tells all workers that the run is over, so that they leave, and waits until they have. Those that join later are
  // told too.
  virtual void dismiss(const std::string& reason, double timeout_s) = 0;
};

// Ok when every call has a reply and every reply is ok; else the first loss, or the first error of any kind.
absl::Status first_error(const std::vector<absl::StatusOr<Reply>>& outcomes);

}  // namespace scalai::executor
