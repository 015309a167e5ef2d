#include "sim/jobs/recovery/liveput.h"

#include <algorithm>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::jobs {
namespace {

double binomial(int n, int k) {
  if (k < 0 || k > n) return 0;
  double product = 1;
  for (int i = 1; i <= std::min(k, n - k); ++i) product = product * (n - i + 1) / i;
  return product;
}

// Stages that lose all their hosts, on average.
double stages_wiped(int hosts, PipelineLayout layout, int out) {
  return layout.pp * binomial(hosts - layout.dp, out - layout.dp) / binomial(hosts, out);
}

}  // namespace

std::function<double(PipelineLayout, bool grows)> gpt_regroup(double grow_s, double shrink_s) {
  return [grow_s, shrink_s](PipelineLayout layout, bool grows) {
    const int groups = layout.dp + layout.pp + 1 + layout.hosts();
    return 0.035 + groups * (grows ? grow_s : shrink_s);
  };
}

double stages_keep(int hosts, int stages, int size, int keep, int out) {
  SCALAI_CHECK(stages * size <= hosts && out >= 0 && out <= hosts);
  if (keep > size) return 0;
  // ways[v]: choices of v victims among the stages so far, at most size - keep in each.
  std::vector<double> ways(static_cast<size_t>(out) + 1, 0.0);
  ways[0] = 1;
  for (int stage = 0; stage < stages; ++stage) {
    for (int victims = out; victims >= 0; --victims) {
      double sum = 0;
      for (int here = 0; here <= std::min(size - keep, victims); ++here) {
        sum += binomial(size, here) * ways[static_cast<size_t>(victims - here)];
      }
      ways[static_cast<size_t>(victims)] = sum;
    }
  }
  double good = 0;
  for (int victims = 0; victims <= out; ++victims) {
    good += ways[static_cast<size_t>(victims)] * binomial(hosts - stages * size, out - victims);
  }
  return good / binomial(hosts, out);
}

// Of one layout after an interval, reached in the best way: trains at its end, or is still paused.
struct Liveput::Value {
  bool reached = false;
  double samples = 0;
  double pause_s = 0;       // > 0: not yet over
  PipelineLayout previous;  // layout one interval before
  PipelineLayout first;     // layout of the first interval on the way
  PipelineLayout layout;
};

Liveput::Liveput(LiveputModel model, double interval_s) : model_(std::move(model)), interval_s_(interval_s) {
  SCALAI_CHECK(interval_s_ > 0);
  for (const auto& [layout, rate] : model_.samples_per_s) {
    if (rate > 0) layouts_.push_back(layout);
  }
}

double Liveput::throughput(PipelineLayout layout) const {
  const auto found = model_.samples_per_s.find(layout);
  return found == model_.samples_per_s.end() ? 0 : found->second;
}

PipelineLayout Liveput::best(int hosts) const {
  PipelineLayout best;
  for (const PipelineLayout& layout : layouts_) {
    if (layout.hosts() <= hosts && throughput(layout) > throughput(best)) best = layout;
  }
  return best;
}

double Liveput::regroup_s(PipelineLayout layout, bool grows) const {
  return model_.regroup_s ? model_.regroup_s(layout, grows) : 0;
}

double Liveput::build_s(int pp) const {
  const auto after = model_.build_s.upper_bound(pp);
  if (after == model_.build_s.begin()) return model_.build_s.empty() ? 0 : after->second;
  return std::prev(after)->second;
}

double Liveput::transfer_s(double bytes) const {
  if (model_.p2p_s.empty() || bytes <= 0) return 0;
  const auto right = model_.p2p_s.lower_bound(bytes);
  if (right == model_.p2p_s.begin()) return right->second;
  const auto left = std::prev(right);
  if (right == model_.p2p_s.end()) return bytes / left->first * left->second;
  return left->second + (right->second - left->second) * (bytes - left->first) / (right->first - left->first);
}

double Liveput::restart_s(PipelineLayout layout, bool grows) const {
  const double together = grows ? model_.rendezvous_s + model_.extra_grow_s : 0;
  return together + regroup_s(layout, grows) + model_.process_s + build_s(layout.pp);
}

double Liveput::migration_s(int hosts, PipelineLayout from, int /*in*/, int out, PipelineLayout to) const {
  if (from == to && out == 0) return 0;
  const double stage_s = transfer_s(model_.state_bytes / to.pp);
  const double restart = restart_s(to, to.hosts() > from.hosts() - out);
  if (from.pp == to.pp) {
    const double keep = stages_keep(hosts, from.pp, from.dp, to.dp, out);
    const double intra = regroup_s(to, false) + model_.process_s;
    if (keep >= 1) return intra;
    // A stage that nobody has left comes from a backup; several of them one after the other.
    const double wiped = std::max(1.0, stages_wiped(hosts, from, out) / (1 - keep));
    return keep * intra + (1 - keep) * (stage_s * wiped + restart);
  }
  // A host of the old pipeline holds at most this much of a new stage.
  const double held = from.pp == 0 ? 0 : std::min(1.0 / from.pp, 1.0 / to.pp);
  const double fetch = from.pp == 0 ? 0 : transfer_s(model_.state_bytes * (1.0 / to.pp - held));
  return fetch + (to.dp > 1 ? stage_s : 0) + restart;
}

std::vector<Liveput::Value> Liveput::step(const std::vector<Value>& now, int hosts, const HostInterval& next) const {
  std::vector<Value> running(layouts_.size());
  std::vector<Value> paused(layouts_.size());
  for (const Value& value : now) {
    for (size_t i = 0; i < layouts_.size(); ++i) {
      const PipelineLayout to = layouts_[i];
      if (to.hosts() > next.hosts) continue;
      double cost = migration_s(hosts, value.layout, next.in, next.out, to);
      if (value.pause_s > 0) cost = cost > 0 ? cost + restart_s(to, false) : value.pause_s;
      Value after{.reached = true,
                  .samples = value.samples + throughput(to) * std::max(0.0, interval_s_ - cost),
                  .pause_s = std::max(0.0, cost - interval_s_),
                  .previous = value.layout,
                  .first = value.first.hosts() > 0 ? value.first : to,
                  .layout = to};
      Value& best = after.pause_s > 0 ? paused[i] : running[i];
      const bool better =
          !best.reached || after.samples > best.samples ||
          (after.samples == best.samples &&
           (after.pause_s < best.pause_s || (after.pause_s == best.pause_s && after.previous.pp < best.previous.pp)));
      if (better) best = after;
    }
  }
  running.insert(running.end(), paused.begin(), paused.end());
  std::erase_if(running, [](const Value& value) { return !value.reached; });
  return running;
}

PipelineLayout Liveput::plan(int hosts, PipelineLayout from, double pause_left_s,
                             std::span<const HostInterval> ahead) const {
  std::vector<Value> values{
      {.reached = true, .samples = 0, .pause_s = pause_left_s, .previous = {}, .first = {}, .layout = from}};
  for (const HostInterval& interval : ahead) {
    std::vector<Value> next = step(values, hosts, interval);
    hosts = interval.hosts;
    if (next.empty()) break;  // nothing runs there: what is best until then counts
    values = std::move(next);
  }
  const Value* best = &values.front();
  for (const Value& value : values) {
    if (value.samples > best->samples || (value.samples == best->samples && value.pause_s < best->pause_s)) {
      best = &value;
    }
  }
  return best->first;
}

namespace {

// Parcae's cleaning: what leaves a value for at most three intervals and comes back did not happen; what lies before
// the last lowest (or else highest) point inside did not happen either.
std::vector<double> cleaned(std::span<const int> past) {
  std::vector<double> values(past.begin(), past.end());
  for (size_t size = 3; size > 0; --size) {
    for (size_t i = 0; i + 1 + size < values.size(); ++i) {
      if (values[i] != values[i + 1 + size]) continue;
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i) + 1;
      const auto end = begin + static_cast<std::ptrdiff_t>(size);
      if (std::find(begin, end, values[i]) == end) std::fill(begin, end, values[i]);
    }
  }
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double ends_low = std::min(values.front(), values.back());
  const double ends_high = std::max(values.front(), values.back());
  if (*low >= ends_low && *high <= ends_high) return values;
  const double target = *low < ends_low ? *low : *high;
  const auto last = std::find(values.rbegin(), values.rend(), target);
  std::fill(values.begin(), last.base(), target);
  return values;
}

}  // namespace

std::vector<int> forecast_hosts(std::span<const int> past, int count, int at_least, int at_most) {
  SCALAI_CHECK(!past.empty() && count >= 0 && at_least <= at_most);
  std::vector<int> result(static_cast<size_t>(count), std::clamp(past.back(), at_least, at_most));
  if (past.size() < 7) return result;
  const std::vector<double> values = cleaned(past);
  std::vector<double> steps;
  for (size_t i = 1; i < values.size(); ++i) steps.push_back(values[i] - values[i - 1]);
  double before = 0, after = 0;
  const double pairs = static_cast<double>(steps.size() - 1);
  for (size_t i = 1; i < steps.size(); ++i) before += steps[i - 1] / pairs, after += steps[i] / pairs;
  double product = 0, square = 0;
  for (size_t i = 1; i < steps.size(); ++i) {
    product += (steps[i - 1] - before) * (steps[i] - after);
    square += (steps[i - 1] - before) * (steps[i - 1] - before);
  }
  const double phi = square > 0 ? std::clamp(product / square, -0.99, 0.99) : 0;
  const double constant = after - phi * before;
  double level = values.back();
  double change = steps.back();
  double first = 0;
  for (size_t k = 0; k < result.size(); ++k) {
    change = constant + phi * change;
    level += change;
    const double rounded = std::nearbyint(level);
    if (k == 0) first = rounded;
    const double bounded = std::clamp(rounded, first - 3, first + 3);
    result[k] = std::clamp(static_cast<int>(bounded), at_least, at_most);
  }
  return result;
}

}  // namespace scalai::jobs
