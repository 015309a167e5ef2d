#include "ptc/run/policy/policies/order/tiresias.h"

#include <algorithm>

#include "ptc/run/policy/policies/order/by_length.h"
#include "ptc/run/policy/policies/order/ordered.h"

namespace scalai::policy::order {
namespace {

constexpr double kHour = 3600;
// A threshold counts as reached when only rounding of the sum is missing.
constexpr double kRounding = 1e-9;

class LeastAttained : public Order {
 public:
  LeastAttained(std::vector<double> thresholds_gpu_s, double promote)
      : thresholds_(std::move(thresholds_gpu_s)), promote_(promote) {}

  double key(const View& view, JobId id) override {
    const Progress progress = view.progress(id);
    State& state = state_of(id);
    if (promote_due(view, id, progress)) {
      state.forgiven_gpu_s = progress.attained_gpu_s;
      state.forgiven_s = progress.executed_s;
    }
    return static_cast<double>(queue_of(progress.attained_gpu_s - state.forgiven_gpu_s));
  }

  double jump_s(const View& view, JobId id, bool runs) override {
    const Progress progress = view.progress(id);
    const State& state = state_of(id);
    const double attained = progress.attained_gpu_s - state.forgiven_gpu_s;
    const size_t queue = queue_of(attained);
    if (!runs) return promote_ > 0 && queue > 0 ? promote_s(view, state, progress) : kNever;
    if (queue == thresholds_.size()) return kNever;
    return view.now_s() + (thresholds_[queue] - attained) / view.job(id).gpus;
  }

 private:
  struct State {
    double forgiven_gpu_s = 0, forgiven_s = 0;  // service before the last promotion
  };

  State& state_of(JobId id) {
    if (states_.size() <= static_cast<size_t>(id.value)) states_.resize(static_cast<size_t>(id.value) + 1);
    return states_[static_cast<size_t>(id.value)];
  }

  size_t queue_of(double attained) const {
    size_t queue = 0;
    while (queue < thresholds_.size() && attained >= thresholds_[queue] * (1 - kRounding)) ++queue;
    return queue;
  }

  // When a waiting job goes back to the first queue. One that is being stopped just now still has its GPUs.
  double promote_s(const View& view, const State& state, const Progress& progress) const {
    const double left_s = progress.placement.empty() ? progress.last_change_s : view.now_s();
    return left_s + promote_ * (progress.executed_s - state.forgiven_s);
  }

  bool promote_due(const View& view, JobId id, const Progress& progress) {
    const State& state = state_of(id);
    return promote_ > 0 && progress.placement.empty() && progress.executed_s > state.forgiven_s &&
           view.now_s() >= promote_s(view, state, progress);
  }

  std::vector<double> thresholds_;
  double promote_;
  std::vector<State> states_;
};

class Gittins : public Order {
 public:
  explicit Gittins(double quantum_gpu_s) : quantum_(quantum_gpu_s) {}

  double key(const View& view, JobId id) override {
    const double attained = view.progress(id).attained_gpu_s;
    if (finished_.empty()) return attained;
    return -gittins_index(finished_, attained, quantum_);
  }
  bool drifts() const override { return true; }
  double wake_every_s() const override { return quantum_ / 4; }
  void finished(const View& view, JobId id) override {
    const double service = view.progress(id).attained_gpu_s;
    finished_.insert(std::upper_bound(finished_.begin(), finished_.end(), service), service);
  }

 private:
  double quantum_;
  std::vector<double> finished_;  // services, sorted
};

constexpr PolicyTraits kTiresiasTraits = {.preemptive = true, .work_conserving = true};

std::unique_ptr<Policy> make_tiresias(const Parameters& parameters, uint64_t) {
  OrderedOptions options{.mode = FillMode::kPreemptive};
  options.fastest = parameters.text("types") == "fastest";
  if (parameters.flag("gittins")) {
    return make_ordered(std::make_unique<Gittins>(std::max(1.0, parameters.number("quantum") * kHour)), options,
                        kTiresiasTraits);
  }
  std::vector<double> thresholds;
  for (const char* name : {"threshold", "threshold-2", "threshold-3"}) {
    const double gpu_s = parameters.number(name) * kHour;
    if (gpu_s > 0) thresholds.push_back(gpu_s);
  }
  std::sort(thresholds.begin(), thresholds.end());
  return make_ordered(std::make_unique<LeastAttained>(std::move(thresholds), parameters.number("promote")), options,
                      kTiresiasTraits);
}

}  // namespace

double gittins_index(const std::vector<double>& finished, double attained, double quantum) {
  const auto longer = std::upper_bound(finished.begin(), finished.end(), attained);
  if (longer == finished.end()) return 0;
  double ends = 0, served = 0;
  for (auto it = longer; it != finished.end(); ++it) {
    ends += *it - attained <= quantum ? 1 : 0;
    served += std::min(*it - attained, quantum);
  }
  return ends / served;
}

std::vector<PolicyInfo> attained_policies() {
  return {
      {.name = "tiresias",
       .family = "order",
       .summary = "least attained GPU time first, in queues, preemptive at arrivals, completions and demotions",
       .source = "Tiresias, NSDI'19; default threshold as in Pollux's emulation",
       .parameters = {{.name = "threshold",
                       .default_value = "16",
                       .unit = "GPU-hours",
                       .help = "attained service at which a job leaves the first queue (0 = no such queue)"},
                      {.name = "threshold-2",
                       .default_value = "0",
                       .unit = "GPU-hours",
                       .help = "and the second (0 = no such queue)"},
                      {.name = "threshold-3",
                       .default_value = "0",
                       .unit = "GPU-hours",
                       .help = "and the third (0 = no such queue)"},
                      {.name = "promote",
                       .default_value = "0",
                       .unit = "ratio",
                       .help =
                           "PROMOTEKNOB: back to the first queue after waiting so many times its run time; 0 = never"},
                      {.name = "gittins",
                       .default_value = "false",
                       .unit = "flag",
                       .help = "order by the 2D-Gittins index over the services of jobs that finished"},
                      {.name = "quantum", .default_value = "1", .unit = "GPU-hours", .help = "of the Gittins index"},
                      types_parameter()},
       .traits = kTiresiasTraits,
       .make = make_tiresias}};
}

}  // namespace scalai::policy::order
