#pragma once
// The time of a job on a fixed fair share of the cluster (sim/jobs/engine.h): the measure of finish-time fairness.

#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched::internal {

// `job_s`, `up_gpu_s`: integrals over the job's life of the jobs in the system and the GPUs up. 0: not known.
double fair_share_s(const Job& job, const Fleet& fleet, const Throughput& throughput, double job_s, double up_gpu_s);

}  // namespace scalai::sched::internal
