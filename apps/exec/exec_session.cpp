#include "apps/exec/exec_session.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <span>

#include "absl/strings/str_split.h"
#include "executor/rpc/token.h"
#include "ptc/base/parallel.h"
#include "ptc/base/status.h"

namespace scalai::apps {

namespace ex = scalai::executor;

namespace {

constexpr int kBusyHeartbeats = 60;  // of a measurement: a busy machine is no loss, and whoever ends is known at once
constexpr double kLaunch_s = 600;    // from the launcher's start until the last worker has joined

ex::rpc::ProcessOptions worker_process(const SessionOptions& options, const std::string& address,
                                       const std::string& hosts) {
  ex::rpc::ProcessOptions process{.binary = "/proc/self/exe",
                                  .arguments = {"scalai-exec", "worker", "--controller=" + address, "--host=" + hosts,
                                                fmt::format("--orphan-timeout={}s", options.orphan_timeout_s)},
                                  .environment = {{ex::rpc::kTokenVariable, options.server.token}},
                                  .log_file = ""};
  for (std::string& word : words_of(options.state)) process.arguments.push_back(std::move(word));
  if (!options.server.certificate_file.empty())
    process.arguments.push_back("--ca-file=" + options.server.certificate_file);
  return process;
}

// The GPUs of each host's worker, as CUDA_VISIBLE_DEVICES: NCCL wants each rank to have one of its own. `ours`: the
// variable as this process has it, which may name some of the machine's only; null: all.
std::vector<std::string> visible_gpus(const cluster::Cluster& cluster, int first_host, int devices_per_gpu,
                                      const char* ours) {
  const std::vector<std::string> names =
      ours == nullptr ? std::vector<std::string>() : absl::StrSplit(ours, ',', absl::SkipEmpty());
  std::vector<std::string> visible;
  size_t next = 0;
  visible.resize(static_cast<size_t>(first_host));  // of workers that are not ours
  for (const cluster::Host& host : std::span(cluster.hosts).subspan(static_cast<size_t>(first_host))) {
    std::vector<std::string> own(static_cast<size_t>((host.gpus + devices_per_gpu - 1) / devices_per_gpu));
    for (std::string& gpu : own) {
      gpu = next < names.size() ? names[next] : std::to_string(next);
      ++next;
    }
    visible.push_back(fmt::format("{}", fmt::join(own, ",")));
  }
  return visible;
}

// Workers that have a process each here, of the host's number.
void watch_each(ex::rpc::WorkerDeaths& deaths, ex::controller::WorkerPoolOptions& pool) {
  pool.ended_workers = [&deaths] {
    std::vector<std::pair<HostId, std::string>> ended;
    for (auto& [host, why] : deaths.ended()) ended.emplace_back(HostId(host), std::move(why));
    return ended;
  };
  pool.why_lost = [&deaths](HostId host) { return deaths.why(static_cast<int32_t>(host.value)); };
}

// Process 0 is, or has started, the workers of all these hosts.
void watch_together(ex::rpc::WorkerDeaths& deaths, const std::shared_ptr<bool>& running, const std::vector<int>& hosts,
                    ex::controller::WorkerPoolOptions& pool) {
  pool.ended_workers = [&deaths, running, hosts] {
    std::vector<std::pair<HostId, std::string>> ended;
    for (const auto& [process, why] : deaths.ended()) {
      *running = false;
      for (const int host : hosts) ended.emplace_back(HostId(host), why);
    }
    return ended;
  };
  pool.why_lost = [&deaths, running](HostId) {
    const std::string why = deaths.why(0);
    if (deaths.is_over(0)) *running = false;
    return why;
  };
}

// Nothing is left of the process of this number.
void make_way(ex::rpc::Spawner& spawner, ex::rpc::WorkerDeaths& deaths, int32_t number) {
  (void)spawner.kill(number);  // one that has lost its connection
  (void)spawner.wait(number, 10);
  deaths.forget(number);
}

void start_processes(ex::rpc::Spawner& spawner, ex::rpc::WorkerDeaths& deaths, const SessionOptions& options,
                     const std::string& address, const cluster::Cluster& cluster,
                     ex::controller::WorkerPoolOptions& pool) {
  std::vector<std::string> visible;
  if (options.state.on_gpus())
    visible =
        visible_gpus(cluster, options.first_host, options.state.devices_per_gpu, std::getenv("CUDA_VISIBLE_DEVICES"));
  pool.start_worker = [&spawner, &deaths, options, address, visible](HostId host) {
    make_way(spawner, deaths, static_cast<int32_t>(host.value));
    ex::rpc::ProcessOptions process = worker_process(options, address, std::to_string(host.value));
    if (!visible.empty())
      process.environment.emplace_back("CUDA_VISIBLE_DEVICES", visible[static_cast<size_t>(host.value)]);
    return spawner.start(static_cast<int32_t>(host.value), std::move(process));
  };
  pool.kill_worker = [&spawner](HostId host) {
    const absl::Status killed = spawner.kill(static_cast<int32_t>(host.value));
    (void)spawner.wait(static_cast<int32_t>(host.value), 10);
    return killed;
  };
  watch_each(deaths, pool);
}

// One process for all hosts, which share this machine's GPUs. A host that fails is told to go; its worker comes back by
// itself, with nothing.
void start_one_process(ex::rpc::Spawner& spawner, ex::rpc::WorkerDeaths& deaths, const SessionOptions& options,
                       const std::string& address, const std::vector<int>& hosts,
                       ex::controller::WorkerPoolOptions& pool) {
  const auto running = std::make_shared<bool>(false);
  pool.start_worker = [&spawner, &deaths, running, options, address,
                       list = fmt::format("{}", fmt::join(hosts, ","))](HostId) {
    if (std::exchange(*running, true)) return absl::OkStatus();
    deaths.forget(0);
    return spawner.start(0, worker_process(options, address, list));
  };
  watch_together(deaths, running, hosts, pool);
}

// A worker's command line for another machine.
std::string remote_command(const SessionOptions& options, std::string address) {
  std::error_code ignored;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  if (address.starts_with("0.0.0.0:")) address.replace(0, std::strlen("0.0.0.0"), ex::rpc::machine_name());
  std::string command = fmt::format("{} worker --controller={} --token-file={} --timeout=300s --orphan-timeout={}s",
                                    ex::rpc::quoted_for_shell(program), address,
                                    ex::rpc::quoted_for_shell(options.token_file), options.orphan_timeout_s);
  for (const std::string& word : words_of(options.state)) command += " " + ex::rpc::quoted_for_shell(word);
  if (!options.server.certificate_file.empty())
    command += " --ca-file=" + ex::rpc::quoted_for_shell(options.server.certificate_file);
  return command;
}

// All workers by one command, which runs as long as they do. A host that fails has no other worker than one that
// somebody starts.
void start_by_launcher(ex::rpc::Spawner& spawner, ex::rpc::WorkerDeaths& deaths, const SessionOptions& options,
                       const std::string& address, const std::vector<int>& hosts,
                       ex::controller::WorkerPoolOptions& pool) {
  const std::string command = options.launcher + " " + remote_command(options, address);
  const auto running = std::make_shared<bool>(false);
  pool.join_s = kLaunch_s;
  pool.start_worker = [&spawner, &deaths, running, command](HostId) {
    if (std::exchange(*running, true)) return absl::OkStatus();
    deaths.forget(0);
    return spawner.start(
        0, {.binary = "/bin/sh", .arguments = {"sh", "-c", "exec " + command}, .environment = {}, .log_file = ""});
  };
  watch_together(deaths, running, hosts, pool);
}

// Each by an ssh of its own, so that one that was lost can be started again.
void start_by_ssh(ex::rpc::Spawner& spawner, ex::rpc::WorkerDeaths& deaths, const SessionOptions& options,
                  const std::string& address, const std::vector<int>& hosts, ex::controller::WorkerPoolOptions& pool) {
  pool.join_s = kLaunch_s;
  pool.start_worker = [&spawner, &deaths, options, address, first = hosts.front()](HostId host) {
    const auto process = static_cast<int32_t>(host.value);
    make_way(spawner, deaths, process);
    const std::string& machine = options.by_ssh[static_cast<size_t>(host.value - first)];
    const std::string command = remote_command(options, address) + fmt::format(" --host={}", host.value);
    return spawner.start(
        process, {.binary = "/bin/sh",
                  .arguments = {"sh", "-c",
                                fmt::format("exec ssh -oBatchMode=yes {} {}", ex::rpc::quoted_for_shell(machine),
                                            ex::rpc::quoted_for_shell(command))},
                  .environment = {},
                  .log_file = ""});
  };
  watch_each(deaths, pool);
}

}  // namespace

OptionSpec transport_option() {
  return choice_option("transport", "HOW", "How state travels between workers: shared memory on this machine, or UCX.",
                       {"shared-memory", "ucx"}, "shared-memory");
}

absl::StatusOr<std::unique_ptr<Session>> Session::start(const cluster::Cluster& cluster, SessionOptions options) {
  std::vector<int> hosts(cluster.hosts.size() - static_cast<size_t>(options.first_host));
  std::iota(hosts.begin(), hosts.end(), options.first_host);
  options.server.controller.hosts = static_cast<int>(cluster.hosts.size());
  options.server.controller.first_host = options.first_host;
  options.server.state_on_network = options.state.transport != "shared-memory";
  std::unique_ptr<Session> session(new Session(options.log_folder));
  SCALAI_ASSIGN_OR_RETURN(session->controller_, ex::rpc::ControlServer::start(options.server));
  // Workers of one machine share its cores; threads that wait for the network take none. Elsewhere workers decide.
  const int share = static_cast<int>(hardware_threads()) / std::max(1, static_cast<int>(hosts.size()));
  const bool one_process = options.local && options.state.on_gpus() && !options.state.with_nccl();
  const int least = options.state.network() ? 4 : 1;
  const int threads = options.local && !one_process ? std::max(least, share) : 0;
  ex::controller::WorkerPoolOptions pool{.threads = threads,
                                         .force_network = options.state.network(),
                                         .nccl = options.state.with_nccl(),
                                         .stopped = options.stopped,
                                         .first_host = options.first_host};
  const std::string address = session->controller_->address();
  if (one_process) {
    start_one_process(session->spawner_, session->deaths_, options, address, hosts, pool);
  } else if (options.local) {
    start_processes(session->spawner_, session->deaths_, options, address, cluster, pool);
  }
  if (!options.by_ssh.empty()) start_by_ssh(session->spawner_, session->deaths_, options, address, hosts, pool);
  if (!options.launcher.empty()) start_by_launcher(session->spawner_, session->deaths_, options, address, hosts, pool);
  session->pool_ = std::make_unique<ex::controller::WorkerPool>(cluster, *session->controller_, std::move(pool));
  return session;
}

absl::StatusOr<std::unique_ptr<Session>> Session::start_measuring(const cluster::Cluster& cluster, StateOptions state,
                                                                  const std::string& log_folder,
                                                                  double orphan_timeout_s) {
  SCALAI_ASSIGN_OR_RETURN(const std::string token, ex::rpc::make_token());
  return start(cluster, {.server = {.bind_address = "127.0.0.1:0",
                                    .token = token,
                                    .controller = {.run_id = log_folder, .missed_heartbeats = kBusyHeartbeats}},
                         .log_folder = log_folder,
                         .state = std::move(state),
                         .orphan_timeout_s = orphan_timeout_s});
}

void Session::dismiss() {
  controller_->dismiss("the run is over", 10);
  (void)spawner_.end_all(5);
}

}  // namespace scalai::apps
