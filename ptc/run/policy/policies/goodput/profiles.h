#pragma once
// Measured applications: the time of a step by GPUs and batch, and the gradient noise by epoch. A folder of profiles
// holds one folder for each application (the format of the Pollux artifact, OSDI'21):
//
//   <app>/placements.csv          placement (digits = GPUs on each node, "44"), local_bsz, step_time s, sync_time s
//   <app>/scalability.csv         num_nodes, num_replicas, local_bsz, step_time, sync_time: more nodes, evenly filled
//   <app>/validation-<batch>.csv  progress, iteration, metric, grad_sqr, grad_var: one row an epoch at that batch
//
// Progress counts iterations at the initial batch (the smallest measured): a step with a larger batch gives `gain` of
// them. Values, immutable after load(); any thread may call, several at once.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::policy {

// One step: forward and backward passes with the exchange of gradients. Without the exchange: step_s − sync_s.
struct StepTime {
  double step_s = 0;
  double sync_s = 0;
};

// Squared norm and variance of the gradient, at the initial batch.
struct GradientNoise {
  double sqr = 0;
  double var = 0;
};

// The cut of a global batch: GPUs × local × (accumulation + 1) samples a step.
struct BatchCut {
  int64_t local = 0;
  int64_t accumulation = 0;  // passes without exchange, before the one with it
  friend bool operator==(const BatchCut&, const BatchCut&) = default;
};

class Application {
 public:
  // Reads the folder of one application. NotFound: files are missing. InvalidArgument, with file, row and field.
  static absl::StatusOr<Application> load(const std::string& name, const std::string& folder);

  const std::string& name() const { return name_; }
  int64_t initial_batch() const { return noise_.begin()->first; }
  int64_t most_batch() const { return noise_.rbegin()->first; }
  int64_t least_local() const { return least_local_; }
  int64_t most_local() const { return most_local_; }
  int epochs() const { return static_cast<int>(ends_.size()); }

  // Progress at the end of an epoch (from 0): the least over all batches, as in the authors' simulator.
  double epoch_end(int epoch) const { return ends_[static_cast<size_t>(epoch)]; }
  double work() const { return ends_.back(); }
  int epoch_at(double progress) const;  // the current epoch; at the end the last one
  // Iterations after `epoch` epochs at a fixed global batch, interpolated between measured batches.
  double iterations(int64_t batch, int epoch) const;

  // `gpus`: number on each host, in order, 1 … 4 each. For a measured placement (up to four hosts, in a ring: rotations
  // are equal) interpolated in the local batch; for others step_time(nodes, replicas). nullopt: outside the
  // measurements.
  std::optional<StepTime> step_time(std::span<const int> gpus, int64_t local) const;
  // Means over placements and scalability rows, interpolated between node counts at the same GPUs per node. More than
  // 16 nodes count as 16.
  std::optional<StepTime> step_time(int nodes, int replicas, int64_t local) const;

  // Noise of an epoch at a global batch, interpolated between measured batches.
  GradientNoise noise(int64_t batch, int epoch) const;

  // The cut of a global batch on `replicas` GPUs: as few passes as the memory allows. A single GPU with a batch above
  // the initial one takes at least two, because one pass cannot estimate the noise.
  BatchCut cut(int64_t batch, int replicas) const;

 private:
  struct Sample {
    int64_t local;
    StepTime time;
  };
  using Curve = std::vector<Sample>;  // by local batch
  struct EpochRow {
    double progress, iteration, sqr, var;
  };
  static std::optional<StepTime> along(const Curve& curve, int64_t local, bool extrapolate);
  StepTime at_nodes(const std::map<int, Curve>& by_replicas, double replicas, int64_t local) const;
  absl::Status read_steps(const std::string& folder);
  absl::Status read_epochs(const std::string& folder);
  // The measured batches around `batch` and the weight of the upper one.
  std::pair<const std::vector<EpochRow>*, const std::vector<EpochRow>*> around(int64_t batch, double& weight) const;

  std::string name_;
  std::map<int64_t, std::vector<EpochRow>> noise_;  // by global batch
  std::vector<double> ends_;                        // by epoch
  std::map<std::string, Curve> placements_;         // by digits, least rotation
  std::map<int, std::map<int, Curve>> grid_;        // nodes → replicas → curve
  int64_t least_local_ = 0, most_local_ = 0;
};

class Profiles {
 public:
  // Loads every sub-folder with a placements.csv. NotFound: none.
  static absl::StatusOr<Profiles> load(const std::string& folder);
  const Application* find(const std::string& name) const;  // null: none; lives as long as the profiles
  std::vector<std::string> names() const;

 private:
  std::map<std::string, Application> applications_;
};

// Progress of a step relative to one at the initial batch, >= 1: (var + sqr) / (var / scale + sqr), scale = batch /
// initial (AdaScale, Johnson et al. 2020; equal to scale × Pollux's efficiency (phi + M0) / (phi + M)).
double step_gain(const GradientNoise& noise, double scale);

}  // namespace scalai::policy
