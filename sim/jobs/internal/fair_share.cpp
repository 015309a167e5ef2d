#include "sim/jobs/internal/fair_share.h"

#include <algorithm>

namespace scalai::jobs::internal {

constexpr int kRateSteps = 100000;  // of one job's rate

double fair_share_s(const policy::Job& job, const policy::Fleet& fleet, const policy::Throughput& throughput,
                    double job_s, double up_gpu_s) {
  double rate_sum = 0;  // of work / time alone, weighted by the GPUs of the type
  int gpus = 0;
  for (size_t t = 0; t < fleet.types.size(); ++t) {
    const policy::GpuType type(static_cast<int64_t>(t));
    const int count = fleet.gpus(type);
    gpus += count;
    double work = 0, seconds = 0;
    for (int step = 0; work < job.work && step < kRateSteps; ++step) {
      const policy::Rate rate = throughput.rate(job, type, job.gpus, work);
      if (!(rate.per_s > 0) || !(rate.until_work > work)) break;
      const double to = std::min(job.work, rate.until_work);
      seconds += (to - work) / rate.per_s;
      work = to;
    }
    if (work >= job.work && seconds > 0) rate_sum += count * (job.work / seconds);
  }
  const double alone_s = rate_sum > 0 ? job.work / (rate_sum / gpus) : job.duration_s;
  if (!(alone_s > 0)) return 0;
  return up_gpu_s <= 0 ? alone_s : alone_s * std::max(1.0, job_s * job.gpus / up_gpu_s);
}

}  // namespace scalai::jobs::internal
