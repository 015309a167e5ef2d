#pragma once
// Hosts of a run as network namespaces on a bridge, and faults between them. Needs root, ip (iproute2) and nft
// (nftables).
//
//   controller (10.77.R.1) ── bridge ─┬─ veth ─ host 0 (10.77.R.10)
//                                     └─ veth ─ host 1 (10.77.R.11) …
//
// One thread per object.

#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "executor/rpc/process.h"

namespace scalai::chaos {

class Network {
 public:
  // Once, before there are threads: gives this process and its children a network and mounts of their own, which end
  // with them. False: not allowed, or a tool is missing.
  static bool enter();

  // `number` R from 0 to 250: one object at a time has it.
  explicit Network(int number, int hosts);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  absl::Status make();
  std::string controller_address() const;

  // Keeps a worker on each host from now on: one that ends is started again. `environment` as of Process.
  void start_workers(const std::string& binary, const std::string& controller, const std::string& token_file,
                     const std::vector<std::pair<std::string, std::string>>& environment, const std::string& log);
  void stop_workers();

  absl::Status lose(int percent);  // of what arrives from any host
  absl::Status cut(int host);      // nothing from or to this host
  absl::Status part();             // the first half of the hosts, with the controller, from the second
  absl::Status heal();

 private:
  std::string link(int host) const;
  std::string space(int host) const;
  absl::Status filter(const std::string& rules);

  const int number_, hosts_;
  std::optional<std::jthread> keeper_;
};

}  // namespace scalai::chaos
