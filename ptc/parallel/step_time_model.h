#pragma once
// Seconds per training step behind an interface: what the control loop asks when a scenario does not say.
// Implementations: the closed form here, the simulated iteration in sim/.

#include <map>
#include <span>
#include <vector>

#include "ptc/parallel/hardware.h"
#include "ptc/parallel/step_time.h"

namespace scalai::parallel {

// One job that trains. Refers to its parts: for arguments only.
struct StepInput {
  const ModelShape& model;
  const collection::ParallelConfig& config;
  const Training& training;
  const plan::Cluster& cluster;
  std::span<const DeviceId> devices;           // in rank order
  const std::map<DeviceId, double>& speed;     // of degraded devices, share of nominal
  const std::map<std::string, double>& links;  // of degraded links, share of nominal; 0 = down
};

class StepTimeModel {
 public:
  virtual ~StepTimeModel() = default;
  // Of each job while all of them train, in order. Deterministic.
  virtual std::vector<double> steps_s(std::span<const StepInput> together) const = 0;
};

// step_time() of each by itself: what others send does not count.
class AnalyticStepTime : public StepTimeModel {
 public:
  std::vector<double> steps_s(std::span<const StepInput> together) const override;
};

}  // namespace scalai::parallel
