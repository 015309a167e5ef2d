#pragma once
// CSV tables of one job on hosts: throughput by live hosts, costs of changes, layouts with throughputs. Any thread.
//
//   throughput  hosts,samples_per_s                               ours: one model, one design
//               system,model,active_nodes,samples_per_s[,…]       the Oobleck artifact's: varuna, bamboo, oobleck
//   costs       cost,seconds                                      ours: change, fatal, ready, detect, checkpoint
//               system,model,samples_per_step,local_reconfig_s,checkpoint_s,checkpoint_every_iters,global_rendezvous_s
//   layouts     model,…,dp,pp,…,samples_per_s                     Parcae's
//
// Models match without regard to case, to `_` or `-` for `.`, and to a trailing "-ours". Errors: missing or malformed
// files (all problems, with row and column); a model or system that the table lacks (the message lists those it has).

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "sim/jobs/recovery/liveput.h"
#include "sim/jobs/recovery/recovery.h"

namespace scalai::jobs {

// Rule for numbers of hosts without a row.
enum class HostsBeyond : uint8_t {
  kNearest,  // the nearest row
  kStop,     // fewer hosts than the table: cannot run; more: no gain
};

class HostThroughput {
 public:
  HostThroughput(std::map<int, double> samples_per_s, HostsBeyond beyond);
  double operator()(int hosts) const;  // samples/s; between two rows the lower one
  const std::map<int, double>& rows() const { return rows_; }

 private:
  std::map<int, double> rows_;  // not empty
  HostsBeyond beyond_;
};

struct TableKey {
  std::string system;  // ignored by tables without systems
  std::string model;
};

absl::StatusOr<HostThroughput> read_host_throughput(const std::string& path, const TableKey& key, HostsBeyond beyond);

// Costs of one design for one model; a value < 0 is absent.
struct HostCosts {
  double samples_per_step = -1;
  double change_s = -1;  // any change of hosts
  double fatal_s = -1;   // redundancy: restart of all hosts
  double ready_s = -1;   // from a host's coming until it can be used
  double detect_s = -1;
  double checkpoint_s = -1;  // one write
  double checkpoint_every_steps = -1;
};

absl::StatusOr<HostCosts> read_host_costs(const std::string& path, const TableKey& key);

// Samples/s by layout. Errors as above.
absl::StatusOr<std::map<PipelineLayout, double>> read_layouts(const std::string& path, const std::string& model);

// Canonical name: equal for "GPT-3-2_7b", "gpt-3-2.7b" and "GPT-3-2.7b-ours".
std::string plain_model_name(const std::string& name);

}  // namespace scalai::jobs
