#pragma once
// How far the wall time and the downtime of a job may be from what a run says. Both are sums of parts that models gave,
// and `basis` knows how far each model was from what others measured. A model errs the same way each time, so errors of
// one kind add up; models know nothing of each other, so kinds are independent:
//
//     half-width of a sum = sqrt( Σ over kinds ( Σ over parts of the kind: half-width of the part )² )
//
// Kinds: the steps of each kind of GPU (step::step_accuracy), transfers, communicators (phase `resume`). A part of
// t seconds with the interval [low, high] times has the half-widths (1 − low) t below and (high − 1) t above; both
// sides are summed apart. What the scenario gives, what the run measured, waits and the moments of events have none:
// they stay as they are. Pure functions.

#include <optional>
#include <string>
#include <vector>

#include "ptc/report/internal/basis.h"
#include "ptc/run/control/records.h"

namespace scalai::report {

struct SecondsInterval {
  double low = 0, high = 0;
};

struct JobIntervals {
  std::optional<SecondsInterval> wall_s;  // nothing: the end of the run, not of the job, ended it
  SecondsInterval downtime_s;
  // Phases, and "snapshots", that took time and have a model or an assumption without a calibrated error: "detect,
  // restart". They are taken as they are.
  std::string without;
};

// Nothing for a job none of whose times has a calibrated error. `basis` is basis_of(report). CHECK: the job exists.
std::optional<JobIntervals> intervals_of(const control::RunReport& report, const std::vector<Basis>& basis, int job);

}  // namespace scalai::report
