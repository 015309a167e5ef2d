#include "apps/exec_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "executor/control/token.h"
#include "ptc/base/status.h"

namespace scalai::apps {

namespace ex = scalai::executor;

namespace {

ex::ProcessOptions worker_process(const SessionOptions& options, const std::string& address, HostId host) {
  ex::ProcessOptions process{
      .binary = "/proc/self/exe",
      .arguments = {"scalai-exec", "worker", "--controller=" + address, fmt::format("--host={}", host.value),
                    options.network ? "--transport=ucx" : "--transport=shared-memory",
                    fmt::format("--orphan-timeout={}s", options.orphan_timeout_s)},
      .environment = {{ex::kTokenVariable, options.server.token}},
      .log_file = ""};
  if (!options.server.certificate_file.empty())
    process.arguments.push_back("--ca-file=" + options.server.certificate_file);
  return process;
}

}  // namespace

OptionSpec transport_option(std::string help) {
  return {.name = "transport",
          .type = ValueType::kChoice,
          .value_name = "HOW",
          .help = std::move(help),
          .default_value = "shared-memory",
          .choices = {"shared-memory", "ucx"}};
}

absl::StatusOr<std::unique_ptr<Session>> Session::start(const plan::Cluster& cluster, SessionOptions options) {
  const int hosts = static_cast<int>(cluster.hosts.size());
  options.server.controller.hosts = hosts;
  std::unique_ptr<Session> session(new Session(options.log_folder));
  SCALAI_ASSIGN_OR_RETURN(session->controller_, ex::ControlServer::start(options.server));
  // Workers of one machine share its cores; threads that wait for the network take none. Elsewhere workers decide.
  const int share = static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, hosts);
  const int threads = options.local ? std::max(options.network ? 4 : 1, share) : 0;
  ex::CrewOptions crew{.threads = threads, .force_network = options.network};
  if (options.local) {
    ex::Spawner* spawner = &session->spawner_;
    const std::string address = session->controller_->address();
    crew.start_worker = [spawner, options, address](HostId host) {
      (void)spawner->kill(static_cast<int32_t>(host.value));  // one that has lost its connection
      (void)spawner->wait(static_cast<int32_t>(host.value), 10);
      return spawner->start(static_cast<int32_t>(host.value), worker_process(options, address, host));
    };
    crew.kill_worker = [spawner](HostId host) {
      const absl::Status killed = spawner->kill(static_cast<int32_t>(host.value));
      (void)spawner->wait(static_cast<int32_t>(host.value), 10);
      return killed;
    };
    crew.ended_workers = [spawner] {
      std::vector<std::pair<HostId, std::string>> ended;
      for (const auto& [host, end] : spawner->reap())
        ended.emplace_back(HostId(host), fmt::format("{}, see {}", end.str(), spawner->log_file(host)));
      return ended;
    };
  }
  session->crew_ = std::make_unique<ex::Crew>(cluster, *session->controller_, std::move(crew));
  return session;
}

void Session::dismiss() {
  controller_->dismiss("the run is over", 10);
  (void)spawner_.end_all(5);
}

}  // namespace scalai::apps
