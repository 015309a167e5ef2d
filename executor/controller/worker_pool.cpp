#include "executor/controller/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "ptc/base/backoff.h"
#include "ptc/base/status.h"
#include "ptc/plan/plan.h"
#include "ptc/proto/control.pb.h"

namespace scalai::executor::controller {

using rpc::WorkerJoined;

using proto::CommandBody;
using proto::ReplyBody;

constexpr double kLeaving_s = 10;                              // a worker that was told to leave has left by then
constexpr double kJoin_s = 60;                                 // GPUs have connected by then
constexpr double kMeetAgain_s = 0.1, kMeetAgainAtMost_s = 10;  // between attempts to bring workers together
constexpr int kStarts = 3;                                     // of a worker that does not stay

namespace {

// What others index by or add up, whatever was asked.
absl::Status check_reply(const ReplyBody& reply) {
  constexpr int64_t kMost = int64_t{1} << 50;  // bytes, samples: thousands of them are a number, too
  const auto counts = [](const auto&... values) { return ((values >= 0 && values <= kMost) && ...); };
  bool good = counts(reply.bytes(), reply.mismatch_count());
  for (const proto::TransferRecord& one : reply.transfers())
    good = good && counts(one.bytes()) && one.transfer_class() >= 0 && one.transfer_class() < plan::kTransferClasses;
  for (const proto::PlaceBytes& one : reply.foreign()) good = good && counts(one.bytes());
  for (const proto::SampleAccount& one : reply.accounts()) good = good && counts(one.samples(), one.bytes());
  return good ? absl::OkStatus() : failed("a worker's reply has impossible numbers");
}

}  // namespace

WorkerPool::WorkerPool(const cluster::Cluster& cluster, rpc::ControllerEnd& controller, WorkerPoolOptions options)
    : cluster_(cluster),
      controller_(controller),
      options_(std::move(options)),
      peers_(cluster.hosts.size()),
      sessions_(cluster.hosts.size()),
      pids_(cluster.hosts.size()) {}

absl::Status WorkerPool::start() {
  std::set<HostId> hosts;
  for (int64_t i = options_.first_host; i < std::ssize(cluster_.hosts); ++i) hosts.insert(HostId(i));
  absl::Status done = absl::OkStatus();
  for (int start = 0; start < kStarts; ++start) {
    SCALAI_RETURN_IF_ERROR(gather(hosts));
    for (const HostId host : hosts) found(host);
    done = set_up(hosts);
    if ((!absl::IsUnavailable(done) && !absl::IsCancelled(done)) || (options_.stopped && options_.stopped())) break;
  }
  SCALAI_RETURN_IF_ERROR(done);
  return introduce();
}

absl::Status WorkerPool::gather(const std::set<HostId>& hosts) {
  std::map<HostId, int> starts;
  std::map<HostId, std::string> ended;
  const auto missing = [&] {
    std::set<HostId> left = hosts;
    for (const HostId host : connected()) left.erase(host);
    return left;
  };
  for (const HostId host : missing()) ended[host] = "";
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.join_s);
  for (std::set<HostId> left = missing(); !left.empty(); left = missing()) {
    if (options_.ended_workers) {
      for (auto& [host, how] : options_.ended_workers()) ended[host] = std::move(how);
    }
    for (const HostId host : left) {
      const auto gone = ended.extract(host);
      if (gone.empty() || !options_.start_worker) continue;
      if (++starts[host] > kStarts)
        return failed(fmt::format("the worker of h{} ends before it has joined: {}", host.value, gone.mapped()));
      SCALAI_RETURN_IF_ERROR(options_.start_worker(host));
    }
    if (options_.stopped && options_.stopped()) return absl::CancelledError("nobody waits for workers any more");
    if (std::chrono::steady_clock::now() > until) {
      return absl::DeadlineExceededError(fmt::format("{} of {} workers joined within {} s; that of h{} did not",
                                                     hosts.size() - left.size(), hosts.size(), options_.join_s,
                                                     left.begin()->value));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return absl::OkStatus();
}

std::set<HostId> WorkerPool::connected() const {
  std::set<HostId> hosts;
  for (const WorkerJoined& worker : controller_.workers()) hosts.insert(HostId(worker.host));
  return hosts;
}

bool WorkerPool::eventually(const std::function<bool(const std::set<HostId>&)>& wanted, double patience_s) const {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_s);
  while (!wanted(connected())) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

absl::Status WorkerPool::rejoin(const std::set<HostId>& hosts, double patience_s) {
  const auto all = [&](const std::set<HostId>& joined) {
    return std::includes(joined.begin(), joined.end(), hosts.begin(), hosts.end());
  };
  (void)eventually(all, patience_s);
  // A host that is to be dead may have a worker yet: the earlier controller did not come to kill it.
  for (const HostId host : connected()) {
    if (!hosts.contains(host)) SCALAI_RETURN_IF_ERROR(kill(host));
  }
  // Some may be lost meanwhile: the rest is what there is.
  absl::Status done = absl::OkStatus();
  for (size_t tries = 0; tries <= hosts.size(); ++tries) {
    std::set<HostId> joined = connected();
    std::erase_if(joined, [&](HostId host) { return !hosts.contains(host); });
    for (const HostId host : hosts) joined.contains(host) ? found(host) : lost(host);
    done = set_up(joined);
    if (!absl::IsUnavailable(done) && !absl::IsCancelled(done)) break;
  }
  SCALAI_RETURN_IF_ERROR(done);
  return introduce();
}

proto::Hello WorkerPool::hello_of(HostId host) const {
  for (const WorkerJoined& worker : controller_.workers()) {
    if (worker.host == host.value) return *worker.hello;
  }
  return {};
}

absl::Status WorkerPool::revive(HostId host) {
  SCALAI_RETURN_IF_ERROR(gather({host}));
  found(host);
  SCALAI_RETURN_IF_ERROR(set_up({host}));
  return introduce();
}

absl::Status WorkerPool::kill(HostId host) {
  lost(host);
  const bool killed = options_.kill_worker && options_.kill_worker(host).ok();
  if (!killed) {
    CommandBody body;
    body.mutable_exit();
    controller_.send(host.value, {.what = "exit", .body = body.SerializeAsString()}, options_.deadline_s);
    (void)eventually([&](const std::set<HostId>& joined) { return !joined.contains(host); }, kLeaving_s);
  }
  controller_.cut(host.value, "its host has failed");
  return absl::OkStatus();
}

std::string WorkerPool::why_lost(const rpc::WorkerLost& lost) const {
  if (lost.clean) return lost.reason;
  const std::string why = options_.why_lost ? options_.why_lost(HostId(lost.host)) : "";
  if (!why.empty()) return fmt::format("{}: {}", lost.reason, why);
  const std::string machine = peer_of(HostId(lost.host)).host_name();
  return fmt::format("{}: process {} on {}, where its end and its log are known", lost.reason,
                     pids_[static_cast<size_t>(lost.host)], machine);
}

bool WorkerPool::is_ours(const rpc::WorkerLost& lost) const {
  return lost.session == sessions_[static_cast<size_t>(lost.host)];
}

absl::Status WorkerPool::refresh(HostId host) {
  SCALAI_RETURN_IF_ERROR(set_up({host}));
  return introduce();
}

absl::Status WorkerPool::set_up(const std::set<HostId>& hosts) {
  CommandBody body;
  for (const cluster::Host& host : cluster_.hosts) body.mutable_setup()->add_gpus_of_host(host.gpus);
  body.mutable_setup()->set_threads(options_.threads);
  body.mutable_setup()->set_force_network(options_.force_network);
  const std::vector<WorkerJoined> workers = controller_.workers();
  for (const WorkerJoined& worker : workers) {
    if (!hosts.contains(HostId(worker.host))) continue;
    sessions_[static_cast<size_t>(worker.host)] = worker.session;
    pids_[static_cast<size_t>(worker.host)] = worker.hello->pid();
  }
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, call("setup", hosts, body));
  size_t i = 0;
  for (const HostId host : hosts) {
    proto::Peer peer;
    peer.set_host(host.value);
    *peer.mutable_places() = replies[i++].places();
    for (const WorkerJoined& worker : workers) {
      if (worker.host != host.value) continue;
      peer.set_transport_address(worker.hello->transport_address());
      peer.set_host_name(worker.hello->host_name());
    }
    peers_[static_cast<size_t>(host.value)] = peer.SerializeAsString();
  }
  return absl::OkStatus();
}

proto::Peer WorkerPool::peer_of(HostId host) const {
  proto::Peer peer;
  SCALAI_CHECK(peer.ParseFromString(peers_[static_cast<size_t>(host.value)]));
  return peer;
}

void WorkerPool::set_others(const std::vector<proto::Peer>& others) {
  others_.clear();
  for (const proto::Peer& other : others) others_.push_back(other.SerializeAsString());
}

absl::Status WorkerPool::introduce() {
  introduced_ = living();
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.deadline_s);
  Backoff backoff(kMeetAgain_s, kMeetAgainAtMost_s, 0);
  for (;;) {
    std::set<HostId> hosts = connected();
    std::erase_if(hosts, [&](HostId host) { return !introduced_.contains(host); });
    CommandBody body;
    for (const HostId host : hosts) *body.mutable_peers()->add_peers() = peer_of(host);
    for (const std::string& other : others_) SCALAI_CHECK(body.mutable_peers()->add_peers()->ParseFromString(other));
    absl::Status told = call("peers", hosts, body).status();
    if (told.ok() && options_.nccl) told = join(hosts);
    const bool lost = absl::IsUnavailable(told) || absl::IsCancelled(told) || absl::IsDeadlineExceeded(told);
    if (!lost || std::chrono::steady_clock::now() > until) return told;
    std::set<HostId> left = connected();
    std::erase_if(left, [&](HostId host) { return !introduced_.contains(host); });
    if (left != hosts) continue;
    if (!others_.empty()) return told;                                             // one of the others is lost
    std::this_thread::sleep_for(std::chrono::duration<double>(backoff.next_s()));  // all are there, and cannot meet yet
  }
}

// Unless all of them have joined already.
absl::Status WorkerPool::join(const std::set<HostId>& hosts) {
  CommandBody body;
  body.mutable_join();
  SCALAI_ASSIGN_OR_RETURN(const std::vector<ReplyBody> replies, call("join", hosts, body));
  const auto fresh =
      std::find_if(replies.begin(), replies.end(), [](const ReplyBody& reply) { return !reply.unique_id().empty(); });
  if (fresh == replies.end()) return absl::OkStatus();
  body.mutable_join()->set_unique_id(fresh->unique_id());
  body.mutable_join()->set_timeout_s(kJoin_s);
  return call("join", hosts, body).status();
}

absl::Status WorkerPool::let_go_of_the_lost() { return living() == introduced_ ? absl::OkStatus() : introduce(); }

absl::Status WorkerPool::tell(const std::string& what, const std::set<HostId>& hosts, const CommandBody& body) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.deadline_s);
  for (;;) {
    std::set<HostId> reached = connected();
    std::erase_if(reached, [&](HostId host) { return !hosts.contains(host); });
    const absl::Status told = call(what, reached, body).status();
    const bool lost = absl::IsUnavailable(told) || absl::IsCancelled(told);
    if (!lost || std::chrono::steady_clock::now() > until) return told;
  }
}

std::set<HostId> WorkerPool::living_hosts_of(const std::vector<DeviceId>& devices) const {
  const std::set<HostId> living = this->living();
  std::set<HostId> hosts;
  for (const DeviceId device : devices) {
    const HostId host = cluster_.host_of(device);
    if (living.contains(host)) hosts.insert(host);
  }
  return hosts;
}

absl::StatusOr<std::vector<ReplyBody>> WorkerPool::call(const std::string& what, const std::set<HostId>& hosts,
                                                        const CommandBody& body) {
  Calls calls;
  for (const HostId host : hosts) calls.emplace_back(host, body);
  return call(what, calls);
}

absl::StatusOr<std::vector<ReplyBody>> WorkerPool::call(const std::string& what, const Calls& calls) {
  std::vector<rpc::Call> list;
  for (const auto& [host, body] : calls)
    list.push_back({.host = host.value, .command = {.what = what, .body = body.SerializeAsString()}});
  const std::vector<absl::StatusOr<rpc::Reply>> outcomes = controller_.call_all(std::move(list), options_.deadline_s);
  std::vector<ReplyBody> replies;
  SCALAI_RETURN_IF_ERROR(rpc::first_error(outcomes));
  for (const absl::StatusOr<rpc::Reply>& outcome : outcomes) {
    if (!replies.emplace_back().ParseFromString(outcome->body)) return failed("a worker's reply cannot be read");
    SCALAI_RETURN_IF_ERROR(check_reply(replies.back()));
  }
  return replies;
}

}  // namespace scalai::executor::controller
