#pragma once
// Commands, replies and events of both ends, as plain values; all other messages are those of ptc/proto/control.proto.
// The body of a command or reply is opaque here: it is a serialized CommandBody or ReplyBody of that file.
//
// Values; any thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace scalai::proto {
class CtlRequest;
class Hello;
}  // namespace scalai::proto

namespace scalai::executor::rpc {

// The number rises when a message changes its meaning. Both ends must have the same number and the same build version.
inline constexpr int32_t kProtocolVersion = 8;

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
  std::shared_ptr<const proto::Hello> hello;  // never null
  int64_t session = 0;                        // a new number for every join
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

// Answers a request of `scalai exec ctl`, or of a reader of live steps, on a thread of the server, at any time. The
// returned text is for the person who asked (live: a serialized LiveState, for a touch LiveSources). The request is
// valid during the call.
using CtlHandler = std::function<absl::StatusOr<std::string>(const proto::CtlRequest&)>;

using LogLine = std::function<void(const std::string&)>;

}  // namespace scalai::executor::rpc
