#pragma once
// What the sources of JobWork put into commands.

#include "executor/rpc/messages.h"
#include "ptc/control/runtime.h"
#include "ptc/tensor/box.h"
#include "ptc/tensor/dtype.h"

namespace scalai::proto {
class TensorBox;
}

namespace scalai::executor {

// The version under which hosts' memories hold a copy. CHECK: it is one, not the live state.
StateVersion version_of(control::SnapshotId snapshot);

}  // namespace scalai::executor
