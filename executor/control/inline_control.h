#pragma once
// A controller's end whose workers are functions: they run on the caller's thread while it waits, and time is virtual,
// so a run is a function of the seed alone and a deadline costs nothing. Faults are scripted. One thread.

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "executor/control/controller_end.h"

namespace scalai::executor {

enum class Fault {
  kNone,
  kDieBefore,  // the worker is lost and the command was not run
  kDieAfter,   // the command was run, the worker is lost before its reply is sent
  kHang,       // not run and no reply: the command's deadline will pass
};

class InlineControl {
 public:
  // `seed`: which host's next command runs first. Commands to one host keep their order. Bad options are a bug.
  InlineControl(ControllerOptions options, uint64_t seed);
  ~InlineControl();
  InlineControl(const InlineControl&) = delete;
  InlineControl& operator=(const InlineControl&) = delete;

  ControllerEnd& controller();
  // A worker joins; handlers must not wait for each other. FailedPrecondition: refused.
  absl::Status join(const Hello& hello, CommandHandler handler);
  // Asked before each command that is about to run.
  void set_fault(std::function<Fault(int32_t host, const Command& command)> fault);
  // Virtual seconds since the start.
  double time_s() const;

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace scalai::executor
