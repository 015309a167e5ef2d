#include "ptc/run/policy/policies/goodput/step_model.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr int kParameters = 7;
constexpr double kLeast = 1e-8;  // of the alphas and betas
constexpr double kMostGamma = 10;
// Added under the root: the error has a kink where it vanishes. Minimised with less and less of it.
constexpr std::array<double, 4> kSmoothing = {1e-4, 1e-6, 1e-8, 1e-10};
constexpr int kSteps = 40;  // with each

// Logarithms of the six times, and gamma.
using Point = std::array<double, kParameters>;

StepModel model_at(const Point& x) {
  return {std::exp(x[0]), std::exp(x[1]), std::exp(x[2]), std::exp(x[3]), std::exp(x[4]), std::exp(x[5]), x[6]};
}

struct Bounds {
  Point lower, upper;
  bool fixed(size_t k) const { return lower[k] >= upper[k]; }
};

Bounds bounds_of(std::span<const StepObservation> seen) {
  Bounds bounds;
  bounds.lower.fill(std::log(kLeast));
  bounds.upper.fill(std::log(1e6));
  bounds.lower[6] = 1;
  bounds.upper[6] = kMostGamma;
  bool one_batch = true, several_hosts = false, one_host = false, more_than_two = false;
  double passes = 0;
  for (const StepObservation& one : seen) {
    one_batch = one_batch && one.local == seen.front().local;
    several_hosts = several_hosts || one.hosts > 1;
    one_host = one_host || (one.hosts == 1 && one.gpus > 1);
    more_than_two = more_than_two || one.gpus > 2;
    passes += one.pass_s;
  }
  if (one_batch) {
    bounds.lower[0] = bounds.upper[0] = std::log(std::max(passes / static_cast<double>(seen.size()) / 2, kLeast));
  }
  const auto unseen = [&](size_t k) { bounds.upper[k] = bounds.lower[k]; };
  if (!several_hosts) unseen(2), unseen(3);
  if (!one_host) unseen(4), unseen(5);
  if (!more_than_two) unseen(3), unseen(5);
  return bounds;
}

double beyond_two(int gpus) { return std::max(gpus - 2.0, kLeast); }

// The objective and its gradient in Point's coordinates.
double objective(const Point& x, std::span<const StepObservation> seen, double smoothing, Point* gradient) {
  const StepModel model = model_at(x);
  const auto n = static_cast<double>(seen.size());
  double pass_square = 0, step_square = 0;
  Point pass_slope{}, step_slope{};  // of half the squares
  for (const StepObservation& one : seen) {
    const auto local = static_cast<double>(one.local);
    const double pass = model.pass_s(local), sync = model.sync_s(one.hosts, one.gpus);
    const double pass_off = std::log(pass) - std::log(one.pass_s);
    // In units of the larger one, so that no power overflows.
    const double large = std::max(pass, sync), g = model.gamma;
    const double a = std::pow(pass / large, g), b = std::pow(sync / large, g), sum = a + b;
    const double step_off = std::log(large) + std::log(sum) / g - std::log(one.step_s);
    pass_square += pass_off * pass_off;
    step_square += step_off * step_off;
    const double to_pass = a / sum / pass, to_sync = b / sum / sync;
    pass_slope[0] += pass_off / pass * model.alpha_c;
    pass_slope[1] += pass_off / pass * local * model.beta_c;
    step_slope[0] += step_off * to_pass * model.alpha_c;
    step_slope[1] += step_off * to_pass * local * model.beta_c;
    if (one.gpus > 1) {
      const size_t k = one.hosts > 1 ? 2 : 4;
      step_slope[k] += step_off * to_sync * (one.hosts > 1 ? model.alpha_n : model.alpha_r);
      step_slope[k + 1] += step_off * to_sync * beyond_two(one.gpus) * (one.hosts > 1 ? model.beta_n : model.beta_r);
    }
    step_slope[6] +=
        step_off * (-std::log(sum) / (g * g) + (a * std::log(pass / large) + b * std::log(sync / large)) / (sum * g));
  }
  const double pass_error = std::sqrt(pass_square / n + smoothing);
  const double step_error = std::sqrt(step_square / n + smoothing);
  const double net = model.beta_n / model.alpha_n, ring = model.beta_r / model.alpha_r;
  if (gradient != nullptr) {
    for (size_t k = 0; k < kParameters; ++k) {
      (*gradient)[k] = pass_slope[k] / (n * pass_error) + step_slope[k] / (n * step_error);
    }
    (*gradient)[6] += 2e-3 * (model.gamma - 1);
    (*gradient)[2] -= 2e-2 * net * net;
    (*gradient)[3] += 2e-2 * net * net;
    (*gradient)[4] -= 2e-2 * ring * ring;
    (*gradient)[5] += 2e-2 * ring * ring;
  }
  return pass_error + step_error + 1e-3 * (model.gamma - 1) * (model.gamma - 1) + 1e-2 * (net * net + ring * ring);
}

// Quasi-Newton (BFGS) within bounds: what lies on a bound and wants out is held.
class Minimiser {
 public:
  Minimiser(const Bounds& bounds, std::span<const StepObservation> seen, double smoothing)
      : bounds_(bounds), seen_(seen), smoothing_(smoothing) {}

  Point from(Point x) {
    Point slope;
    double value = objective(x, seen_, smoothing_, &slope);
    restart();
    for (int k = 0; k < kSteps; ++k) {
      const Point way = direction(x, slope);
      Point next = x, next_slope;
      const double found = line(x, value, slope, way, &next, &next_slope);
      if (found >= value) {
        if (fresh_) break;
        restart();
        continue;
      }
      const double gained = value - found;
      update(x, next, slope, next_slope);
      x = next;
      slope = next_slope;
      value = found;
      if (gained < 1e-9 && fresh_) break;
      if (gained < 1e-9) restart();
    }
    return x;
  }

 private:
  bool held(const Point& x, const Point& slope, size_t k) const {
    return bounds_.fixed(k) || (x[k] <= bounds_.lower[k] && slope[k] > 0) || (x[k] >= bounds_.upper[k] && slope[k] < 0);
  }

  void restart() {
    for (size_t a = 0; a < kParameters; ++a) {
      for (size_t b = 0; b < kParameters; ++b) inverse_[a][b] = a == b ? 1 : 0;
    }
    fresh_ = true;
  }

  Point direction(const Point& x, const Point& slope) {
    Point way{};
    double descent = 0;
    for (size_t a = 0; a < kParameters; ++a) {
      if (held(x, slope, a)) continue;
      for (size_t b = 0; b < kParameters; ++b) {
        if (!held(x, slope, b)) way[a] -= inverse_[a][b] * slope[b];
      }
      descent += way[a] * slope[a];
    }
    if (descent < 0) return way;
    restart();
    for (size_t a = 0; a < kParameters; ++a) way[a] = held(x, slope, a) ? 0 : -slope[a];
    return way;
  }

  // Halves the step until the value falls enough; the last value tried otherwise.
  double line(const Point& x, double value, const Point& slope, const Point& way, Point* next,
              Point* next_slope) const {
    double largest = 0;
    for (const double part : way) largest = std::max(largest, std::abs(part));
    double length = largest > 2 ? 2 / largest : 1;  // no more than a factor of e^2 at once
    double found = value;
    for (int k = 0; k < 25; ++k, length /= 2) {
      double expected = 0;
      for (size_t a = 0; a < kParameters; ++a) {
        (*next)[a] = bounds_.fixed(a) ? x[a] : std::clamp(x[a] + length * way[a], bounds_.lower[a], bounds_.upper[a]);
        expected += slope[a] * ((*next)[a] - x[a]);
      }
      found = objective(*next, seen_, smoothing_, next_slope);
      if (found <= value + 1e-4 * expected && found < value) return found;
    }
    return value;
  }

  void update(const Point& x, const Point& next, const Point& slope, const Point& next_slope) {
    Point s, y, hy{};
    double sy = 0, yhy = 0;
    for (size_t a = 0; a < kParameters; ++a) {
      s[a] = next[a] - x[a];
      y[a] = next_slope[a] - slope[a];
      sy += s[a] * y[a];
    }
    fresh_ = false;
    if (sy < 1e-12) return;
    for (size_t a = 0; a < kParameters; ++a) {
      for (size_t b = 0; b < kParameters; ++b) hy[a] += inverse_[a][b] * y[b];
      yhy += y[a] * hy[a];
    }
    for (size_t a = 0; a < kParameters; ++a) {
      for (size_t b = 0; b < kParameters; ++b) {
        inverse_[a][b] += (1 + yhy / sy) * s[a] * s[b] / sy - (hy[a] * s[b] + s[a] * hy[b]) / sy;
      }
    }
  }

  const Bounds& bounds_;
  std::span<const StepObservation> seen_;
  double smoothing_;
  std::array<Point, kParameters> inverse_{};
  bool fresh_ = true;
};

}  // namespace

double StepModel::sync_s(int hosts, int gpus) const {
  if (gpus < 2) return kLeast;
  return hosts > 1 ? alpha_n + beta_n * beyond_two(gpus) : alpha_r + beta_r * beyond_two(gpus);
}

double StepModel::step_s(double local, int hosts, int gpus) const {
  const double pass = pass_s(local), sync = sync_s(hosts, gpus);
  const double large = std::max(pass, sync), small = std::min(pass, sync);
  return large * std::pow(1 + std::pow(small / large, gamma), 1 / gamma);
}

StepModel fit_step_model(std::span<const StepObservation> seen) {
  SCALAI_CHECK(!seen.empty());
  const Bounds bounds = bounds_of(seen);
  Point x = {std::log(0.1), std::log(0.01), std::log(0.1), std::log(0.01), std::log(0.1), std::log(0.01), 1.001};
  for (size_t k = 0; k < kParameters; ++k) x[k] = std::clamp(x[k], bounds.lower[k], bounds.upper[k]);
  for (const double smoothing : kSmoothing) x = Minimiser(bounds, seen, smoothing).from(x);
  StepModel model = model_at(x);
  const bool several_hosts =
      std::any_of(seen.begin(), seen.end(), [](const StepObservation& one) { return one.hosts > 1; });
  if (!several_hosts) {
    model.alpha_n = std::max(model.alpha_n, model.alpha_r * 1.1);
    model.beta_n = std::max(model.beta_n, model.beta_r * 1.1);
  }
  return model;
}

double step_model_error(const StepModel& model, std::span<const StepObservation> seen) {
  return objective({std::log(model.alpha_c), std::log(model.beta_c), std::log(model.alpha_n), std::log(model.beta_n),
                    std::log(model.alpha_r), std::log(model.beta_r), model.gamma},
                   seen, 0, nullptr);
}

double believed_goodput(const StepModel& model, const GradientNoise& noise, int64_t initial_batch,
                        std::span<const BatchCut> cuts, int hosts, int gpus) {
  double best = 0;
  for (const BatchCut& cut : cuts) {
    const auto local = static_cast<double>(cut.local);
    const double scale =
        local * static_cast<double>(gpus * (cut.accumulation + 1)) / static_cast<double>(initial_batch);
    const double seconds =
        static_cast<double>(cut.accumulation) * model.pass_s(local) + model.step_s(local, hosts, gpus);
    best = std::max(best, step_gain(noise, scale) / seconds);
  }
  return best;
}

}  // namespace scalai::policy
