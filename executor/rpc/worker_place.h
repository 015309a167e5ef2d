#pragma once
// WorkerPlace to and from its message of control.proto. Hello, Setup's reply and Peers carry it. Pure functions; any
// thread.

#include "executor/rpc/messages.h"

namespace scalai::proto {
class WorkerPlace;
}

namespace scalai::executor {

proto::WorkerPlace pack(const WorkerPlace& place);
WorkerPlace unpack(const proto::WorkerPlace& message);

}  // namespace scalai::executor
