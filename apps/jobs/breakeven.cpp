#include "apps/jobs/breakeven.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::apps {
namespace {

constexpr int kBetween = 7;

int sign(const BreakevenSample& sample) { return sample.a < sample.b ? -1 : sample.a > sample.b ? 1 : 0; }

// The first neighbours with other signs; an equality counts by itself.
std::optional<std::pair<size_t, size_t>> first_change(const std::vector<BreakevenSample>& samples) {
  for (size_t i = 0; i < samples.size(); ++i) {
    if (sign(samples[i]) == 0) return std::pair(i, i);
    if (i > 0 && sign(samples[i]) != sign(samples[i - 1])) return std::pair(i - 1, i);
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Breakeven> find_breakeven(double low, double high, double tolerance,
                                         const std::function<absl::StatusOr<BreakevenSample>(double x)>& at,
                                         bool whole) {
  SCALAI_CHECK(low < high && tolerance > 0);
  Breakeven result;
  const auto sample = [&](double x) -> absl::Status {
    SCALAI_ASSIGN_OR_RETURN(const BreakevenSample taken, at(x));
    const auto place = std::lower_bound(result.samples.begin(), result.samples.end(), x,
                                        [](const BreakevenSample& one, double value) { return one.x < value; });
    result.samples.insert(place, taken);
    return absl::OkStatus();
  };
  SCALAI_RETURN_IF_ERROR(sample(low));
  SCALAI_RETURN_IF_ERROR(sample(high));
  const auto rounded = [&](double x) { return whole ? std::round(x) : x; };
  for (int k = 1; k <= kBetween && !first_change(result.samples); ++k) {
    const double x = rounded(low + (high - low) * k / (kBetween + 1));
    const bool known = std::any_of(result.samples.begin(), result.samples.end(),
                                   [&](const BreakevenSample& one) { return one.x == x; });
    if (!known) SCALAI_RETURN_IF_ERROR(sample(x));
  }
  while (const auto change = first_change(result.samples)) {
    const double left = result.samples[change->first].x, right = result.samples[change->second].x;
    result.bracket = std::pair(left, right);
    if (right - left <= tolerance) break;
    const double middle = whole ? std::floor(0.5 * (left + right)) : 0.5 * (left + right);
    if (middle <= left || middle >= right) break;
    SCALAI_RETURN_IF_ERROR(sample(middle));
  }
  return result;
}

bool more_is_better(const std::string& metric) {
  static const std::vector<std::string> kNames = {"finished",       "utilization", "deadlines_met", "deadlines_share",
                                                  "deadline_met",   "samples",     "samples_per_s", "steps",
                                                  "training_gpu_h", "ettr",        "mean_hosts",    "goodput"};
  const std::string name = metric.substr(metric.rfind('/') + 1);
  // "goodput_samples_per_s" and whatever else is a goodput.
  return name.starts_with("goodput_") || std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace scalai::apps
