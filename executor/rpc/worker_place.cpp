#include "executor/rpc/worker_place.h"

#include "ptc/proto/control.pb.h"

namespace scalai::executor {

// The message counts GPUs from 1, so that a missing field means "none".
proto::WorkerPlace pack(const WorkerPlace& place) {
  proto::WorkerPlace message;
  message.set_place(place.place);
  message.set_pid(place.pid);
  message.set_fd(place.fd);
  message.set_address(place.address);
  message.set_gpu(place.gpu + 1);
  return message;
}

WorkerPlace unpack(const proto::WorkerPlace& message) {
  return {.place = message.place(),
          .pid = message.pid(),
          .fd = message.fd(),
          .address = message.address(),
          .gpu = message.gpu() > 0 ? message.gpu() - 1 : -1};
}

}  // namespace scalai::executor
