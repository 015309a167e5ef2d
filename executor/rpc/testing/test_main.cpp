// The test executable is also its own child process: a worker or a controller that can be killed.
//   executor_rpc_test --as-worker ADDRESS       joins and serves until it is dismissed; exit code 0 when run() is ok
//   executor_rpc_test --as-controller ADDRESS   listens until it is killed
// Both take the token from SCALAI_TOKEN.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "executor/rpc/control_server.h"
#include "executor/rpc/token.h"
#include "executor/rpc/worker_session.h"
#include "ptc/base/command.h"
#include "ptc/base/status.h"

namespace scalai::executor::rpc {
namespace {

int serve_as_worker(const std::string& address) {
  absl::StatusOr<std::string> token = read_token("");
  if (!token.ok()) return report_error(token.status());
  WorkerOptions options{.address = address, .token = *token};
  auto worker = WorkerSession::connect(std::move(options));
  if (!worker.ok()) return report_error(worker.status());
  const absl::Status status = (*worker)->run([](const Command& command) {
    if (command.what == "sleep") ::sleep(600);
    return Reply{.body = command.body, .last = command.what == "exit"};
  });
  return status.ok() ? 0 : report_error(status);
}

int listen_as_controller(const std::string& address) {
  absl::StatusOr<std::string> token = read_token("");
  if (!token.ok()) return report_error(token.status());
  auto controller = ControlServer::start(
      {.bind_address = address, .token = *token, .controller = {.heartbeat_s = 0.1, .missed_heartbeats = 5}});
  if (!controller.ok()) return report_error(controller.status());
  while (true) (*controller)->next_event(600);
}

}  // namespace
}  // namespace scalai::executor::rpc

int main(int argc, char** argv) {
  const std::string role = argc == 3 ? argv[1] : "";
  if (role == "--as-worker") return scalai::executor::rpc::serve_as_worker(argv[2]);
  if (role == "--as-controller") return scalai::executor::rpc::listen_as_controller(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
