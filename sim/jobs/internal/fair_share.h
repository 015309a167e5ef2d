#pragma once
// The time of a job on a fixed fair share of the cluster (sim/jobs/engine.h): the measure of finish-time fairness.

#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/throughput.h"

namespace scalai::jobs::internal {

// `job_s`, `up_gpu_s`: integrals over the job's life of the jobs in the system and the GPUs up. 0: not known.
double fair_share_s(const policy::Job& job, const policy::Fleet& fleet, const policy::Throughput& throughput,
                    double job_s, double up_gpu_s);

}  // namespace scalai::jobs::internal
