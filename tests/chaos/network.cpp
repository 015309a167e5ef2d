#include "tests/chaos/network.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <map>

#include "ptc/base/status.h"

namespace scalai::chaos {
namespace {

using executor::rpc::Process;

absl::Status shell(const std::string& script) {
  auto process = Process::start(
      {.binary = "/bin/sh", .arguments = {"sh", "-ec", script}, .environment = {}, .log_file = "/dev/stderr"});
  const auto end = process.ok() ? process->wait(30) : std::nullopt;
  return end && end->ok() ? absl::OkStatus() : missing("cannot run: " + script);
}

}  // namespace

bool Network::enter() {
  // All tools, before a new network, which has no loopback until one of them makes it.
  const bool tools = shell("for tool in ip nft unshare hostname; do command -v $tool >/dev/null || exit 1; done").ok();
  if (!tools || ::geteuid() != 0 || ::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return false;
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  // Named namespaces are bound in /run/netns.
  return shell("ip link set lo up; mkdir -p /run/netns; mount -t tmpfs chaos /run/netns").ok();
}

Network::Network(int number, int hosts) : number_(number), hosts_(hosts) {}

Network::~Network() {
  stop_workers();
  std::string script = fmt::format(
      "nft delete table bridge chaos{0} 2>/dev/null || true; ip link del br{0} 2>/dev/null || true; ", number_);
  for (int host = 0; host < hosts_; ++host) script += fmt::format("ip netns del {} 2>/dev/null || true; ", space(host));
  (void)shell(script);
}

std::string Network::link(int host) const { return fmt::format("v{}h{}", number_, host); }
std::string Network::space(int host) const { return fmt::format("run{}-h{}", number_, host); }
std::string Network::controller_address() const { return fmt::format("10.77.{}.1", number_); }

absl::Status Network::make() {
  std::string script = fmt::format(
      "ip link add br{0} type bridge; ip addr add 10.77.{0}.1/24 dev br{0}; ip link set br{0} up; ", number_);
  for (int host = 0; host < hosts_; ++host) {
    script += fmt::format(
        "ip netns add {0}; ip link add {1} type veth peer name eth0 netns {0}; ip link set {1} master br{2} up; "
        "ip -n {0} addr add 10.77.{2}.{3}/24 dev eth0; ip -n {0} link set eth0 up; ip -n {0} link set lo up; ",
        space(host), link(host), number_, 10 + host);
  }
  return shell(script);
}

void Network::start_workers(const std::string& binary, const std::string& controller, const std::string& token_file,
                            const std::vector<std::pair<std::string, std::string>>& environment,
                            const std::string& log) {
  const auto start = [=, this](int host) {
    // A machine of its own: its name says to others that its memory cannot be shared.
    return Process::start({.binary = "/usr/bin/env",
                           .arguments = {"env", "ip", "netns", "exec", space(host), "unshare", "--uts", "sh", "-c",
                                         fmt::format("hostname {} && exec \"$@\"", space(host)), "sh", binary, "worker",
                                         "--controller=" + controller, fmt::format("--host={}", host),
                                         "--token-file=" + token_file, "--transport=ucx", "--orphan-timeout=60s"},
                           .environment = environment,
                           .log_file = log});
  };
  keeper_.emplace([start, hosts = hosts_](const std::stop_token& stop) {
    std::map<int, Process> workers;
    while (!stop.stop_requested()) {
      for (int host = 0; host < hosts; ++host) {
        const auto found = workers.find(host);
        if (found != workers.end() && !found->second.poll()) continue;
        if (found != workers.end()) workers.erase(found);
        if (auto process = start(host); process.ok()) workers.emplace(host, std::move(*process));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    for (auto& [host, worker] : workers) {
      if (!worker.wait(1)) (void)worker.kill();  // one that was started too late to join
    }
  });
}

void Network::stop_workers() { keeper_.reset(); }

absl::Status Network::filter(const std::string& rules) {
  return shell(
      fmt::format("nft -f - <<'END'\ntable bridge chaos{0}\ndelete table bridge chaos{0}\n"
                  "table bridge chaos{0} {{\n{1}\n}}\nEND",
                  number_, rules));
}

absl::Status Network::lose(int percent) {
  return filter(
      fmt::format("chain in {{ type filter hook prerouting priority 0; iifname \"v{}h*\" numgen random mod "
                  "100 < {} drop; }}",
                  number_, percent));
}

absl::Status Network::cut(int host) {
  return filter(
      fmt::format("chain in {{ type filter hook prerouting priority 0; iifname \"{0}\" drop; }}\n"
                  "chain out {{ type filter hook postrouting priority 0; oifname \"{0}\" drop; }}",
                  link(host)));
}

absl::Status Network::part() {
  std::string second;
  for (int host = hosts_ / 2; host < hosts_; ++host)
    second += fmt::format("{}\"{}\"", second.empty() ? "" : ", ", link(host));
  return filter(
      fmt::format("chain forward {{ type filter hook forward priority 0; iifname {{ {0} }} oifname != {{ {0} }} drop; "
                  "iifname != {{ {0} }} oifname {{ {0} }} drop; }}\n"
                  "chain local {{ type filter hook input priority 0; iifname {{ {0} }} drop; }}\n"
                  "chain out {{ type filter hook output priority 0; oifname {{ {0} }} drop; }}",
                  second));
}

absl::Status Network::heal() { return filter(""); }

}  // namespace scalai::chaos
