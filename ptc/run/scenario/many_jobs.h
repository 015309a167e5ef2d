#pragma once
// The part of a scenario that is simulated without the control loop: many jobs of a trace or generator on one cluster
// (`workload`), or one job on hosts that come and go (`recovery`). Plain values. The simulator is sim/jobs; it adds its
// own checks by `Engine`.
//
// File names are relative to the scenario's folder, or to the one that it names. "${SCALAI_DATA}" at the beginning is
// the folder of public data: the environment variable of that name, or "data" beside the scenario's folder.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/outcome.h"
#include "ptc/run/policy/policies/estimates.h"
#include "ptc/run/policy/policies/quotas.h"

namespace scalai::scenario {

struct Scenario;
namespace internal {
struct Context;
}

struct ManyJobs {
  policy::Fleet fleet;                // types are GPU kinds, in the order of first use
  policy::Workload workload;          // empty with `recovery`
  std::string workload_text;          // "gavel trace physical.trace: 96 jobs"
  policy::Availability availability;  // hosts and prices, sorted by time
  double availability_span_s = 0;     // of the host trace: it may go on after its last change
  std::optional<policy::Window> window;
  policy::EstimateError estimates;       // what the policy believes
  std::optional<policy::Quotas> quotas;  // of virtual clusters
  std::vector<std::string> notes;        // omissions of importers, training settings of models
  std::vector<std::string> left_out;     // parameters of the file's policy or design that the one set instead has not
  std::vector<std::pair<std::string, std::string>> files;  // files read: name in the scenario, checksum
};

// Builds the simulator's parts while a scenario is loaded, so that all problems of the file come at once. Problems go
// to the context's source.
class Engine {
 public:
  struct Design {
    std::string name;
    std::vector<std::string> parameters;
  };

  virtual ~Engine() = default;
  virtual std::vector<Design> recovery_designs() const = 0;
  virtual void build_recovery(internal::Context& context, Scenario& scenario) = 0;
  // Of a workload, in this order; quotas and estimates are built between.
  virtual void build_throughputs(internal::Context& context, Scenario& scenario) = 0;
  virtual void build_changes(internal::Context& context, Scenario& scenario) = 0;
};

}  // namespace scalai::scenario
