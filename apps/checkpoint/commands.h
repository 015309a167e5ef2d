#pragma once
// The commands of `scalai-checkpoint`, one function each.

#include "ptc/base/command.h"

namespace scalai::apps {

Command reshard_command();     // converts a checkpoint to another layout
Command checkpoint_command();  // shows and verifies checkpoints
Command stats_command();       // what is in their tensors

}  // namespace scalai::apps
