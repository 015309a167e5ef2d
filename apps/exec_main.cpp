#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "apps/output.h"
#include "apps/run_report.h"
#include "executor/control/control_server.h"
#include "executor/control/inline_control.h"
#include "executor/control/process.h"
#include "executor/control/token.h"
#include "executor/control/worker_session.h"
#include "executor/journal/journal.h"
#include "executor/runtime/exec_runtime.h"
#include "executor/state/available_memory.h"
#ifdef SCALAI_WITH_UCX
#include "executor/transport/ucx_transport.h"
#endif
#include "executor/worker/worker.h"
#include "ptc/base/command.h"
#include "ptc/base/file.h"
#include "ptc/base/progress.h"
#include "ptc/base/status.h"
#include "ptc/base/units.h"
#include "ptc/collection/megatron.h"
#include "ptc/control/run.h"

namespace scalai::apps {
namespace {

namespace ex = scalai::executor;

// ---- scalai exec worker -------------------------------------------------------------------------------------------

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

Command worker_command_spec() {
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
                   {.name = "transport",
                    .type = ValueType::kChoice,
                    .value_name = "HOW",
                    .help = "As given to the controller: shared memory reaches workers of this machine only.",
                    .default_value = "shared-memory",
                    .choices = {"shared-memory", "ucx"}},
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

// ---- scalai exec SCENARIO -----------------------------------------------------------------------------------------

struct Options {
  RunOptions run;
  std::string listen;
  ex::VerifyMode verify = ex::VerifyMode::kFull;
  double time_scale = 0;
  bool local = true;
  bool plan_only = false;
  bool resume = false;
  bool network = false;  // between all workers, also of one machine
};

absl::StatusOr<control::RunReport> run_scenario(const control::Scenario& scenario, const control::Strategy& strategy,
                                                const Options& options, ex::ControllerEnd& controller, ex::Crew& crew,
                                                ex::Journal* journal) {
  control::Recorder recorder;
  std::vector<control::Event> past;
  std::unique_ptr<ex::RunLog> log;
  if (journal != nullptr) {
    SCALAI_ASSIGN_OR_RETURN(const std::vector<std::string> lines, journal->events());
    SCALAI_ASSIGN_OR_RETURN(past, control::parse_event_lines(lines));
    log = ex::log_to(*journal);
  }
  ex::ExecRuntime runtime(scenario, controller, crew, recorder,
                          {.folder = options.run.out,
                           .verify = options.verify,
                           .time_scale = options.time_scale,
                           .plan_only = options.plan_only,
                           .log = log.get(),
                           .resume = options.resume,
                           .past = past});
  Progress progress("executing " + strategy.name);
  const auto show = [&](double at_s) {
    progress.update(scenario.until_s ? at_s / *scenario.until_s : 0, fmt::format("at {:.0f} s", at_s));
  };
  SCALAI_ASSIGN_OR_RETURN(
      control::RunReport report,
      control::run(scenario, strategy, runtime, {.check_plans = options.run.check, .progress = show}));
  report.runtime = "exec";
  report.recorder = std::move(recorder);
  if (!options.plan_only) fmt::print(stderr, "verified {} bytes of state\n", runtime.bytes_verified());
  return report;
}

// No workers: the plans alone.
absl::StatusOr<control::RunReport> plan_only(const control::Scenario& scenario, const control::Strategy& strategy,
                                             const Options& options) {
  ex::InlineControl nobody({}, 1);
  ex::Crew crew(scenario.cluster, nobody.controller(), {});
  return run_scenario(scenario, strategy, options, nobody.controller(), crew, nullptr);
}

int64_t bytes_on_devices(const control::JobSpec& job, const collection::ParallelConfig& config) {
  std::vector<DeviceId> devices;
  for (int i = 0; i < config.world(); ++i) devices.push_back(DeviceId(i));
  const auto side = collection::megatron_collection(job.model, job.recipe, config, devices);
  SCALAI_CHECK(side.ok(), message_of(side.status()));
  int64_t bytes = 0;
  for (int rank = 0; rank < side->ranks(); ++rank) {
    for (size_t i = 0; i < side->tensors.size(); ++i) {
      for (const tensor::Piece& piece : side->pieces(TensorId(static_cast<int64_t>(i)), LogicalRank(rank)).pieces)
        bytes += piece.box.volume() * tensor::size_of(side->tensors[i].dtype);
    }
  }
  return bytes;
}

// Local workers share this machine's memory: the old and the new state, and their copies in hosts' memories.
absl::Status check_memory(const control::Scenario& scenario) {
  int64_t needed = 0;
  for (const control::JobSpec& job : scenario.jobs) {
    int64_t most = 0;
    for (const control::ParallelChoice& choice : job.configs)
      most = std::max(most, bytes_on_devices(job, choice.config));
    const bool copies = job.checkpoint.host_memory_copy || job.redundancy.copies > 0;
    needed += most * (copies ? 4 : 2);
  }
  const int64_t available = ex::available_memory();
  if (needed <= available) return absl::OkStatus();
  return missing(
      fmt::format("the workers need up to {} of memory, this machine has {} left; make the models narrower "
                  "with --scale-model, or start workers on other machines (--no-workers)",
                  format_bytes(needed), format_bytes(available)));
}

// What a controller leaves in its folder, so that another one can go on: the journal, its address and the token.
absl::StatusOr<ex::Journal> new_journal(const control::Scenario& scenario, const std::string& strategy,
                                        const Options& options) {
  const std::string path = options.run.out + "/journal.db";
  std::error_code ignored;  // a run that is not gone on with makes room for this one
  for (const char* end : {"", "-wal", "-shm", ".lock"}) std::filesystem::remove(path + end, ignored);
  std::filesystem::remove_all(options.run.out + "/checkpoints", ignored);
  return ex::Journal::create(path, {.scenario_text = scenario.resolved_text,
                                    .scenario_digest = scenario.digest,
                                    .strategy = strategy,
                                    .run_id = options.run.out});
}

absl::StatusOr<std::string> token_of(const Options& options) {
  const std::string file = options.run.out + "/token";
  if (options.resume) return ex::read_token(file);
  SCALAI_ASSIGN_OR_RETURN(std::string token, ex::make_token());
  SCALAI_RETURN_IF_ERROR(ex::write_token(file, token));
  return token;
}

absl::StatusOr<std::unique_ptr<ex::ControllerEnd>> start_controller(const control::Scenario& scenario,
                                                                    const Options& options, const std::string& token,
                                                                    int64_t epoch) {
  ex::ServerOptions server{
      .bind_address = options.listen,
      .token = token,
      .controller = {
          .run_id = options.run.out, .epoch = epoch, .hosts = static_cast<int32_t>(scenario.cluster.hosts.size())}};
  const std::string file = options.run.out + "/address";
  if (options.resume) {
    SCALAI_ASSIGN_OR_RETURN(server.bind_address, read_file(file));
  }
  SCALAI_ASSIGN_OR_RETURN(std::unique_ptr<ex::ControllerEnd> controller, ex::ControlServer::start(server));
  SCALAI_RETURN_IF_ERROR(write_file(file, controller->address()));
  return controller;
}

ex::CrewOptions crew_options(const Options& options, const std::string& address, const std::string& token, int hosts,
                             ex::Spawner& spawner) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  ex::CrewOptions crew{.threads = std::max(1, cores / std::max(1, hosts)), .force_network = options.network};
  if (!options.local) return crew;
  crew.start_worker = [&spawner, address, token, network = options.network](HostId host) {
    (void)spawner.reap();
    return spawner.start(host.value, {.binary = "/proc/self/exe",
                                      .arguments = {"scalai-exec", "worker", "--controller=" + address,
                                                    fmt::format("--host={}", host.value),
                                                    network ? "--transport=ucx" : "--transport=shared-memory"},
                                      .environment = {{ex::kTokenVariable, token}},
                                      .log_file = ""});
  };
  crew.kill_worker = [&spawner](HostId host) {
    const absl::Status killed = spawner.kill(host.value);
    (void)spawner.wait(host.value, 10);
    return killed;
  };
  return crew;
}

absl::StatusOr<control::RunReport> execute(const control::Scenario& scenario, const control::Strategy& strategy,
                                           const Options& options, std::optional<ex::Journal> journal) {
  if (options.plan_only) return plan_only(scenario, strategy, options);
  if (options.local && !options.resume) SCALAI_RETURN_IF_ERROR(check_memory(scenario));
  const std::string& folder = options.run.out;
  SCALAI_RETURN_IF_ERROR(make_folders(folder + "/workers"));
  if (!journal) {
    SCALAI_ASSIGN_OR_RETURN(ex::Journal fresh, new_journal(scenario, strategy.name, options));
    journal.emplace(std::move(fresh));
  }
  SCALAI_ASSIGN_OR_RETURN(const std::string token, token_of(options));
  SCALAI_ASSIGN_OR_RETURN(const std::unique_ptr<ex::ControllerEnd> controller,
                          start_controller(scenario, options, token, journal->controller_epoch()));
  const int hosts = static_cast<int>(scenario.cluster.hosts.size());
  if (!options.local && !options.resume) {
    fmt::print(stderr,
               "waiting for {} workers; on each host, with SCALAI_TOKEN from {}/token:\n"
               "  scalai exec worker --controller={}\n",
               hosts, folder, controller->address());
  }
  ex::Spawner spawner(folder + "/workers");
  ex::Crew crew(scenario.cluster, *controller, crew_options(options, controller->address(), token, hosts, spawner));
  absl::Status ready = options.resume ? absl::OkStatus() : crew.start();
  absl::StatusOr<control::RunReport> report =
      ready.ok() ? run_scenario(scenario, strategy, options, *controller, crew, &*journal) : ready;
  controller->dismiss("the run is over", 10);
  (void)spawner.end_all(5);
  return report;
}

int resume_command(const Arguments& arguments, Options options) {
  options.resume = true;
  options.run.out = arguments.text("resume");
  auto journal = ex::Journal::open(options.run.out + "/journal.db");
  if (!journal.ok()) return report_error(journal.status());
  const control::FileReader read = [](const std::string& name) { return read_file(name); };
  const auto scenario = control::parse_scenario(journal->run().scenario_text, options.run.out + "/journal.db", read);
  if (!scenario.ok()) return report_error(scenario.status());
  return run_one("scalai-exec", *scenario, journal->run().strategy, options.run,
                 [&](const control::Strategy& one) { return execute(*scenario, one, options, std::move(*journal)); });
}

int exec_command(const Arguments& arguments) {
  Options options;
  options.time_scale = arguments.has("time-scale") ? arguments.seconds("time-scale") : 0;
  options.network = arguments.text("transport") == "ucx";
  const std::string verify = arguments.text("verify");
  options.verify = verify == "full"     ? ex::VerifyMode::kFull
                   : verify == "sample" ? ex::VerifyMode::kSample
                                        : ex::VerifyMode::kNone;
  const bool resume = arguments.has("resume");
  if (resume != arguments.positional().empty())
    return usage_error("exec", resume ? "--resume takes no scenario: the run has its own" : "which scenario?");
  options.local = !arguments.flag("no-workers");
  if (resume) {
    options.run.format = arguments.text("format");
    return resume_command(arguments, options);
  }
  const auto common = run_options(arguments);
  if (!common.ok()) return usage_error("exec", message_of(common.status()));
  options.run = *common;
  options.listen = arguments.text("listen");
  options.plan_only = arguments.flag("plan-only");
  if (options.run.out.empty()) return usage_error("exec", "--out=DIR is needed: checkpoints and worker logs go there");
  int exit_code = 0;
  const std::optional<control::Scenario> scenario = load(options.run, exit_code);
  if (!scenario) return exit_code;
  const absl::Status prepared = prepare_folder(options.run.out);
  if (!prepared.ok()) return report_error(prepared);
  const std::string strategy = arguments.has("strategy") ? arguments.text("strategy") : scenario->strategy;
  return run_one("scalai-exec", *scenario, strategy, options.run,
                 [&](const control::Strategy& one) { return execute(*scenario, one, options, std::nullopt); });
}

Command exec_command_spec() {
  CommandSpec spec{.name = "scalai-exec",
                   .summary = "run a scenario for real, on worker processes",
                   .usage = "scalai exec SCENARIO --out=DIR [--scale-model=1/8]",
                   .description =
                       "Runs the scenario's jobs, events and reconfigurations on worker processes, one a host, that "
                       "hold real bytes in\n"
                       "host memory. Every byte is checked after each reconfiguration; a failed host's worker is "
                       "killed. Plans are those\n"
                       "of `scalai sim`. See also: scalai exec worker --help.",
                   .options = run_option_specs(),
                   .examples = {"scalai exec scenarios/redeploy-gpt3-1.3b.textproto --scale-model=1/8 --out=out/exec",
                                "scalai exec --resume=out/exec"},
                   .min_arguments = 0,
                   .max_arguments = 1};
  spec.options.insert(spec.options.begin(), {.name = "strategy",
                                             .type = ValueType::kChoice,
                                             .value_name = "NAME",
                                             .help = "Strategy to run; without it the scenario's own.",
                                             .choices = control::strategy_names()});
  spec.options.push_back({.name = "verify",
                          .type = ValueType::kChoice,
                          .value_name = "MODE",
                          .help = "What is compared with what it should be after each reconfiguration.",
                          .default_value = "full",
                          .choices = {"full", "sample", "none"}});
  spec.options.push_back({.name = "time-scale",
                          .type = ValueType::kSeconds,
                          .value_name = "TIME",
                          .help = "Real time that passes for a second of the scenario; without it none does."});
  spec.options.push_back({.name = "listen",
                          .value_name = "HOST:PORT",
                          .help = "Where workers reach the controller; port 0 is any free one.",
                          .default_value = "127.0.0.1:0"});
  spec.options.push_back({.name = "resume",
                          .value_name = "DIR",
                          .help = "Go on with the run in this --out folder, whose controller has died."});
  spec.options.push_back({.name = "transport",
                          .type = ValueType::kChoice,
                          .value_name = "HOW",
                          .help = "How state travels between workers: shared memory on this machine, or UCX.",
                          .default_value = "shared-memory",
                          .choices = {"shared-memory", "ucx"}});
  spec.options.push_back({.name = "plan-only",
                          .type = ValueType::kFlag,
                          .help = "Make the plans that the run would make, and move nothing."});
  spec.options.push_back(
      {.name = "no-workers", .type = ValueType::kFlag, .help = "Start no workers; wait until they join."});
  return {std::move(spec), exec_command};
}

}  // namespace
}  // namespace scalai::apps

int main(int argc, char** argv) {
  const bool worker = argc > 1 && std::strcmp(argv[1], "worker") == 0;
  const scalai::Program program{
      .name = worker ? "scalai-exec worker" : "scalai-exec",
      .summary = "Runs a scenario on worker processes.",
      .commands = {worker ? scalai::apps::worker_command_spec() : scalai::apps::exec_command_spec()},
      .single = true};
  return scalai::run_program(program, argc - (worker ? 1 : 0), argv + (worker ? 1 : 0));
}
