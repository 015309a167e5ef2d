#include "ptc/run/policy/policies/estimates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "ptc/base/random.h"
#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr double kLeftOfLate = 1e-3;              // of the estimate, of a job that outlived it
constexpr uint64_t kStream = 0x657374696d617465;  // other random numbers than those of policies and generators

// The cluster as it is, but for the lengths of jobs.
class EstimatedView final : public View {
 public:
  explicit EstimatedView(std::vector<double> factors) : factors_(std::move(factors)), believed_(factors_.size()) {}
  void look_at(const View& view) { view_ = &view; }

  double now_s() const override { return view_->now_s(); }
  const Fleet& fleet() const override { return view_->fleet(); }
  int capacity(GpuType type) const override { return view_->capacity(type); }
  int capacity(HostId host) const override { return view_->capacity(host); }
  double price(GpuType type) const override { return view_->price(type); }
  Progress progress(JobId id) const override { return view_->progress(id); }
  std::span<const JobId> active() const override { return view_->active(); }
  const Throughput& throughput() const override { return view_->throughput(); }
  double change_cost_s(JobId id, int to_gpus) const override { return view_->change_cost_s(id, to_gpus); }

  const Job& job(JobId id) const override {
    const size_t k = static_cast<size_t>(id.value);
    SCALAI_CHECK(k < factors_.size(), fmt::format("job {} has no estimate", id.value));
    const Job& truth = view_->job(id);
    if (factors_[k] == 1) return truth;
    Job& job = believed_[k];
    if (job.name.empty()) job = truth;
    const double estimate = truth.work * factors_[k];
    job.work = std::max(estimate, view_->progress(id).work_done + estimate * kLeftOfLate);
    // In step with it: sources of throughputs may divide one by the other.
    if (truth.duration_s > 0) job.duration_s = truth.duration_s * (job.work / truth.work);
    return job;
  }

 private:
  const View* view_ = nullptr;
  std::vector<double> factors_;
  mutable std::vector<Job> believed_;  // by job; those that were asked for
};

class Estimated final : public Policy {
 public:
  Estimated(std::unique_ptr<Policy> policy, std::vector<double> factors)
      : policy_(std::move(policy)), view_(std::move(factors)) {}

  PolicyTraits traits() const override { return policy_->traits(); }
  std::string remarks() const override { return policy_->remarks(); }
  bool keep_answers(AnswerLog* log) override { return policy_->keep_answers(log); }
  absl::Status begin(const View& view) override {
    view_.look_at(view);
    return policy_->begin(view_);
  }
  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    view_.look_at(view);
    return policy_->decide(view_, events);
  }

 private:
  std::unique_ptr<Policy> policy_;
  EstimatedView view_;
};

}  // namespace

std::string EstimateError::description() const {
  if (uniform > 0) return fmt::format("run times off by factors within 1 ± {}, uniform", uniform);
  if (log_normal > 0) return fmt::format("run times off by factors e^({} z), z standard normal", log_normal);
  return "exact run times";
}

std::vector<double> estimate_factors(const EstimateError& error, uint64_t seed, size_t jobs) {
  SCALAI_CHECK(error.uniform >= 0 && error.uniform < 1 && error.log_normal >= 0);
  Random random(seed ^ kStream);
  std::vector<double> factors;
  factors.reserve(jobs);
  for (size_t k = 0; k < jobs; ++k) {
    const double first = random.uniform(), second = random.uniform();
    const double z = std::sqrt(-2 * std::log1p(-first)) * std::cos(2 * std::numbers::pi * second);  // Box and Muller
    const double uniform = 1 + error.uniform * (2 * first - 1);
    factors.push_back(error.log_normal > 0 ? std::exp(error.log_normal * z) : uniform);
  }
  return factors;
}

std::unique_ptr<Policy> with_estimates(std::unique_ptr<Policy> policy, std::vector<double> factors) {
  return std::make_unique<Estimated>(std::move(policy), std::move(factors));
}

}  // namespace scalai::policy
