#include "ptc/run/policy/policies/goodput/promises.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scalai::policy {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kSlack = 1e-9;  // relative: sums of times round

double slot_end(double at_s, double slot_s) { return std::ceil(at_s / slot_s - kSlack) * slot_s; }

bool in_time(double end_s, double deadline_s) { return end_s <= deadline_s * (1 + kSlack); }

// The highest level of at most `gpus`; null: none.
const Level* level_within(std::span<const Level> levels, int gpus) {
  const Level* found = nullptr;
  for (const Level& level : levels) {
    if (level.gpus <= gpus) found = &level;
  }
  return found;
}

// Walks through time with a number of GPUs in each step: what is done, and when the job ends.
class Walk {
 public:
  explicit Walk(const PlanRequest& request) : request_(request), left_(request.work), gpus_(request.gpus_now) {}

  // False once the job has ended.
  bool on(double from_s, double to_s, const Level* level) {
    const int gpus = level == nullptr ? 0 : level->gpus;
    if (gpus != gpus_ && gpus > 0) stopped_ = request_.change_s;
    gpus_ = gpus;
    if (gpus == 0) return true;
    const double stop = std::min(stopped_, to_s - from_s);
    stopped_ -= stop;
    const double needs = left_ / level->per_s;
    if (from_s + stop + needs <= to_s) {
      end_s_ = from_s + stop + needs;
      return false;
    }
    left_ -= (to_s - from_s - stop) * level->per_s;
    return true;
  }
  double end_s() const { return end_s_; }

 private:
  const PlanRequest& request_;
  double left_;
  int gpus_;
  double stopped_ = 0;  // still to be spent on a change
  double end_s_ = kInfinite;
};

// Plan and end with at most `cap` GPUs at any time.
std::pair<JobPlan, double> filled(const PlanRequest& request, const FreeGpus& free, int cap, double slot_s) {
  JobPlan plan;
  Walk walk(request);
  const auto steps = free.steps();
  for (size_t k = 0; k < steps.size(); ++k) {
    const double to_s = k + 1 < steps.size() ? steps[k + 1].from_s : kInfinite;
    const Level* level = level_within(request.levels, std::min(cap, steps[k].gpus));
    const bool goes_on = walk.on(steps[k].from_s, to_s, level);
    plan.push_back({steps[k].from_s, to_s, level == nullptr ? 0 : level->gpus});
    if (goes_on) continue;
    plan.back().to_s = std::min(to_s, std::max(slot_end(walk.end_s(), slot_s), walk.end_s()));
    break;
  }
  return {plan, walk.end_s()};
}

}  // namespace

void FreeGpus::cut(double at_s) {
  if (at_s <= steps_.front().from_s || !std::isfinite(at_s)) return;
  auto after =
      std::upper_bound(steps_.begin(), steps_.end(), at_s, [](double t, const Step& s) { return t < s.from_s; });
  if (std::prev(after)->from_s == at_s) return;
  steps_.insert(after, {at_s, std::prev(after)->gpus});
}

void FreeGpus::take(const JobPlan& plan) {
  for (const PlanSegment& segment : plan) {
    if (segment.gpus == 0) continue;
    cut(segment.from_s);
    cut(segment.to_s);
    for (Step& step : steps_) {
      if (step.from_s >= segment.from_s && step.from_s < segment.to_s) step.gpus -= segment.gpus;
    }
  }
}

int FreeGpus::least() const {
  return std::min_element(steps_.begin(), steps_.end(), [](const Step& a, const Step& b) { return a.gpus < b.gpus; })
      ->gpus;
}

std::optional<JobPlan> minimum_share(const PlanRequest& request, const FreeGpus& free, double slot_s) {
  for (const Level& level : request.levels) {
    auto [plan, end_s] = filled(request, free, level.gpus, slot_s);
    if (in_time(end_s, request.deadline_s)) return plan;
  }
  return std::nullopt;
}

JobPlan best_share(const PlanRequest& request, const FreeGpus& free, double slot_s) {
  if (request.levels.empty()) return {};
  return filled(request, free, request.levels.back().gpus, slot_s).first;
}

double plan_end(const PlanRequest& request, const JobPlan& plan, double now_s) {
  Walk walk(request);
  for (const PlanSegment& segment : plan) {
    if (segment.to_s <= now_s) continue;
    if (!walk.on(std::max(segment.from_s, now_s), segment.to_s, level_within(request.levels, segment.gpus))) break;
  }
  return walk.end_s();
}

}  // namespace scalai::policy
