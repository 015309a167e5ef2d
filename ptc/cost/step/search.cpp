#include "ptc/cost/step/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <queue>
#include <tuple>

#include "ptc/base/status.h"
#include "ptc/cost/step/internal/idle_gpus.h"
#include "ptc/cost/step/internal/no_fit.h"
#include "ptc/cost/step/internal/search_space.h"

namespace scalai::step {
namespace {

using internal::Bound;
using internal::Point;

constexpr double kSecondsAnHour = 3600;

// Shares of a GPU's power limit. Training draws the limit while it computes and falls to half of it or less where it
// waits for others (GPT-NeoX; Patel et al., ASPLOS'24, on power in LLM clusters): half for communication, which also
// moves data, and a fifth, an idle GPU's, in the bubble.
constexpr double kComputing = 1, kCommunicating = 0.5, kWaiting = 0.2;

// What a GPU costs an hour and draws while it computes.
struct Rates {
  double price = 1, power_w = 1;
};

// GPU-seconds weighed by an objective.
double weigh(Objective objective, const Rates& rates, int gpus, double computing_s, double communicating_s,
             double waiting_s) {
  const double all_s = computing_s + communicating_s + waiting_s;
  switch (objective) {
    case Objective::kThroughput:
    case Objective::kPayOff: return all_s;
    case Objective::kCost: return gpus * rates.price * all_s / kSecondsAnHour;
    case Objective::kEnergy: break;
  }
  return gpus * rates.power_w * (kComputing * computing_s + kCommunicating * communicating_s + kWaiting * waiting_s);
}

std::vector<cluster::Host> kinds_of(const SearchSpace& space) {
  return space.host_kinds.empty() ? std::vector<cluster::Host>{space.host} : space.host_kinds;
}

// Of a step with another batch: so much more of it has as many samples as the space's batch.
double scale_of(const SearchSpace& space, int global_batch) {
  return static_cast<double>(space.base.global_batch) / global_batch;
}

// No configuration pays less for a GPU.
Rates least_rates(const SearchSpace& space) {
  constexpr double kMost = std::numeric_limits<double>::max();
  Rates least{.price = kMost, .power_w = kMost};
  for (const cluster::Host& host : kinds_of(space)) {
    least.price = std::min(least.price, host.price_per_hour / host.gpus);
    least.power_w = std::min(least.power_w, host.gpu.power_w);
  }
  return {.price = knows_price(space) ? least.price : 1, .power_w = knows_power(space) ? least.power_w : 1};
}

double mean_power_w(const Hardware& hardware) {
  double sum_w = 0, gpus = 0;
  for (const GpuCount& some : hardware.gpus) {
    sum_w += some.gpu.power_w * some.count;
    gpus += some.count;
  }
  if (gpus > 0) return sum_w / gpus;
  // Stages have as many ranks each.
  for (const StageGpu& stage : hardware.stages) sum_w += stage.gpu.power_w;
  return sum_w / static_cast<double>(hardware.stages.size());
}

constexpr int64_t kPointsATime = 4096;  // between reports of progress

// Steps that come to nothing within the horizon: the score of a change that takes longer.
constexpr double kNever = std::numeric_limits<double>::infinity();

// How far a point has got. In ties of the key what may still turn out as good comes first.
enum class Stage : uint8_t { kBounded, kPriced, kReached };

struct Entry {
  double key = 0;  // no score of this point is less
  Stage stage = Stage::kBounded;
  double step_s = 0;
  Point point;
  int candidate = -1;  // from kPriced on
};

struct Later {
  bool operator()(const Entry& a, const Entry& b) const {
    const auto key = [](const Entry& e) { return std::make_tuple(e.key, e.stage, e.step_s); };
    return key(a) == key(b) ? internal::goes_first(b.point, a.point) : key(b) < key(a);
  }
};

// Best first: points wait in the order of the least that their score can be; whichever is first is looked at more
// closely. Once its score is final and it is still first, nothing else can be better.
class Search {
 public:
  Search(const ModelShape& model, const SearchSpace& space) : model_(model), space_(space) {}

  SearchResult run() {
    collect();
    while (!queue_.empty() && std::ssize(result_.best) < space_.keep) {
      const Entry entry = queue_.top();
      queue_.pop();
      if (space_.progress && ++looked_at_ % kPointsATime == 0) space_.progress(looked_at_, result_.points);
      if (entry.stage == Stage::kBounded) price(entry.point);
      if (entry.stage == Stage::kPriced) reach(entry);
      if (entry.stage == Stage::kReached) result_.best.push_back(candidates_[static_cast<size_t>(entry.candidate)]);
    }
    result_.bounded_away = result_.points - result_.priced - result_.too_large;
    if (result_.too_large > 0 && result_.priced == 0) result_.no_fit = internal::explain(model_, space_, least_);
    return std::move(result_);
  }

 private:
  void collect() {
    const Bound bound(model_, space_);
    const Rates rates = least_rates(space_);
    std::vector<Entry> entries;
    internal::for_each_point(model_, space_, [&](const Point& point) {
      const Bound::Least least = bound.of(point);
      const double key = weigh(space_.objective, rates, point.gpus(), least.work_s, 0, least.wait_s);
      entries.push_back({.key = key, .step_s = least.step_s(), .point = point});
    });
    result_.points = std::ssize(entries);
    queue_ = Queue(Later(), std::move(entries));
  }

  void price(const Point& point) {
    Candidate candidate;
    candidate.config = internal::config_of(point, space_);
    candidate.training = internal::training_of(point, space_);
    const Workload workload{model_, candidate.config, candidate.training};
    candidate.memory_bytes = memory_bytes(workload);
    if (candidate.memory_bytes > static_cast<double>(internal::memory_limit(space_))) {
      ++result_.too_large;
      least_.consider(point, candidate.memory_bytes);
      return;
    }
    ++result_.priced;
    const Hardware& hardware = hardware_of(point, candidate.config);
    candidate.time = step_time(workload, hardware);
    candidate.score = score_of(space_, candidate, hardware);
    const bool final = space_.objective != Objective::kPayOff;
    queue_.push({.key = final ? candidate.score : after_change(even_step_s(space_, candidate), space_.least_change_s),
                 .stage = final ? Stage::kReached : Stage::kPriced,
                 .step_s = even_step_s(space_, candidate),
                 .point = point,
                 .candidate = static_cast<int>(candidates_.size())});
    candidates_.push_back(std::move(candidate));
  }

  void reach(Entry entry) {
    Candidate& candidate = candidates_[static_cast<size_t>(entry.candidate)];
    candidate.change = change_of(candidate);
    if (!candidate.change) {
      ++result_.unreachable;
      return;
    }
    candidate.score = after_change(even_step_s(space_, candidate), candidate.change->reconfiguration_s);
    if (space_.stay_step_s)
      candidate.pay_off_steps =
          pay_off_steps(*space_.stay_step_s, even_step_s(space_, candidate), candidate.change->reconfiguration_s);
    entry.key = candidate.score;
    entry.stage = Stage::kReached;
    queue_.push(entry);
  }

  // The horizon over the steps that a change leaves in it.
  double after_change(double step_s, double change_s) const {
    const double left_s = space_.horizon_s - change_s;
    return left_s > 0 ? step_s * space_.horizon_s / left_s : kNever;
  }

  // Micro-batch and recomputation move no state.
  std::optional<Change> change_of(const Candidate& candidate) {
    if (!space_.change) return Change{};
    const auto [at, fresh] = changes_.try_emplace(canonical(candidate.config));
    if (fresh) at->second = space_.change(candidate);
    return at->second;
  }

  const Hardware& hardware_of(const Point& p, const collection::ParallelConfig& config) {
    const auto [at, fresh] = hardware_.try_emplace({p.tp, p.pp, p.dp, p.cp, p.ep, p.etp});
    if (fresh) at->second = space_.hardware ? space_.hardware(config) : uniform_hardware(space_.host, config);
    return at->second;
  }

  using Queue = std::priority_queue<Entry, std::vector<Entry>, Later>;
  const ModelShape& model_;
  const SearchSpace& space_;
  SearchResult result_;
  int64_t looked_at_ = 0;
  Queue queue_;
  std::vector<Candidate> candidates_;
  internal::LeastMemory least_;
  std::map<std::tuple<int, int, int, int, int, int>, Hardware> hardware_;
  std::map<std::string, std::optional<Change>> changes_;
};

}  // namespace

bool knows_price(const SearchSpace& space) {
  const std::vector<cluster::Host> kinds = kinds_of(space);
  return std::all_of(kinds.begin(), kinds.end(),
                     [](const cluster::Host& host) { return host.price_per_hour > 0 && host.gpus > 0; });
}

bool knows_power(const SearchSpace& space) {
  const std::vector<cluster::Host> kinds = kinds_of(space);
  return std::all_of(kinds.begin(), kinds.end(), [](const cluster::Host& host) { return host.gpu.power_w > 0; });
}

double even_step_s(const SearchSpace& space, const Candidate& candidate) {
  return candidate.time.step_s * scale_of(space, candidate.training.global_batch);
}

double score_of(const SearchSpace& space, const Candidate& candidate, const Hardware& hardware) {
  const StepTime& time = candidate.time;
  Rates rates;
  if (space.objective == Objective::kCost && knows_price(space)) rates.price = hardware.price_per_gpu_hour;
  if (space.objective == Objective::kEnergy && knows_power(space)) rates.power_w = mean_power_w(hardware);
  const double communicating_s = time.tp_s + time.cp_s + time.ep_s + time.pipeline_s + time.gradients_s;
  const double computing_s = time.step_s - communicating_s - time.bubble_s;
  return weigh(space.objective, rates, candidate.config.world(), computing_s, communicating_s, time.bubble_s) *
         scale_of(space, candidate.training.global_batch);
}

std::optional<double> pay_off_steps(double old_step_s, double new_step_s, double reconfiguration_s) {
  const double gain_s = old_step_s - new_step_s;
  const double steps = reconfiguration_s / gain_s;
  if (gain_s <= 0 || !std::isfinite(steps)) return std::nullopt;
  return steps;
}

absl::StatusOr<SearchResult> search(const ModelShape& model, const SearchSpace& space) {
  SCALAI_RETURN_IF_ERROR(check_space(model, space));
  SearchResult result = Search(model, space).run();
  if (result.points == 0) return invalid(internal::why_empty(model, space));
  if (space.explain_idle && !result.best.empty()) result.idle = internal::why_idle(model, space, result.best.front());
  return result;
}

}  // namespace scalai::step
