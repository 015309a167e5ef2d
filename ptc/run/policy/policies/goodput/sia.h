#pragma once
// Sia (SOSP'23): at every interval each job gets one configuration (GPU type, hosts, GPUs) or none, by the integer
// program
//
//   minimise    sum_m w_m (sum_c round(u_mc^p, 2) x_mc + lambda (1 - sum_c x_mc))     (p > 0: u^p counts negative)
//   subject to  sum_c x_mc <= 1;   sum gpus(c) x_mc <= GPUs of the type;   x binary
//
// (The authors have all weights 1; a weight on the first sum only would leave heavy jobs without GPUs.)
// u_mc = goodput of job m in c / its least goodput anywhere (which counts as its least number of GPUs) × the part of
// its life not lost to restarts, unless c is its present configuration. Configurations are powers of two on one host,
// then whole hosts.

#include <memory>
#include <string>
#include <vector>

#include "ptc/run/policy/policy.h"

namespace scalai::policy {

struct SiaSettings {
  double interval_s = 60;
  double exponent = -0.5;        // p, not 0
  double lambda = 1.1;           // penalty of a job without GPUs, > 1: more than a job with the least GPUs
  int most_gpus = 64;            // maximum for one job
  std::string model = "fitted";  // or "oracle", as in pollux.h
  // A GPU type that a job has never run on counts no better than its worst type, and only at the job's least size.
  bool explore = true;
  // A program ends with a solution that is at most `gap` (relative) from the optimum, or with the best that was found
  // in `limit_s`, which then depends on the speed of the machine.
  double gap = 0.01;
  double limit_s = 10;
};

struct SiaConfiguration {
  GpuType type;
  int hosts = 1;
  int gpus = 1;
  friend auto operator<=>(const SiaConfiguration&, const SiaConfiguration&) = default;
};

// Configurations on the hosts up; `capacity` has the GPUs of each host. Type by type, growing.
std::vector<SiaConfiguration> sia_configurations(const Fleet& fleet, std::span<const int> capacity);

// Choices of a job in the integer program. The solution has the index of a choice for each job, −1 = none.
struct SiaChoice {
  GpuType type;
  int gpus = 1;
  double utility = 1;  // u_mc
};
struct SiaJob {
  std::vector<SiaChoice> choices;
  double weight = 1;
  int locked = -1;  // the only allowed choice; −1 = free
};
struct SiaSolution {
  std::vector<int> chosen;
  bool found = true;  // false: the solver had none in time, and each job in turn has the best that still fits
  // At most so far from the optimum, relative to the program's objective (without the penalties' constant).
  double gap = 0;
};
// `gpus`: GPUs up, by type. InvalidArgument: the locked choices do not fit together. Else errors of
// Program::solve_within.
absl::StatusOr<SiaSolution> solve_sia(std::span<const SiaJob> jobs, std::span<const int> gpus,
                                      const SiaSettings& settings);
// The objective of any assignment.
double sia_objective(std::span<const SiaJob> jobs, std::span<const int> chosen, const SiaSettings& settings);

std::unique_ptr<Policy> make_sia(const SiaSettings& settings);

}  // namespace scalai::policy
