#pragma once
// What the times of a run rest on, for those who bet on them: a line for step times and one for each phase that took
// any.

#include <optional>
#include <string>
#include <vector>

#include "ptc/base/screen.h"
#include "ptc/cost/step/calibration.h"
#include "ptc/run/control/records.h"

namespace scalai::report {

struct Basis {
  std::string of;  // "step", or a phase: "detect", "restart" …
  std::string
      basis;  // "given" in the scenario, "assumed" of a stack, "modelled" from the cluster, "measured" in this run
  std::string from;  // in words
  // Where others were: seconds that were published (unit "s"), or times the value ("times"; "times, others": of other
  // software, which is no error of this run). Nothing: nobody knows.
  std::optional<double> low, high;
  std::string unit;
  double given_s = 0;  // of the phase of each change: what the scenario gives, without an error (compilation)
};

// How far steps of a job on such GPUs may be off, by what its scenario gives.
step::StepAccuracy accuracy_of(const cluster::GpuKind& gpu, const scenario::JobSpec& job);

std::vector<Basis> basis_of(const control::RunReport& report);
// Lines that fit the screen; "" without any.
std::string basis_text(const std::vector<Basis>& all, const Screen& screen = {});

}  // namespace scalai::report
