#pragma once
// Interface for the seconds per training step, used by the control loop if a scenario gives no step times.
// Implementations: the closed form here, the simulated iteration in sim/. Const methods of AnalyticStepTime keep no
// state; any thread may call them.

#include <map>
#include <span>
#include <vector>

#include "ptc/cost/step/hardware.h"
#include "ptc/cost/step/step_time.h"

namespace scalai::step {

// One training job. Holds references and a span: the referred objects must live until steps_s returns.
struct StepInput {
  const ModelShape& model;
  const collection::ParallelConfig& config;
  const Training& training;
  const cluster::Cluster& cluster;
  std::span<const DeviceId> devices;           // in rank order, as many as ranks
  const std::map<DeviceId, double>& speed;     // degraded devices: share of nominal speed
  const std::map<std::string, double>& links;  // degraded links: share of nominal rate; 0 = down
};

class StepTimeModel {
 public:
  virtual ~StepTimeModel() = default;
  // Step time of each job, in order, while all jobs train together. Deterministic.
  virtual std::vector<double> steps_s(std::span<const StepInput> together) const = 0;
};

// step_time() of each job alone, without the traffic of others, on what degraded links leave (degraded_cluster.h);
// infinity if a job needs a link that is down.
class AnalyticStepTime : public StepTimeModel {
 public:
  std::vector<double> steps_s(std::span<const StepInput> together) const override;
};

}  // namespace scalai::step
