#include "sim/jobs/internal/training_shares.h"

#include <algorithm>
#include <limits>

#include "ptc/base/status.h"
#include "sim/internal/at.h"

namespace scalai::sim {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::max();
constexpr double kLeast = 1e-9;  // of a link: only rounding leaves less

}  // namespace

TrainingShares::TrainingShares(const std::vector<double>& capacities)
    : capacities_(capacities), base_(capacities), got_(capacities), use_(capacities.size(), 0) {}

void TrainingShares::add_change(const std::vector<int>& links) {
  const auto [known, fresh] = change_classes_.try_emplace(links, -1);
  if (fresh) known->second = got_.add_class(links);
  got_.set_count(known->second, got_.count(known->second) + 1);
}

void TrainingShares::remove_change(const std::vector<int>& links) {
  const int known = change_classes_.at(links);
  got_.set_count(known, got_.count(known) - 1);
}

TrainingShares::Own TrainingShares::take(const Flow& flow) {
  std::vector<Own>& spare = spare_[flow.links];
  Own own;
  if (spare.empty()) {
    own.link = base_.add_link(kUnbounded);
    SCALAI_CHECK(got_.add_link(kUnbounded) == own.link);
    std::vector<int> links = flow.links;
    links.push_back(own.link);
    own.base_class = base_.add_class(links);
    own.got_class = got_.add_class(links);
  } else {
    own = spare.back();
    spare.pop_back();
  }
  const double bound = flow.bytes_per_s > 0 ? flow.bytes_per_s : kUnbounded;
  for (change::FairShares* shares : {&base_, &got_}) shares->set_capacity(own.link, bound);
  base_.set_count(own.base_class, 1);
  got_.set_count(own.got_class, 1);
  return own;
}

void TrainingShares::add(policy::JobId id, const Job& job) {
  const auto [entry, fresh] =
      active_.try_emplace(id, Active{.job = &job, .own = {}, .used = std::vector<double>(job.flows.size(), 0)});
  SCALAI_CHECK(fresh, "the job's flows are there already");
  for (const Flow& flow : job.flows) entry->second.own.push_back(take(flow));
}

void TrainingShares::remove(policy::JobId id) {
  const auto found = active_.find(id);
  SCALAI_CHECK(found != active_.end(), "the job's flows are not there");
  Active& active = found->second;
  if (active.step_rate != 1) ++version_;
  for (size_t f = 0; f < active.own.size(); ++f) {
    use(active, f, 0);
    base_.set_count(active.own[f].base_class, 0);
    got_.set_count(active.own[f].got_class, 0);
    spare_[active.job->flows[f].links].push_back(active.own[f]);
  }
  active_.erase(found);
}

// Where a step's flows do not fit into it even by themselves, the closed form knows better how they share their links.
double TrainingShares::step_rate_of(const Active& active) const {
  const double step_s = active.job->step_s;
  double longer = 1, busy_s = 0;
  for (size_t f = 0; f < active.own.size(); ++f) {
    const double base = base_.rate(active.own[f].base_class), got = got_.rate(active.own[f].got_class);
    const double ratio = std::max(1.0, base / got);
    longer = std::max(longer, ratio);
    busy_s = std::max(busy_s, std::min(active.job->flows[f].bytes / base, step_s) * ratio);
  }
  return step_s / std::max(step_s + active.job->exposed_s * (longer - 1), busy_s);
}

void TrainingShares::use(Active& active, size_t flow, double bytes_per_s) {
  const double more = bytes_per_s - active.used[flow];
  if (more == 0) return;
  active.used[flow] = bytes_per_s;
  for (const int link : active.job->flows[flow].links) {
    use_[at(link)] += more;
    touched_.push_back(link);
  }
}

std::vector<change::LinkRate> TrainingShares::update() {
  base_.update();
  got_.update();
  for (auto& [id, active] : active_) {
    const double step_rate = step_rate_of(active);
    if (step_rate != active.step_rate) ++version_;
    active.step_rate = step_rate;
    for (size_t f = 0; f < active.own.size(); ++f) {
      const double average = active.job->flows[f].bytes * step_rate / active.job->step_s;
      use(active, f, std::min(average, got_.rate(active.own[f].got_class)));
    }
  }
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  std::vector<change::LinkRate> left;
  for (const int link : touched_) {
    double& use = use_[at(link)];
    if (active_.empty()) use = 0;  // sums of what was added and taken away again leave rounding behind
    const double capacity = capacities_[at(link)];
    left.push_back({.link = link, .bytes_per_s = std::clamp(capacity - use, capacity * kLeast, capacity)});
  }
  touched_.clear();
  return left;
}

double TrainingShares::step_rate(policy::JobId id) const {
  const auto found = active_.find(id);
  return found == active_.end() ? 1 : found->second.step_rate;
}

}  // namespace scalai::sim
