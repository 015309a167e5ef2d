#include "ptc/sched/policies/goodput/genetic.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ptc/base/status.h"

namespace scalai::sched {
namespace {

constexpr double kSmall = 1e-3;     // keeps the mean of jobs without GPUs finite (pollux.py)
constexpr double kCrossover = 0.9;  // share of matings that exchange rows (pymoo's default)
constexpr double kMutation = 0.1;   // reset a row, thin a row, drop a GPU of a thinned row
constexpr int kIdleGenerations = 2;
constexpr int kTriesForNew = 10;  // rounds of mating to replace children that are there already

struct Individual {
  Genes genes;
  double mean = 0, use = 0;  // both to be maximised
  int rank = 0;
  double crowding = 0;
  uint64_t digest = 0;
};

bool dominates(const Individual& a, const Individual& b) {
  return a.mean >= b.mean && a.use >= b.use && (a.mean > b.mean || a.use > b.use);
}

uint64_t digest_genes(const Genes& genes) {
  uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (size_t at = 0; at < genes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, genes.data() + at, std::min<size_t>(8, genes.size() - at));
    hash = (hash ^ word) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

// Probabilities that k of n independent events of 1/n happen, summed up: a draw of how many.
std::vector<double> cumulated_hits(int n) {
  std::vector<double> sums;
  const double q = 1.0 / n;
  double p = 1;
  for (int k = 0; k < n; ++k) p *= 1 - q;
  double sum = p;
  for (int k = 0; k < n && sum < 1 - 1e-12; ++k) {
    sums.push_back(sum);
    p = n == 1 ? 1 : p * (n - k) / (k + 1) * q / (1 - q);
    sum += p;
  }
  return sums;
}

class Search {
 public:
  Search(const AllocationProblem& problem, const SearchSettings& settings, Random& random)
      : problem_(problem),
        settings_(settings),
        random_(random),
        jobs_(problem.jobs.size()),
        hosts_(problem.capacity.size()),
        hits_(cumulated_hits(static_cast<int>(problem.jobs.size()))) {
    types_ = 1 + *std::max_element(problem.type.begin(), problem.type.end());
    for (const AllocationProblem::Row& job : problem.jobs) {
      most_hosts_.push_back(std::min(static_cast<int>(hosts_), job.most));
      first_.push_back(table_.size());
      table_.resize(table_.size() + static_cast<size_t>(types_ * (most_hosts_.back() + 1) * (job.most + 1)));
      gangs_ = gangs_ || job.least > 1;
    }
    int gpus = std::accumulate(problem.capacity.begin(), problem.capacity.end(), 0);
    // A share of one host counts as a speed-up of one (pollux.py).
    scale_ = static_cast<double>(hosts_) / std::max(gpus, 1);
  }

  FoundAllocation go(std::span<const Genes> start) {
    std::vector<Individual> population;
    for (const Genes& genes : start) admit(genes, population);
    if (population.empty()) admit(problem_.base, population);
    survive(population);
    int idle = 0;  // generations without a new child: small spaces are soon exhausted
    for (int k = 1; k < settings_.generations && idle < kIdleGenerations; ++k) {
      idle = breed(population) ? 0 : idle + 1;
      survive(population);
    }
    return result(population);
  }

 private:
  struct Cell {
    double speed = -1;  // < 0: not asked yet
    double same = 0, changed = 0;
  };

  const uint8_t* row(const Genes& genes, size_t job) const { return genes.data() + job * hosts_; }
  uint8_t* row(Genes& genes, size_t job) const { return genes.data() + job * hosts_; }

  const Cell& cell(size_t job, int type, int hosts, int gpus) {
    const AllocationProblem::Row& spec = problem_.jobs[job];
    Cell& cell =
        table_[first_[job] + static_cast<size_t>((type * (most_hosts_[job] + 1) + hosts) * (spec.most + 1) + gpus)];
    if (cell.speed >= 0) return cell;
    cell.speed = gpus == 0 ? 0 : problem_.speedup(static_cast<int>(job), type, hosts, gpus);
    const double scaled = cell.speed * scale_;
    cell.same = term(scaled);
    cell.changed = term(scaled * spec.changed);
    return cell;
  }

  double term(double speed) const {
    const double value = speed + kSmall;
    return problem_.exponent == -1 ? 1 / value : std::pow(value, problem_.exponent);
  }

  void evaluate(Individual& one) {
    double sum = 0, speed = 0;
    std::vector<uint8_t>& active = scratch_;
    active.assign(hosts_, 0);
    for (size_t job = 0; job < jobs_; ++job) {
      const uint8_t* genes = row(one.genes, job);
      int hosts = 0, gpus = 0;
      for (size_t h = 0; h < hosts_; ++h) {
        hosts += genes[h] > 0 ? 1 : 0;
        gpus += genes[h];
        active[h] |= genes[h];
      }
      const bool same = std::memcmp(genes, row(problem_.base, job), hosts_) == 0;
      const Cell& cell = this->cell(job, gpus == 0 ? 0 : type_of(genes), hosts, gpus);
      sum += same ? cell.same : cell.changed;
      speed += cell.speed;
    }
    int capacity = 0;
    for (size_t h = 0; h < hosts_; ++h) capacity += active[h] > 0 ? problem_.capacity[h] : 0;
    const double mean = sum / static_cast<double>(jobs_);
    one.mean = problem_.exponent == -1 ? 1 / mean : std::pow(mean, 1 / problem_.exponent);
    one.use = capacity > 0 ? speed / capacity : 0;
  }

  int type_of(const uint8_t* genes) const {
    if (types_ == 1) return 0;
    size_t h = 0;
    while (h + 1 < hosts_ && genes[h] == 0) ++h;
    return problem_.type[h];
  }

  // Mutation in the order of pollux.py: reset, thin out, add.
  void mutate(Genes& genes) {
    for (size_t job = 0; job < jobs_; ++job) {
      if (random_.uniform() < kMutation) std::memcpy(row(genes, job), row(problem_.base, job), hosts_);
      if (random_.uniform() >= kMutation) continue;
      uint8_t* one = row(genes, job);
      for (size_t h = 0; h < hosts_; ++h) {
        if (one[h] > 0 && random_.uniform() < kMutation) one[h] = 0;
      }
    }
    if (gangs_) add_gangs(genes);
    add_gpus(genes);
  }

  int used_on(const Genes& genes, size_t h) const {
    int used = 0;
    for (size_t job = 0; job < jobs_; ++job) used += row(genes, job)[h];
    return used;
  }

  void add_gpus(Genes& genes) {
    used_.assign(hosts_, 0);
    there_.assign(hosts_, 0);
    for (size_t job = 0; job < jobs_; ++job) {
      const uint8_t* one = row(genes, job);
      for (size_t h = 0; h < hosts_; ++h) {
        used_[h] = static_cast<uint16_t>(used_[h] + one[h]);
        there_[h] = static_cast<uint16_t>(there_[h] + (one[h] > 0 ? 1 : 0));
      }
    }
    for (size_t h = 0; h < hosts_; ++h) {
      if (used_[h] < problem_.capacity[h]) add_on(genes, h);
    }
  }

  // On a host with free GPUs each job's number is drawn anew, not below what it is, with probability 1 / jobs, and
  // again with 1 / (jobs there) for those there: about one newcomer and one that grows.
  void add_on(Genes& genes, size_t h) {
    drawn_.clear();
    int left = there_[h];
    for (size_t job = 0; left > 0 && job < jobs_; ++job) {
      if (row(genes, job)[h] == 0) continue;
      --left;
      if (random_.below(there_[h]) == 0) drawn_.push_back(job);
    }
    const double u = random_.uniform();
    for (size_t k = 0; k < hits_.size() && u >= hits_[k]; ++k) {
      drawn_.push_back(static_cast<size_t>(random_.below(static_cast<int64_t>(jobs_))));
    }
    std::sort(drawn_.begin(), drawn_.end());
    drawn_.erase(std::unique(drawn_.begin(), drawn_.end()), drawn_.end());
    for (const size_t job : drawn_) {
      uint8_t& gene = row(genes, job)[h];
      if (gene <= problem_.capacity[h]) gene = static_cast<uint8_t>(random_.between(gene, problem_.capacity[h]));
    }
  }

  // Jobs that need several GPUs at once would hardly get them one host at a time.
  void add_gangs(Genes& genes) {
    for (size_t job = 0; job < jobs_; ++job) {
      const int least = problem_.jobs[job].least;
      if (least < 2 || random_.uniform() >= kMutation) continue;
      uint8_t* one = row(genes, job);
      std::memset(one, 0, hosts_);
      const auto from = static_cast<size_t>(random_.below(static_cast<int64_t>(hosts_)));
      int left = least;
      for (size_t k = 0; k < hosts_ && left > 0; ++k) {  // one host that has all of them
        const size_t h = (from + k) % hosts_;
        if (problem_.capacity[h] - used_on(genes, h) < least) continue;
        one[h] = static_cast<uint8_t>(least);
        left = 0;
      }
      for (size_t k = 0; k < hosts_ && left > 0; ++k) {
        const size_t h = (from + k) % hosts_;
        if (problem_.type[h] != problem_.type[from]) continue;
        const int take = std::min(left, problem_.capacity[h] - used_on(genes, h));
        if (take <= 0) continue;
        one[h] = static_cast<uint8_t>(take);
        left -= take;
      }
    }
  }

  void repair(Genes& genes) {
    if (types_ > 1) one_type(genes);
    if (settings_.avoid_interference) one_spread_job_a_host(genes);
    for (size_t job = 0; job < jobs_; ++job) trim(row(genes, job), problem_.jobs[job].most);
    std::vector<int>& left = left_;
    left = problem_.capacity;
    for (size_t job = 0; job < jobs_; ++job) {
      uint8_t* one = row(genes, job);
      int gpus = 0;
      for (size_t h = 0; h < hosts_; ++h) {
        one[h] = static_cast<uint8_t>(std::min<int>(one[h], left[h]));
        left[h] -= one[h];
        gpus += one[h];
      }
      if (gpus < problem_.jobs[job].least) std::memset(one, 0, hosts_);
    }
  }

  void one_type(Genes& genes) const {
    for (size_t job = 0; job < jobs_; ++job) {
      uint8_t* one = row(genes, job);
      const int type = type_of(one);
      for (size_t h = 0; h < hosts_; ++h) one[h] = problem_.type[h] == type ? one[h] : uint8_t{0};
    }
  }

  void one_spread_job_a_host(Genes& genes) {
    std::vector<uint8_t>& taken = scratch_;
    taken.assign(hosts_, 0);
    for (size_t job = 0; job < jobs_; ++job) {
      uint8_t* one = row(genes, job);
      if (hosts_ - static_cast<size_t>(std::count(one, one + hosts_, uint8_t{0})) < 2) continue;
      for (size_t h = 0; h < hosts_; ++h) {
        if (one[h] == 0) continue;
        if (taken[h] > 0) one[h] = 0;
        taken[h] = 1;
      }
    }
  }

  // No more than `most` GPUs: hosts in random order keep theirs.
  void trim(uint8_t* one, int most) {
    if (std::accumulate(one, one + hosts_, 0) <= most) return;
    order_.clear();
    for (size_t h = 0; h < hosts_; ++h) {
      if (one[h] > 0) order_.push_back(h);
    }
    int left = most;
    for (size_t k = 0; k < order_.size(); ++k) {
      std::swap(order_[k], order_[k + static_cast<size_t>(random_.below(static_cast<int64_t>(order_.size() - k)))]);
      one[order_[k]] = static_cast<uint8_t>(std::min<int>(one[order_[k]], left));
      left -= one[order_[k]];
    }
  }

  bool admit(const Genes& genes, std::vector<Individual>& population) {
    Individual one;
    one.genes = genes;
    repair(one.genes);
    one.digest = digest_genes(one.genes);
    for (const Individual& other : population) {
      if (other.digest == one.digest && other.genes == one.genes) return false;
    }
    evaluate(one);
    population.push_back(std::move(one));
    return true;
  }

  // Permutations of the population, one after another, as long as needed.
  std::vector<size_t> draws(size_t population, size_t count) {
    std::vector<size_t> all;
    while (all.size() < count) {
      const size_t from = all.size();
      for (size_t k = 0; k < population; ++k) all.push_back(k);
      for (size_t k = population; k > 1; --k) {
        std::swap(all[from + k - 1], all[from + static_cast<size_t>(random_.below(static_cast<int64_t>(k)))]);
      }
    }
    return all;
  }

  size_t tournament(const std::vector<Individual>& population, size_t a, size_t b) {
    if (dominates(population[a], population[b])) return a;
    if (dominates(population[b], population[a])) return b;
    if (population[a].crowding != population[b].crowding) {
      return population[a].crowding > population[b].crowding ? a : b;
    }
    return random_.below(2) == 0 ? a : b;
  }

  // Adds children until there are as many as wanted or a round brings nothing new. False: no child.
  bool breed(std::vector<Individual>& population) {
    const size_t parents = population.size();
    const size_t wanted = parents + static_cast<size_t>(settings_.population);
    for (int round = 0; round < kTriesForNew && population.size() < wanted; ++round) {
      const size_t matings = (wanted - population.size() + 1) / 2, before = population.size();
      const std::vector<size_t> drawn = draws(parents, matings * 4);
      for (size_t k = 0; k < matings; ++k) {
        const size_t a = tournament(population, drawn[4 * k], drawn[4 * k + 1]);
        const size_t b = tournament(population, drawn[4 * k + 2], drawn[4 * k + 3]);
        Genes first = population[a].genes, second = population[b].genes;
        if (random_.uniform() < kCrossover) {
          const auto rows = static_cast<size_t>(random_.below(static_cast<int64_t>(jobs_))) * hosts_;
          std::swap_ranges(first.begin(), first.begin() + static_cast<ptrdiff_t>(rows), second.begin());
        }
        for (Genes* child : {&first, &second}) {
          mutate(*child);
          if (population.size() < wanted) admit(*child, population);
        }
      }
      if (population.size() == before) break;
    }
    return population.size() > parents;
  }

  // Ranks by non-domination, then the best `population` of them by rank and crowding.
  void survive(std::vector<Individual>& population) {
    std::stable_sort(population.begin(), population.end(), [](const Individual& a, const Individual& b) {
      return a.mean != b.mean ? a.mean > b.mean : a.use > b.use;
    });
    // By falling mean, a front is beaten by its last member if by any.
    std::vector<std::vector<size_t>> fronts;
    for (size_t k = 0; k < population.size(); ++k) {
      size_t rank = 0;
      while (rank < fronts.size() && dominates(population[fronts[rank].back()], population[k])) ++rank;
      if (rank == fronts.size()) fronts.emplace_back();
      fronts[rank].push_back(k);
      population[k].rank = static_cast<int>(rank);
    }
    for (const std::vector<size_t>& front : fronts) crowd(population, front);
    std::stable_sort(population.begin(), population.end(), [](const Individual& a, const Individual& b) {
      return a.rank != b.rank ? a.rank < b.rank : a.crowding > b.crowding;
    });
    if (population.size() > static_cast<size_t>(settings_.population)) {
      population.resize(static_cast<size_t>(settings_.population));
    }
  }

  // Distance to the neighbours along the front; ends are infinitely far, doubles of another count nothing.
  static void crowd(std::vector<Individual>& population, const std::vector<size_t>& front) {
    std::vector<size_t> single;
    for (const size_t k : front) {
      population[k].crowding = 0;
      const bool twin = !single.empty() && population[single.back()].mean == population[k].mean &&
                        population[single.back()].use == population[k].use;
      if (!twin) single.push_back(k);
    }
    const double means = population[single.front()].mean - population[single.back()].mean;
    const double uses = population[single.back()].use - population[single.front()].use;
    for (size_t k = 0; k < single.size(); ++k) {
      if (k == 0 || k + 1 == single.size()) {
        population[single[k]].crowding = std::numeric_limits<double>::infinity();
        continue;
      }
      const Individual& before = population[single[k - 1]];
      const Individual& after = population[single[k + 1]];
      population[single[k]].crowding = ((before.mean - after.mean) / means + (after.use - before.use) / uses) / 2;
    }
  }

  static FoundAllocation result(const std::vector<Individual>& population) {
    FoundAllocation found;
    for (const Individual& one : population) {
      if (one.rank > 0) continue;
      if (!found.front.empty() && one.mean > found.means[found.best]) found.best = found.front.size();
      found.front.push_back(one.genes);
      found.means.push_back(one.mean);
      found.utilisations.push_back(one.use);
    }
    return found;
  }

  const AllocationProblem& problem_;
  const SearchSettings& settings_;
  Random& random_;
  size_t jobs_, hosts_;
  int types_ = 1;
  bool gangs_ = false;
  double scale_ = 1;
  std::vector<double> hits_;
  std::vector<int> most_hosts_;  // by job
  std::vector<size_t> first_;    // by job: its part of table_
  std::vector<Cell> table_;
  std::vector<uint8_t> scratch_;
  std::vector<uint16_t> used_, there_;  // by host: GPUs, jobs
  std::vector<int> left_;
  std::vector<size_t> drawn_, order_;
};

}  // namespace

FoundAllocation search_allocation(const AllocationProblem& problem, std::span<const Genes> start,
                                  const SearchSettings& settings, Random& random) {
  SCALAI_CHECK(!problem.jobs.empty() && !problem.capacity.empty() && problem.exponent != 0);
  SCALAI_CHECK(problem.base.size() == problem.jobs.size() * problem.capacity.size());
  return Search(problem, settings, random).go(start);
}

}  // namespace scalai::sched
