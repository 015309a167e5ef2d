#pragma once
// A controller's end whose workers are functions. They run on the caller's thread while it waits, and time is virtual,
// so a run depends only on the seed, and deadlines cost no time. Faults are scripted. One thread.

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "executor/rpc/controller_end.h"

namespace scalai::executor::rpc {

enum class Fault {
  kNone,
  kDieBefore,  // the worker is lost; the command was not run
  kDieAfter,   // the command was run; the worker is lost before its reply
  kHang,       // not run, no reply: the command's deadline passes
};

class InlineControl {
 public:
  // `seed` chooses the host whose next command runs first. Commands to one host keep their order. CHECK: valid options.
  InlineControl(ControllerOptions options, uint64_t seed);
  ~InlineControl();
  InlineControl(const InlineControl&) = delete;
  InlineControl& operator=(const InlineControl&) = delete;

  // Valid as long as this object.
  ControllerEnd& controller();
  // A worker joins; handlers must not wait for each other. FailedPrecondition: refused.
  absl::Status join(int32_t host, CommandHandler handler);
  // `fault` is queried before each command that is about to run.
  void set_fault(std::function<Fault(int32_t host, const Command& command)> fault);
  // Virtual seconds since the start.
  double time_s() const;

 private:
  class Core;
  const std::unique_ptr<Core> core_;
};

}  // namespace scalai::executor::rpc
