#include "executor/rpc/testing/test_rig.h"

#include "ptc/proto/control.pb.h"

namespace scalai::executor::rpc::testing {

WorkerOptions worker_options(int32_t host) {
  return {.token = kToken,
          .host = host,
          .introduce =
              [host](proto::Hello& hello) {
                hello.set_host_name("node");
                hello.set_pid(1000 + host);
              },
          .connect_timeout_s = kPatience_s,
          .orphan_timeout_s = kPatience_s,
          .log = [](const std::string&) {}};
}

int TestWorker::host() const { return end_->welcome().host(); }

}  // namespace scalai::executor::rpc::testing
