#include "apps/exec_commands.h"
#include "apps/exec_session.h"
#include "apps/output.h"
#include "executor/control/token.h"
#include "executor/control/worker_session.h"
#ifdef SCALAI_WITH_UCX
#include "executor/transport/ucx_transport.h"
#endif
#include "executor/worker/worker.h"
#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;

// To workers that share no memory with this one; null when none is wanted.
absl::StatusOr<std::unique_ptr<ex::PeerTransport>> make_transport(bool wanted,
                                                                  [[maybe_unused]] ex::AnswerHandler answer) {
  if (!wanted) return std::unique_ptr<ex::PeerTransport>();
#ifdef SCALAI_WITH_UCX
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ex::UcxTransport> made, ex::UcxTransport::create(std::move(answer)));
  return std::unique_ptr<ex::PeerTransport>(std::move(made));
#else
  return missing("scalai-exec was built without UCX (Debian: libucx-dev)");
#endif
}

int worker_command(const Arguments& arguments) {
  if (!arguments.has("controller")) return usage_error("exec worker", "--controller=HOST:PORT is needed");
  const auto token = ex::read_token(arguments.text("token-file"));
  if (!token.ok()) return report_error(token.status());
  const int64_t host = arguments.has("host") ? arguments.count("host") : -1;
  ex::WorkerOptions options{
      .address = arguments.text("controller"), .token = *token, .ca_file = arguments.text("ca-file")};
  options.hello.host = static_cast<int32_t>(host);
  options.connect_timeout_s = arguments.seconds("connect-timeout");
  options.orphan_timeout_s = arguments.seconds("orphan-timeout");
  std::unique_ptr<ex::Worker> worker;
  const bool network = arguments.text("transport") == "ucx";
  auto transport = make_transport(network, [&](std::string_view request) -> absl::StatusOr<ex::Payload> {
    if (worker == nullptr) return absl::UnavailableError("this worker has not begun");
    return worker->places().answer(request);
  });
  if (!transport.ok()) return report_error(transport.status());
  if (*transport != nullptr) options.hello.transport_address = (*transport)->address();
  options.refresh = [&](ex::Hello& hello) {
    if (worker != nullptr) worker->introduce(hello);
  };
  auto session = ex::WorkerSession::connect(options);
  if (!session.ok()) return report_error(session.status());
  worker = std::make_unique<ex::Worker>(
      ex::Worker::Options{.host = HostId((*session)->welcome().host), .segments = {}, .transport = transport->get()});
  const absl::Status ended = (*session)->run([&](const ex::Command& command) { return worker->handle(command); });
  return ended.ok() ? 0 : report_error(ended);
}

}  // namespace

Command exec_worker_command() {
  return {
      {.name = "scalai-exec worker",
       .summary = "own one host's devices for a run of `scalai exec`",
       .usage = "scalai exec worker --controller=HOST:PORT [--host=N]",
       .description =
           "Joins the controller and does what it says until the run is over. The secret that both share comes from\n"
           "SCALAI_TOKEN or --token-file. Start one a host with srun, mpirun, ssh or Kubernetes.",
       .options = {{.name = "controller", .value_name = "HOST:PORT", .help = "Where the controller listens."},
                   {.name = "host",
                    .type = ValueType::kCount,
                    .value_name = "N",
                    .help = "Host of the scenario that this is, from 0; without it the controller gives one."},
                   {.name = "token-file",
                    .value_name = "FILE",
                    .help = "File with the shared secret, readable by its owner only."},
                   {.name = "ca-file",
                    .value_name = "FILE",
                    .help = "Certificates that may have signed the controller's (PEM): TLS."},
                   transport_option("As given to the controller: shared memory reaches workers of this machine only."),
                   {.name = "connect-timeout",
                    .type = ValueType::kSeconds,
                    .value_name = "TIME",
                    .help = "How long to look for the controller.",
                    .default_value = "30s"},
                   {.name = "orphan-timeout",
                    .type = ValueType::kSeconds,
                    .value_name = "TIME",
                    .help = "How long to keep state without a controller.",
                    .default_value = "60s"}},
       .examples = {"srun --ntasks-per-node=1 scalai exec worker --controller=$HEAD:7000"},
       .min_arguments = 0,
       .max_arguments = 0},
      worker_command};
}

}  // namespace scalai::apps
