#include "sim/jobs/recovery/period.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"
#include "ptc/run/policy/job.h"

namespace scalai::jobs {

double young_daly_period_s(double write_s, double mtbf_s) {
  SCALAI_CHECK(write_s >= 0 && mtbf_s >= 0);
  if (mtbf_s == policy::kNever) return policy::kNever;  // also for free checkpoints: nobody will read them
  return std::sqrt(2 * write_s * mtbf_s);
}

double first_order_ettr(const EttrInput& input) {
  SCALAI_CHECK(input.period_s > 0 && input.mtbf_s > 0);
  const double writing = input.write_s / input.period_s;
  const double failing = (input.period_s / 2 + input.recover_s) / input.mtbf_s;
  return std::max(0.0, 1 - (writing + failing));
}

double exact_ettr(const EttrInput& input) {
  SCALAI_CHECK(input.period_s > 0 && input.mtbf_s > 0);
  const double cycle = std::expm1((input.period_s + input.write_s) / input.mtbf_s);
  return input.period_s / (input.mtbf_s * std::exp(input.recover_s / input.mtbf_s) * cycle);
}

}  // namespace scalai::jobs
