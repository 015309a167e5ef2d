#pragma once
// The commands of `scalai checkpoint`, one function each. With a function the command is scalai-exec's, which answers
// calls that need runs or GPUs; without, scalai's.

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "apps/checkpoint/live_source.h"
#include "ptc/base/command.h"

namespace scalai::transform {
class Device;  // ptc/state/transform/device.h
}

namespace scalai::apps {

// Makes a GPU that computes steps of --transform. NotFound: none here; ResourceExhausted: no room on it.
using MakeStepDevice = std::function<absl::StatusOr<std::shared_ptr<transform::Device>>()>;

Command reshard_command(MakeStepDevice make_device = {});  // converts a checkpoint to another layout
Command checkpoint_command();                              // shows and verifies checkpoints
Command stats_command(OpenRun open_run = {});              // what is in their tensors

}  // namespace scalai::apps
