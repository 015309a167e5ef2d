#include "labs/validation/policies/small/best_shares.h"

#include <algorithm>
#include <numeric>

#include "labs/validation/policies/small/vertices.h"

namespace scalai::policy::small {
namespace {

double all_gpus(const ShareCase& one) { return std::accumulate(one.gpus.begin(), one.gpus.end(), 0.0); }

// The allowed shares, with `more` columns behind those of X (job by job).
class Space {
 public:
  Space(const ShareCase& one, size_t more) : one_(one), types_(one.gpus.size()) {
    columns_ = one.jobs.size() * types_ + more;
    program.objective.assign(columns_, 0);
    for (size_t m = 0; m < one.jobs.size(); ++m) {
      std::vector<double> time = zeros();
      for (size_t j = 0; j < types_; ++j) {
        time[m * types_ + j] = 1;
        if (one.jobs[m].rates[j] > 0) continue;
        std::vector<double> none = zeros();
        none[m * types_ + j] = 1;
        program.at_most(none, 0);
      }
      program.at_most(time, 1);
    }
    for (size_t j = 0; j < types_; ++j) {
      std::vector<double> used = zeros();
      for (size_t m = 0; m < one.jobs.size(); ++m) used[m * types_ + j] = one.jobs[m].gpus;
      program.at_most(used, one.gpus[j]);
    }
  }

  std::vector<double> zeros() const { return std::vector<double>(columns_, 0); }
  // factor × rate of job m.
  std::vector<double> rate(size_t m, double factor) const {
    std::vector<double> row = zeros();
    for (size_t j = 0; j < types_; ++j) row[m * types_ + j] = factor * one_.jobs[m].rates[j];
    return row;
  }

  SmallProgram program;

 private:
  const ShareCase& one_;
  size_t types_, columns_ = 0;
};

double level_factor(const ShareCase& one, const ShareCase::Job& job) {
  double equal = 0;
  for (size_t j = 0; j < one.gpus.size(); ++j) equal += job.rates[j] * one.gpus[j] / all_gpus(one);
  return job.gpus / job.weight / equal;
}

}  // namespace

bool allowed(const ShareCase& one, const ShareTable& shares) {
  constexpr double kSlack = 1e-7;
  std::vector<double> used(one.gpus.size(), 0);
  for (size_t m = 0; m < one.jobs.size(); ++m) {
    double time = 0;
    for (size_t j = 0; j < used.size(); ++j) {
      if (shares[m][j] < 0 || (one.jobs[m].rates[j] <= 0 && shares[m][j] > 0)) return false;
      time += shares[m][j];
      used[j] += one.jobs[m].gpus * shares[m][j];
    }
    if (time > 1 + kSlack) return false;
  }
  for (size_t j = 0; j < used.size(); ++j) {
    if (used[j] > one.gpus[j] + kSlack) return false;
  }
  return true;
}

std::vector<double> rates_of(const ShareCase& one, const ShareTable& shares) {
  std::vector<double> rates;
  for (size_t m = 0; m < one.jobs.size(); ++m)
    rates.push_back(std::inner_product(shares[m].begin(), shares[m].end(), one.jobs[m].rates.begin(), 0.0));
  return rates;
}

std::vector<double> levels_of(const ShareCase& one, const std::vector<double>& rates) {
  std::vector<double> levels;
  for (size_t m = 0; m < one.jobs.size(); ++m) levels.push_back(level_factor(one, one.jobs[m]) * rates[m]);
  std::sort(levels.begin(), levels.end());
  return levels;
}

std::vector<double> fairest_levels(const ShareCase& one) {
  const size_t jobs = one.jobs.size();
  Space space(one, 1);
  const size_t least = space.program.objective.size() - 1;
  space.program.objective[least] = 1;
  std::vector<double> levels;
  double before = 0;
  for (size_t k = 1; k <= jobs; ++k) {
    Space now = space;
    std::vector<std::vector<double>> sums;
    for (unsigned set = 0; set < (1U << jobs); ++set) {
      std::vector<double> sum = space.zeros();
      size_t members = 0;
      for (size_t m = 0; m < jobs; ++m) {
        if ((set >> m & 1U) == 0) continue;
        ++members;
        const std::vector<double> rate = space.rate(m, level_factor(one, one.jobs[m]));
        for (size_t j = 0; j < sum.size(); ++j) sum[j] += rate[j];
      }
      if (members == k) sums.push_back(std::move(sum));
    }
    for (std::vector<double> sum : sums) {
      sum[least] = -1;
      now.program.at_least(std::move(sum), 0);
    }
    const double best = best_corner(now.program)->value;
    levels.push_back(best - before);
    before = best;
    for (std::vector<double>& sum : sums) space.program.at_least(std::move(sum), best);
  }
  return levels;
}

double worst_ratio(const ShareCase& one, const std::vector<double>& rates) {
  const std::vector<double> alone = rates_of(one, isolated(one));
  double worst = 0;
  for (size_t m = 0; m < one.jobs.size(); ++m) {
    const ShareCase::Job& job = one.jobs[m];
    worst = std::max(worst, (job.age_s + job.left / rates[m]) / (job.isolated_s + job.left / alone[m]));
  }
  return worst;
}

double least_ratio(const ShareCase& one) {
  const std::vector<double> alone = rates_of(one, isolated(one));
  double low = 0, high = worst_ratio(one, alone);
  while (high - low > 1e-9 * high) {
    const double rho = (low + high) / 2;
    Space space(one, 1);
    const size_t part = space.program.objective.size() - 1;
    space.program.objective[part] = 1;  // that every job has of what it needs
    bool old = false;                   // older than rho allows, whatever it gets
    for (size_t m = 0; m < one.jobs.size(); ++m) {
      const ShareCase::Job& job = one.jobs[m];
      const double left_s = rho * (job.isolated_s + job.left / alone[m]) - job.age_s;
      old = old || left_s <= 0;
      std::vector<double> row = space.rate(m, left_s / job.left);
      row[part] = -1;
      space.program.at_least(row, 0);
    }
    (!old && best_corner(space.program)->value >= 1 ? high : low) = rho;
  }
  return high;
}

std::optional<double> best_sum(const ShareCase& one, bool due) {
  Space space(one, 0);
  const size_t types = one.gpus.size();
  for (size_t m = 0; m < one.jobs.size(); ++m) {
    const ShareCase::Job& job = one.jobs[m];
    for (size_t j = 0; j < types; ++j)
      space.program.objective[m * types + j] = job.rates[j] / (one.price.empty() ? 1 : one.price[j]);
    if (due && job.due_s > 0) space.program.at_least(space.rate(m, 1), job.left / job.due_s);
  }
  const auto best = best_corner(space.program);
  return best.has_value() ? std::optional(best->value) : std::nullopt;
}

double sum_of(const ShareCase& one, const ShareTable& shares) {
  double sum = 0;
  for (size_t m = 0; m < one.jobs.size(); ++m) {
    for (size_t j = 0; j < one.gpus.size(); ++j)
      sum += shares[m][j] * one.jobs[m].rates[j] / (one.price.empty() ? 1 : one.price[j]);
  }
  return sum;
}

ShareTable isolated(const ShareCase& one) {
  ShareTable table;
  for (const ShareCase::Job& job : one.jobs) {
    std::vector<double>& row = table.emplace_back();
    const double part = 1.0 / static_cast<double>(one.jobs.size()) / job.gpus;
    const double time = all_gpus(one) * part;
    for (const int gpus : one.gpus) row.push_back(gpus * part / std::max(1.0, time));
  }
  return table;
}

ShareTable proportional(const ShareCase& one) {
  double wanted = 0;
  for (const ShareCase::Job& job : one.jobs) wanted += job.gpus;
  const double time = std::min(1.0, all_gpus(one) / wanted);
  ShareTable table;
  for (size_t m = 0; m < one.jobs.size(); ++m) {
    std::vector<double>& row = table.emplace_back();
    for (const int gpus : one.gpus) row.push_back(time * gpus / all_gpus(one));
  }
  return table;
}

}  // namespace scalai::policy::small
