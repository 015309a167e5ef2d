#include "executor/runtime/crew.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "ptc/base/status.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor {

using proto::CommandBody;
using proto::ReplyBody;

Crew::Crew(const plan::Cluster& cluster, ControllerEnd& controller, CrewOptions options)
    : cluster_(cluster), controller_(controller), options_(std::move(options)), peers_(cluster.hosts.size()) {}

absl::Status Crew::start() {
  std::set<HostId> hosts;
  for (size_t i = 0; i < cluster_.hosts.size(); ++i) hosts.insert(HostId(static_cast<int64_t>(i)));
  for (const HostId host : hosts) {
    if (options_.start_worker) SCALAI_RETURN_IF_ERROR(options_.start_worker(host));
  }
  SCALAI_RETURN_IF_ERROR(controller_.wait_for_workers(static_cast<int32_t>(hosts.size()), options_.join_s));
  living_ = hosts;
  SCALAI_RETURN_IF_ERROR(set_up(hosts));
  return introduce();
}

absl::Status Crew::rejoin(const std::set<HostId>& hosts, double patience_s) {
  const auto joined = controller_.wait_for_workers(static_cast<int32_t>(hosts.size()), patience_s);
  if (!joined.ok() && !absl::IsDeadlineExceeded(joined)) return joined;
  // A host that is to be dead may have a worker yet: the earlier controller did not come to kill it.
  std::set<HostId> doomed;
  living_.clear();
  for (const WorkerJoined& worker : controller_.workers())
    (hosts.contains(HostId(worker.host)) ? living_ : doomed).insert(HostId(worker.host));
  CommandBody leave;
  leave.mutable_exit();
  SCALAI_RETURN_IF_ERROR(tell("exit", doomed, leave));
  SCALAI_RETURN_IF_ERROR(set_up(living_));
  return introduce();
}

std::vector<HeldState> Crew::held_by(HostId host) const {
  for (const WorkerJoined& worker : controller_.workers()) {
    if (worker.host == host.value) return worker.hello.held;
  }
  return {};
}

absl::Status Crew::revive(HostId host) {
  if (options_.start_worker) SCALAI_RETURN_IF_ERROR(options_.start_worker(host));
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.join_s);
  const auto joined = [&] {
    const std::vector<WorkerJoined> workers = controller_.workers();
    return std::any_of(workers.begin(), workers.end(), [&](const auto& worker) { return worker.host == host.value; });
  };
  while (!joined()) {
    if (std::chrono::steady_clock::now() > until)
      return failed(fmt::format("the worker of h{} did not join within {} s", host.value, options_.join_s));
    (void)controller_.wait_for_workers(static_cast<int32_t>(living_.size()) + 1, 0.2);
  }
  living_.insert(host);
  SCALAI_RETURN_IF_ERROR(set_up({host}));
  return introduce();
}

absl::Status Crew::kill(HostId host) {
  living_.erase(host);
  if (options_.kill_worker && options_.kill_worker(host).ok()) return absl::OkStatus();
  CommandBody body;
  body.mutable_exit();
  controller_.send(host.value, {.what = "exit", .body = body.SerializeAsString()}, options_.deadline_s);
  return absl::OkStatus();
}

absl::Status Crew::refresh(HostId host) {
  SCALAI_RETURN_IF_ERROR(set_up({host}));
  return introduce();
}

absl::Status Crew::set_up(const std::set<HostId>& hosts) {
  CommandBody body;
  for (const plan::Host& host : cluster_.hosts) body.mutable_setup()->add_gpus_of_host(host.gpus);
  body.mutable_setup()->set_threads(options_.threads);
  body.mutable_setup()->set_force_network(options_.force_network);
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, call("setup", hosts, body));
  const std::vector<WorkerJoined> workers = controller_.workers();
  size_t i = 0;
  for (const HostId host : hosts) {
    proto::Peer peer;
    peer.set_host(host.value);
    *peer.mutable_places() = replies[i++].places();
    for (const WorkerJoined& worker : workers) {
      if (worker.host == host.value) peer.set_transport_address(worker.hello.transport_address);
    }
    peers_[static_cast<size_t>(host.value)] = peer.SerializeAsString();
  }
  return absl::OkStatus();
}

absl::Status Crew::introduce() {
  CommandBody body;
  for (const HostId host : living_)
    SCALAI_CHECK(body.mutable_peers()->add_peers()->ParseFromString(peers_[static_cast<size_t>(host.value)]));
  return tell("peers", living_, body);
}

absl::Status Crew::tell(const std::string& what, const std::set<HostId>& hosts, const CommandBody& body) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.deadline_s);
  for (;;) {
    std::set<HostId> connected;
    for (const WorkerJoined& worker : controller_.workers()) {
      if (hosts.contains(HostId(worker.host))) connected.insert(HostId(worker.host));
    }
    const absl::Status told = call(what, connected, body).status();
    const bool lost = absl::IsUnavailable(told) || absl::IsCancelled(told);
    if (!lost || std::chrono::steady_clock::now() > until) return told;
  }
}

std::set<HostId> Crew::living_hosts_of(const std::vector<DeviceId>& devices) const {
  std::set<HostId> hosts;
  for (const DeviceId device : devices) {
    const HostId host = cluster_.host_of(device);
    if (living_.contains(host)) hosts.insert(host);
  }
  return hosts;
}

absl::StatusOr<std::vector<ReplyBody>> Crew::call(const std::string& what, const std::set<HostId>& hosts,
                                                  const CommandBody& body) {
  Calls calls;
  for (const HostId host : hosts) calls.emplace_back(host, body);
  return call(what, calls);
}

absl::StatusOr<std::vector<ReplyBody>> Crew::call(const std::string& what, const Calls& calls) {
  std::vector<Call> list;
  for (const auto& [host, body] : calls)
    list.push_back({.host = host.value, .command = {.what = what, .body = body.SerializeAsString()}});
  const std::vector<absl::StatusOr<Reply>> outcomes = controller_.call_all(std::move(list), options_.deadline_s);
  std::vector<ReplyBody> replies;
  SCALAI_RETURN_IF_ERROR(first_error(outcomes));
  for (const absl::StatusOr<Reply>& outcome : outcomes) {
    if (!replies.emplace_back().ParseFromString(outcome->body)) return failed("a worker's reply cannot be read");
  }
  return replies;
}

}  // namespace scalai::executor
