#pragma once
// Tables of one job on hosts, from CSV: throughput by live hosts, costs of changes, layouts with their throughputs.
//
//   throughput  hosts,samples_per_s                               ours: one model, one design
//               system,model,active_nodes,samples_per_s[,…]       the Oobleck artifact's: varuna, bamboo, oobleck
//   costs       cost,seconds                                      ours: change, fatal, ready, detect, checkpoint
//               system,model,samples_per_step,local_reconfig_s,checkpoint_s,checkpoint_every_iters,global_rendezvous_s
//   layouts     model,…,dp,pp,…,samples_per_s                     Parcae's
//
// Models are matched without regard to case, to `_` or `-` for `.`, and to a trailing "-ours". Errors: missing or bad
// files (all problems, with row and column), a model or system that the table lacks (with those it has).

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "ptc/sched/recovery/liveput.h"
#include "ptc/sched/recovery/recovery.h"

namespace scalai::sched {

// What a table says about numbers of hosts it has no row for.
enum class HostsBeyond : uint8_t {
  kNearest,  // as the nearest row: the published simulators
  kStop,     // the job cannot run on fewer than the table has; more hosts change nothing: the default of steady rules
};

class HostThroughput {
 public:
  HostThroughput(std::map<int, double> samples_per_s, HostsBeyond beyond);
  double operator()(int hosts) const;  // between two rows: the lower one
  const std::map<int, double>& rows() const { return rows_; }

 private:
  std::map<int, double> rows_;  // not empty
  HostsBeyond beyond_;
};

struct TableKey {
  std::string system;  // not used by tables that have none
  std::string model;
};

absl::StatusOr<HostThroughput> read_host_throughput(const std::string& path, const TableKey& key, HostsBeyond beyond);

// Costs of one design for one model; what a table does not say is < 0.
struct HostCosts {
  double samples_per_step = -1;
  double change_s = -1;  // any change of hosts
  double fatal_s = -1;   // redundancy: a rendezvous of all
  double ready_s = -1;   // a new host
  double detect_s = -1;
  double checkpoint_s = -1;  // one write
  double checkpoint_every_steps = -1;
  bool published = false;  // from a table with systems, or the constants: completed with what the publication says
};

absl::StatusOr<HostCosts> read_host_costs(const std::string& path, const TableKey& key);

// By layout; error as above.
absl::StatusOr<std::map<PipelineLayout, double>> read_layouts(const std::string& path, const std::string& model);

// The same name for "GPT-3-2_7b", "gpt-3-2.7b" and "GPT-3-2.7b-ours".
std::string plain_model_name(const std::string& name);

}  // namespace scalai::sched
