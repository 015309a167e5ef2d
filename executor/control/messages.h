#pragma once
// What the two ends of the control plane tell each other, as plain values. Bodies are bytes here: the executor packs
// CommandBody and ReplyBody of ptc/proto/control.proto into them.

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/base/version.h"

namespace scalai::executor {

// Rises when a message changes its meaning. Both ends must have the same one, and the same build version.
inline constexpr int32_t kProtocolVersion = 1;

// Where a place's bytes lie: a descriptor of a process on the same machine (-1 = none), or an opaque address.
struct WorkerPlace {
  std::string place;
  int64_t pid = 0;
  int32_t fd = -1;
  std::string address;
  int32_t gpu = -1;  // of its host; places of one GPU share it
};

// What a worker still has of a job.
struct HeldState {
  int32_t job = 0;
  int64_t version = 0;
  int64_t step = 0;
  bool operator==(const HeldState&) const = default;
};

// A worker introduces itself.
struct Hello {
  int32_t host = -1;      // index in the scenario; -1 = assign me one
  std::string host_name;  // "" = of this machine
  int64_t pid = 0;        // 0 = of this process
  std::vector<WorkerPlace> places;
  std::string transport_address;  // of the bulk transport between machines
  std::vector<HeldState> held;
  std::string build_version = kVersion;
  int32_t protocol_version = kProtocolVersion;
};

struct Welcome {
  std::string run_id;
  int32_t host = -1;
  int64_t controller_epoch = 0;
  double heartbeat_s = 0;
  int32_t missed_heartbeats = 0;  // as many without a word: the other end is dead
  int64_t max_message_bytes = 0;
};

// The sender fills `what`, `body` and, to repeat a command, its `id`; the rest is filled in on the way.
struct Command {
  std::string what;  // for messages: "prepare"
  std::string body;
  int64_t id = 0;  // 0 = a new one
  int64_t controller_epoch = 0;
  double deadline_s = 0;  // what was left when it was sent
};

// What a worker made of a command. The handler fills `status`, `body` and `last`.
struct Reply {
  absl::Status status;
  std::string body;
  bool last = false;  // the worker leaves the run once this is sent
  int64_t id = 0;
  int64_t controller_epoch = 0;
  double seconds = 0;  // the handler took
};

using CommandHandler = std::function<Reply(const Command&)>;

// --- what a controller hears -----------------------------------------------------------------------------------------

struct WorkerJoined {
  int32_t host = -1;
  Hello hello;
  int64_t session = 0;  // another one each time a worker joins
};
// The connection is gone; the worker may be too. It may join again.
struct WorkerLost {
  int32_t host = -1;
  std::string reason;
  bool clean = false;  // it said goodbye
  int64_t session = 0;
};
// Outcome of one send(): the worker's reply, or why there is none (as for ControllerEnd::call_all).
struct CommandDone {
  int64_t id = 0;
  int32_t host = -1;
  absl::StatusOr<Reply> reply;
};
struct Note {
  std::string text;
};
using Event = std::variant<WorkerJoined, WorkerLost, CommandDone, Note>;

// --- ctl -------------------------------------------------------------------------------------------------------------

struct CtlRequest {
  enum class Kind { kStatus, kResize, kDrain };
  Kind kind = Kind::kStatus;
  std::string job;    // kResize: "" = the only one
  int32_t gpus = 0;   // kResize
  int32_t host = -1;  // kDrain: -1 = the whole run
};
// Called on a thread of its own; the text is for the person who asked.
using CtlHandler = std::function<absl::StatusOr<std::string>(const CtlRequest&)>;

using LogLine = std::function<void(const std::string&)>;

}  // namespace scalai::executor
