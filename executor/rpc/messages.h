#pragma once
// The messages between controller and workers, as plain values. internal/wire.h converts them to and from
// control.proto. The body of a command or reply is opaque here: it is a serialized CommandBody or ReplyBody of
// ptc/proto/control.proto.
//
// Values; any thread.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/state_version.h"
#include "ptc/base/version.h"

namespace scalai::executor {

// The number rises when a message changes its meaning. Both ends must have the same number and the same build version.
inline constexpr int32_t kProtocolVersion = 7;

// One place (a device, or a host's memory) and the way to its bytes: a file descriptor of a process on the same
// machine, or an opaque address.
struct WorkerPlace {
  std::string place;  // "g3", "h1.mem"
  int64_t pid = 0;    // the process whose descriptor `fd` is
  int32_t fd = -1;    // -1 = none: the place cannot be mapped
  std::string address;
  int32_t gpu = -1;  // number of the GPU on its host; several places may share a GPU; -1 = none
};

// One version of a job's state that a worker has.
struct HeldState {
  int32_t job = 0;  // index in the scenario
  StateVersion version = StateVersion::epoch(0);
  int64_t step = 0;  // the content is of this training step
  bool operator==(const HeldState&) const = default;
};

// A worker's introduction.
struct Hello {
  int32_t host = -1;      // index in the scenario; -1 = the controller chooses
  std::string host_name;  // "" = the name of this machine
  int64_t pid = 0;        // 0 = this process
  std::vector<WorkerPlace> places;
  std::string transport_address;  // PeerTransport::address(), for bulk state between machines
  std::vector<HeldState> held;
  std::string build_version = kVersion;
  int32_t protocol_version = kProtocolVersion;
};

// The controller's answer to a Hello.
struct Welcome {
  std::string run_id;
  int32_t host = -1;             // the worker's index in the scenario
  int64_t controller_epoch = 0;  // counts the starts of the run's controller
  double heartbeat_s = 0;
  int32_t missed_heartbeats = 0;  // after this many intervals of silence an end counts the other one as dead
  int64_t max_message_bytes = 0;
};

// The sender fills `what` and `body`, and to repeat a command its `id`. The controller's end fills the rest.
struct Command {
  std::string what;  // the command's name in messages: "prepare"
  std::string body;
  int64_t id = 0;  // 0 = a new command
  int64_t controller_epoch = 0;
  double deadline_s = 0;  // time left when the command was sent
};

// A worker's result of one command. The handler fills `status`, `body` and `last`; the worker's end fills the rest.
struct Reply {
  absl::Status status;
  std::string body;
  bool last = false;  // the worker leaves the run after this reply
  int64_t id = 0;
  int64_t controller_epoch = 0;
  double seconds = 0;  // duration of the handler
};

// Runs one command, on the thread that calls WorkerEnd::run(). The command is valid during the call.
using CommandHandler = std::function<Reply(const Command&)>;

// --- events of a controller's end ------------------------------------------------------------------------------------

struct WorkerJoined {
  int32_t host = -1;
  Hello hello;
  int64_t session = 0;  // a new number for every join
};
// The connection to a worker has ended. The process may still live and join again.
struct WorkerLost {
  int32_t host = -1;
  std::string reason;
  bool clean = false;  // the worker has said goodbye
  int64_t session = 0;
};
// The outcome of one send(): the worker's reply, or one of the errors of ControllerEnd::call_all.
struct CommandDone {
  int64_t id = 0;
  int32_t host = -1;
  absl::StatusOr<Reply> reply;
};
// A text from ControllerEnd::notify().
struct Note {
  std::string text;
};
using Event = std::variant<WorkerJoined, WorkerLost, CommandDone, Note>;

// --- ctl -------------------------------------------------------------------------------------------------------------

// A request of `scalai exec ctl`.
struct CtlRequest {
  enum class Kind { kStatus, kResize, kDrain, kSave, kLive };
  Kind kind = Kind::kStatus;
  std::string job;    // kResize, kSave, kLive: "" = the only one
  int32_t gpus = 0;   // kResize
  int32_t host = -1;  // kDrain: -1 = the whole run
  // kLive, as of CtlLive in control.proto:
  uint64_t reader = 0;
  std::vector<int64_t> keeps = {};
  bool wants = false, optimizer = false, fleeting = false;
  int64_t after_step = -1;
  int64_t digest_bytes = 0;
  bool stats = false;
  int64_t version = 0;
  std::string host_name = {}, transport_address = {};  // of the reader
  struct Touch {
    int64_t version = 0;
    std::vector<int64_t> blocks = {}, bytes = {};  // bytes of each
    std::vector<int64_t> dropped = {};
    std::vector<uint64_t> unreached = {};
  };
  std::optional<Touch> touch = {};
};
// Called on a thread of the server, at any time. The returned text is for the person who asked (kLive: a serialized
// LiveState, for a touch LiveSources). The request is valid during the call.
using CtlHandler = std::function<absl::StatusOr<std::string>(const CtlRequest&)>;

using LogLine = std::function<void(const std::string&)>;

}  // namespace scalai::executor
