#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "apps/common/output.h"
#include "apps/exec/exec_commands.h"
#include "apps/exec/exec_session.h"
#include "executor/rpc/network.h"
#include "executor/rpc/token.h"
#include "executor/rpc/worker_session.h"
#include "executor/secret/secret.h"
#ifdef SCALAI_WITH_UCX
#include "executor/transport/ucx_info.h"
#include "executor/transport/ucx_transport.h"
#endif
#include "executor/worker/worker.h"
#include "ptc/base/backoff.h"
#include "ptc/base/parallel.h"
#include "ptc/base/process.h"
#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;

// Where the controller is, and other workers.
absl::StatusOr<ex::rpc::Interface> network_of(const ex::rpc::WorkerOptions& options) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options.connect_timeout_s);
  absl::StatusOr<ex::rpc::Interface> interface = ex::rpc::interface_to(options.address);
  // A name may become known later, as a controller may begin later.
  for (Backoff backoff(0.2, 5, static_cast<uint64_t>(::getpid()));
       absl::IsUnavailable(interface.status()) && std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(std::chrono::duration<double>(backoff.next_s()));
    interface = ex::rpc::interface_to(options.address);
  }
  return interface;
}

// To workers that share no memory with this one; null when none is wanted, or where one would do but is not there.
absl::StatusOr<std::unique_ptr<ex::transport::PeerTransport>> make_transport(
    bool wanted, [[maybe_unused]] bool optional, [[maybe_unused]] const ex::rpc::WorkerOptions& options,
    [[maybe_unused]] const ex::rpc::Interface& network, [[maybe_unused]] ex::transport::AnswerHandler answer) {
  if (!wanted) return std::unique_ptr<ex::transport::PeerTransport>();
#ifdef SCALAI_WITH_UCX
  // Devices that can be reached where the controller is, and nowhere else. The user's own choice goes first.
  std::string devices;
  if (std::getenv("UCX_NET_DEVICES") == nullptr)
    devices = ex::transport::ucx_devices_on(network.name, network.loopback);
  SCALAI_ASSIGN_OR_RETURN(
      std::unique_ptr<ex::transport::UcxTransport> made,
      ex::transport::UcxTransport::create(
          std::move(answer), {.devices = std::move(devices), .key = ex::secret::key_for(options.token, "transport")}));
  return std::unique_ptr<ex::transport::PeerTransport>(std::move(made));
#else
  if (optional) return std::unique_ptr<ex::transport::PeerTransport>();
  return missing("scalai-exec was built without UCX (Debian: libucx-dev)");
#endif
}

struct Shared {
  ex::rpc::WorkerOptions options;
  StateOptions state;
  std::shared_ptr<ex::device::Backend> backend;
  std::optional<ex::nccl::NcclApi> nccl;
  std::vector<HostId> hosts;  // of all of them
  std::shared_ptr<ex::worker::LocalStores> locals = std::make_shared<ex::worker::LocalStores>();
};

// A worker from joining to its end. True: it was told to go, while others of this process may stay.
absl::StatusOr<bool> serve(const Shared& shared, int32_t host) {
  ex::rpc::WorkerOptions options = shared.options;
  options.host = host;
  std::unique_ptr<ex::worker::Worker> worker;
  // For the threads of transport and session, which may come before the worker is there.
  std::atomic<ex::worker::Worker*> begun = nullptr;
  const bool wanted = shared.state.transport != "shared-memory";
  SCALAI_ASSIGN_OR_RETURN(const ex::rpc::Interface network, network_of(options));
  auto transport = make_transport(wanted, !shared.state.network(), options, network,
                                  [&](std::string_view request) -> absl::StatusOr<ex::transport::Payload> {
                                    const ex::worker::Worker* const answering = begun;
                                    if (answering == nullptr)
                                      return absl::UnavailableError("this worker has not begun");
                                    // A GPU's memory that is freed or moved meanwhile must not be read.
                                    std::shared_lock reading(shared.locals->in_use(), std::defer_lock);
                                    if (shared.state.on_gpus()) reading.lock();
                                    return answering->places().answer(request);
                                  });
  SCALAI_RETURN_IF_ERROR(transport.status());
  options.introduce = [&](proto::Hello& hello) {
    if (*transport != nullptr) hello.set_transport_address((*transport)->address());
    if (const ex::worker::Worker* const held = begun) held->introduce(hello);
  };
  options.departed = [&](int32_t other) {
    if (ex::worker::Worker* const waiting = begun) waiting->note_departed(HostId(other));
  };
  options.superseded = [&] {
    if (ex::worker::Worker* const waiting = begun) waiting->note_superseded();
  };
  SCALAI_ASSIGN_OR_RETURN(const auto session, ex::rpc::WorkerSession::connect(options));
  worker = std::make_unique<ex::worker::Worker>(ex::worker::Worker::Options{
      .host = HostId(session->welcome().host()),
      .segments = {.host_overflow = shared.state.host_overflow, .huge_pages = huge_pages_of(shared.state.huge_pages)},
      .device_limit = shared.state.device_limit(),
      .backend = shared.backend,
      .hosts_here = shared.hosts,
      .locals = shared.locals,
      .transport = transport->get(),
      .network = network,
      .nccl = shared.nccl});
  begun = worker.get();
  bool told_to_go = false;
  const absl::Status ended = session->run([&](const ex::rpc::Command& command) {
    ex::rpc::Reply reply = worker->handle(command);
    told_to_go = told_to_go || reply.last;
    return reply;
  });
  if (*transport != nullptr) (*transport)->close();  // before the worker that answers
  SCALAI_RETURN_IF_ERROR(ended);
  return told_to_go;
}

absl::StatusOr<std::vector<HostId>> hosts_of(const Arguments& arguments) {
  if (!arguments.has("host")) return std::vector<HostId>{HostId(-1)};
  std::vector<HostId> hosts;
  for (const std::string& word : arguments.list("host")) {
    int32_t host = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), host);
    if (error != std::errc() || end != word.data() + word.size() || host < 0)
      return invalid(fmt::format("--host: \"{}\" is not the number of a host", word));
    if (std::find(hosts.begin(), hosts.end(), HostId(host)) != hosts.end())
      return invalid(fmt::format("--host: {} is there twice", host));
    hosts.push_back(HostId(host));
  }
  return hosts;
}

constexpr auto kComeBack = std::chrono::seconds(1);  // the controller has seen a worker go by then
constexpr int kMostFailures = 3;                     // of one of several workers, which is begun anew after each

int serve_all(const Shared& shared) {
  std::vector<absl::Status> ends(shared.hosts.size());
  const auto serve_one = [&](size_t i) {
    for (int failures = 0; failures < kMostFailures;) {
      const absl::StatusOr<bool> told_to_go = serve(shared, static_cast<int32_t>(shared.hosts[i].value));
      ends[i] = told_to_go.status();
      if (ends.size() == 1 || absl::IsUnavailable(ends[i])) return;  // there is no controller any more
      if (told_to_go.ok() && !*told_to_go) return;
      failures += told_to_go.ok() ? 0 : 1;
      std::this_thread::sleep_for(kComeBack);
    }
  };
  if (const absl::Status begun = run_concurrently(ends.size(), serve_one); !begun.ok()) return report_error(begun);
  for (const absl::Status& end : ends) {
    if (!end.ok()) return report_error(end);
  }
  return 0;
}

int worker_command(const Arguments& arguments) {
  // The state outlives whoever listens, and the terminal.
  for (const int signal : {SIGPIPE, SIGHUP}) std::signal(signal, SIG_IGN);
  raise_open_files();  // whoever started it may have been short of them, and this process lives longer
  if (!arguments.has("controller")) return usage_error("exec worker", "--controller=HOST:PORT is needed");
  const auto state = read_state_options(arguments);
  if (!state.ok()) return usage_error("exec worker", message_of(state.status()));
  const auto hosts = hosts_of(arguments);
  if (!hosts.ok()) return usage_error("exec worker", message_of(hosts.status()));
  if (hosts->size() > 1 && state->with_nccl())
    return usage_error("exec worker", "with NCCL each host is a process of its own: one --host");
  const auto token = ex::rpc::read_token(arguments.text("token-file"));
  if (!token.ok()) return report_error(token.status());
  Shared shared{.options = {.address = arguments.text("controller"),
                            .token = *token,
                            .ca_file = arguments.text("ca-file"),
                            .introduce = {},
                            .departed = {},
                            .superseded = {},
                            .connect_timeout_s = arguments.seconds("timeout"),
                            .orphan_timeout_s = arguments.seconds("orphan-timeout")},
                .state = *state,
                .hosts = *hosts};
  auto backend = make_backend(*state);
  if (!backend.ok()) return report_error(backend.status());
  shared.backend = *std::move(backend);
  auto nccl = open_nccl(*state);
  if (!nccl.ok()) return report_error(nccl.status());
  shared.nccl = *nccl;
  return serve_all(shared);
}

}  // namespace

Command exec_worker_command() {
  Command command = {
      {.name = "scalai-exec worker",
       .summary = "own one host's devices for a run of `scalai exec`",
       .usage = "scalai exec worker --controller=HOST:PORT [--host=N]",
       .description =
           "Joins the controller and does what it says until the run is over. The secret that both share comes from\n"
           "SCALAI_TOKEN or --token-file. Start one a host with srun, mpirun, ssh or Kubernetes.",
       .options = {text_option("controller", "HOST:PORT", "Where the controller listens."),
                   list_option(
                       "host", "N[,N…]",
                       "Host of the scenario that this is, from 0; without it the controller gives one. Several hosts "
                       "share this process's GPUs."),
                   text_option("token-file", "FILE", "File with the shared secret, readable by its owner only."),
                   text_option("ca-file", "FILE", "Certificates that may have signed the controller's (PEM): TLS."),
                   formerly(seconds_option("timeout", "TIME", "How long to look for the controller.", "30s"),
                            {"connect-timeout"}),
                   seconds_option("orphan-timeout", "TIME", "How long to keep state without a controller.", "60s")},
       .examples = {"srun --ntasks-per-node=1 scalai exec worker --controller=$HEAD:7000"}},
      worker_command};
  for (OptionSpec& option : state_option_specs(/*worker=*/true)) command.spec.options.push_back(std::move(option));
  return command;
}

}  // namespace scalai::apps
