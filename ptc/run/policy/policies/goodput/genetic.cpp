#include "ptc/run/policy/policies/goodput/genetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/gene_words.h"
#include "ptc/run/policy/policies/goodput/ranking.h"

namespace scalai::policy {
namespace {

constexpr double kSmall = 1e-3;     // keeps the mean of jobs without GPUs finite (pollux.py)
constexpr double kCrossover = 0.9;  // share of matings that exchange rows (pymoo's default)
constexpr double kMutation = 0.1;   // reset a row, thin a row, drop a GPU of a thinned row
constexpr int kIdleGenerations = 2;
constexpr int kTriesForNew = 10;  // rounds of mating to replace children that are there already

uint64_t mixed(uint64_t n) {
  n = (n + 1) * 0x9e3779b97f4a7c15ULL;
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9ULL;
  return (n ^ (n >> 31)) | 1;
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

// Genes are kept as words (gene_words.h), a row of `words_` for a job, and all individuals in one pool. Same draws,
// same sums and so the same results as byte by byte. kWords: words of a row if known when compiled, else 0.
template <size_t kWords>
class Search {
 public:
  Search(const AllocationProblem& problem, const SearchSettings& settings, Random& random)
      : problem_(problem),
        settings_(settings),
        random_(random),
        jobs_(problem.jobs.size()),
        hosts_(problem.capacity.size()),
        all_words_((hosts_ + 7) / 8),
        hits_(cumulated_hits(static_cast<int>(problem.jobs.size()))),
        base_(packed(problem.base)),
        masks_(words()),
        used_(words()),
        on_(hosts_) {
    for (size_t k = 0; k < base_.size(); ++k) keys_.push_back(mixed(k));
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
    for (const Genes& genes : start) admit(taken(packed(genes)), population);
    if (population.empty()) admit(taken(base_), population);
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

  using Words = std::vector<uint64_t>;

  size_t words() const { return kWords > 0 ? kWords : all_words_; }

  Words packed(const Genes& genes) const {
    Words rows(jobs_ * words());
    for (size_t k = 0; k < genes.size(); ++k) {
      rows[k / hosts_ * words() + k % hosts_ / 8] |= uint64_t{genes[k]} << (8 * (k % hosts_ % 8));
    }
    return rows;
  }

  size_t free_slot() {
    if (free_.empty()) {
      free_.push_back(pool_.size() / base_.size());
      pool_.resize(pool_.size() + base_.size());
    }
    const size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  size_t taken(const Words& genes) {
    const size_t slot = free_slot();
    std::copy(genes.begin(), genes.end(), genes_of(slot));
    return slot;
  }
  size_t copied(size_t slot) {
    const size_t copy = free_slot();
    std::copy_n(genes_of(slot), base_.size(), genes_of(copy));
    return copy;
  }
  uint64_t* genes_of(size_t slot) { return pool_.data() + slot * base_.size(); }
  uint64_t* row(size_t slot, size_t job) { return genes_of(slot) + job * words(); }
  int gene(const uint64_t* row, size_t h) const { return gene_words::gene(row[h / 8], h % 8); }
  void set(uint64_t* row, size_t h, int gpus) const { row[h / 8] = gene_words::with_gene(row[h / 8], h % 8, gpus); }
  int gpus_of(const uint64_t* row) const {
    int gpus = 0;
    for (size_t w = 0; w < words(); ++w) gpus += gene_words::sum(row[w]);
    return gpus;
  }
  template <class Function>
  void each_host(const uint64_t* row, Function f) const {
    for (size_t w = 0; w < words(); ++w) gene_words::each(gene_words::nonzero(row[w]), [&](size_t k) { f(8 * w + k); });
  }

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
    std::fill(masks_.begin(), masks_.end(), 0);
    const uint64_t* genes = genes_of(one.slot);
    const uint64_t* base = base_.data();
    for (size_t job = 0; job < jobs_; ++job, genes += words(), base += words()) {
      int hosts = 0, gpus = 0;
      uint64_t differs = 0;
      for (size_t w = 0; w < words(); ++w) {
        hosts += gene_words::count(gene_words::nonzero(genes[w]));
        gpus += gene_words::sum(genes[w]);
        differs |= genes[w] ^ base[w];
        masks_[w] |= genes[w];
      }
      const Cell& cell = this->cell(job, gpus == 0 ? 0 : type_of(genes), hosts, gpus);
      sum += differs == 0 ? cell.same : cell.changed;
      speed += cell.speed;
    }
    int capacity = 0;
    each_host(masks_.data(), [&](size_t h) { capacity += problem_.capacity[h]; });
    const double mean = sum / static_cast<double>(jobs_);
    one.mean = problem_.exponent == -1 ? 1 / mean : std::pow(mean, 1 / problem_.exponent);
    one.use = capacity > 0 ? speed / capacity : 0;
  }

  // Of the first host it has; without any, the last host's.
  int type_of(const uint64_t* row) const {
    if (types_ == 1) return 0;
    for (size_t w = 0; w < words(); ++w) {
      if (row[w] != 0) return problem_.type[8 * w + static_cast<size_t>(std::countr_zero(row[w])) / 8];
    }
    return problem_.type[hosts_ - 1];
  }

  // Mutation in the order of pollux.py: reset, thin out, add.
  void mutate(size_t slot) {
    for (size_t job = 0; job < jobs_; ++job) {
      uint64_t* one = row(slot, job);
      if (random_.uniform() < kMutation) std::copy_n(base_.data() + job * words(), words(), one);
      if (random_.uniform() >= kMutation) continue;
      each_host(one, [&](size_t h) {
        if (random_.uniform() < kMutation) set(one, h, 0);
      });
    }
    if (gangs_) add_gangs(slot);
    add_gpus(slot);
  }

  int used_on(size_t slot, size_t h) {
    int used = 0;
    for (size_t job = 0; job < jobs_; ++job) used += gene(row(slot, job), h);
    return used;
  }

  void add_gpus(size_t slot) {
    std::fill(used_.begin(), used_.end(), gene_words::Columns());
    const uint64_t* genes = genes_of(slot);
    for (size_t job = 0; job < jobs_; ++job, genes += words()) {
      for (size_t w = 0; w < words(); ++w) used_[w].add(genes[w]);
    }
    for (size_t h = 0; h < hosts_; ++h) {  // masks_: hosts with free GPUs
      on_[h].clear();
      set(masks_.data(), h, used_[h / 8].at(h % 8) < problem_.capacity[h] ? 0xff : 0);
    }
    genes = genes_of(slot);
    for (size_t job = 0; job < jobs_; ++job, genes += words()) {
      for (size_t w = 0; w < words(); ++w) {
        gene_words::each(gene_words::nonzero(genes[w] & masks_[w]), [&](size_t k) { on_[8 * w + k].push_back(job); });
      }
    }
    for (size_t h = 0; h < hosts_; ++h) {
      if (gene(masks_.data(), h) > 0) add_on(slot, h);
    }
  }

  // On a host with free GPUs each job's number is drawn anew, not below what it is, with probability 1 / jobs, and
  // again with 1 / (jobs there) for those there: about one newcomer and one that grows.
  void add_on(size_t slot, size_t h) {
    drawn_.clear();
    const auto there = static_cast<int64_t>(on_[h].size());
    for (const size_t job : on_[h]) {
      if (random_.below(there) == 0) drawn_.push_back(job);
    }
    const double u = random_.uniform();
    for (size_t k = 0; k < hits_.size() && u >= hits_[k]; ++k) {
      drawn_.push_back(static_cast<size_t>(random_.below(static_cast<int64_t>(jobs_))));
    }
    std::sort(drawn_.begin(), drawn_.end());
    drawn_.erase(std::unique(drawn_.begin(), drawn_.end()), drawn_.end());
    for (const size_t job : drawn_) {
      uint64_t* one = row(slot, job);
      const int now = gene(one, h);
      if (now <= problem_.capacity[h]) set(one, h, static_cast<int>(random_.between(now, problem_.capacity[h])));
    }
  }

  // Jobs that need several GPUs at once would hardly get them one host at a time.
  void add_gangs(size_t slot) {
    for (size_t job = 0; job < jobs_; ++job) {
      const int least = problem_.jobs[job].least;
      if (least < 2 || random_.uniform() >= kMutation) continue;
      uint64_t* one = row(slot, job);
      std::fill_n(one, words(), 0);
      const auto from = static_cast<size_t>(random_.below(static_cast<int64_t>(hosts_)));
      int left = least;
      for (size_t k = 0; k < hosts_ && left > 0; ++k) {  // one host that has all of them
        const size_t h = (from + k) % hosts_;
        if (problem_.capacity[h] - used_on(slot, h) < least) continue;
        set(one, h, least);
        left = 0;
      }
      for (size_t k = 0; k < hosts_ && left > 0; ++k) {
        const size_t h = (from + k) % hosts_;
        if (problem_.type[h] != problem_.type[from]) continue;
        const int take = std::min(left, problem_.capacity[h] - used_on(slot, h));
        if (take <= 0) continue;
        set(one, h, take);
        left -= take;
      }
    }
  }

  void repair(size_t slot) {
    if (types_ > 1) one_type(slot);
    if (settings_.avoid_interference) one_spread_job_a_host(slot);
    std::fill(used_.begin(), used_.end(), gene_words::Columns());
    for (size_t job = 0; job < jobs_; ++job) {
      uint64_t* one = row(slot, job);
      trim(one, problem_.jobs[job].most);
      for (size_t w = 0; w < words(); ++w) used_[w].add(one[w]);
    }
    for (size_t h = 0; h < hosts_; ++h) {
      if (used_[h / 8].at(h % 8) > problem_.capacity[h]) limit(slot, h);
    }
    for (size_t job = 0; gangs_ && job < jobs_; ++job) {
      uint64_t* one = row(slot, job);
      if (gpus_of(one) < problem_.jobs[job].least) std::fill_n(one, words(), 0);
    }
  }

  // On one host: the first jobs keep theirs.
  void limit(size_t slot, size_t h) {
    int left = problem_.capacity[h];
    for (size_t job = 0; job < jobs_; ++job) {
      uint64_t* one = row(slot, job);
      const int now = gene(one, h);
      if (now > left) set(one, h, left);
      left -= std::min(now, left);
    }
  }

  void one_type(size_t slot) {
    for (size_t job = 0; job < jobs_; ++job) {
      uint64_t* one = row(slot, job);
      const int type = type_of(one);
      each_host(one, [&](size_t h) {
        if (problem_.type[h] != type) set(one, h, 0);
      });
    }
  }

  void one_spread_job_a_host(size_t slot) {
    std::fill(masks_.begin(), masks_.end(), 0);  // hosts that have one
    for (size_t job = 0; job < jobs_; ++job) {
      uint64_t* one = row(slot, job);
      int hosts = 0;
      for (size_t w = 0; w < words(); ++w) hosts += gene_words::count(gene_words::nonzero(one[w]));
      for (size_t w = 0; hosts > 1 && w < words(); ++w) {
        const uint64_t here = gene_words::nonzero(one[w]);
        one[w] &= ~masks_[w];
        masks_[w] |= gene_words::whole(here);
      }
    }
  }

  // No more than `most` GPUs: hosts in random order keep theirs.
  void trim(uint64_t* one, int most) {
    if (gpus_of(one) <= most) return;
    order_.clear();
    each_host(one, [&](size_t h) { order_.push_back(h); });
    int left = most;
    for (size_t k = 0; k < order_.size(); ++k) {
      std::swap(order_[k], order_[k + static_cast<size_t>(random_.below(static_cast<int64_t>(order_.size() - k)))]);
      const int kept = std::min(gene(one, order_[k]), left);
      set(one, order_[k], kept);
      left -= kept;
    }
  }

  // Repairs the genes of the slot. Takes them into the population unless they are there; then the slot is free.
  void admit(size_t slot, std::vector<Individual>& population) {
    repair(slot);
    const uint64_t* genes = genes_of(slot);
    uint64_t digest = 0;
    for (size_t k = 0; k < keys_.size(); ++k) digest += genes[k] * keys_[k];
    for (auto same = digests_.begin(); (same = std::find(same, digests_.end(), digest)) != digests_.end(); ++same) {
      const uint64_t* other = genes_of(population[static_cast<size_t>(same - digests_.begin())].slot);
      if (std::equal(genes, genes + base_.size(), other)) return free_.push_back(slot);
    }
    Individual one{.slot = slot};
    evaluate(one);
    population.push_back(one);
    digests_.push_back(digest);
    digest_of_.resize(std::max(digest_of_.size(), slot + 1));
    digest_of_[slot] = digest;
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
        const size_t first = copied(population[a].slot), second = copied(population[b].slot);
        if (random_.uniform() < kCrossover) {
          const auto rows = static_cast<size_t>(random_.below(static_cast<int64_t>(jobs_))) * words();
          std::swap_ranges(genes_of(first), genes_of(first) + rows, genes_of(second));
        }
        for (const size_t child : {first, second}) {
          mutate(child);
          if (population.size() < wanted) {
            admit(child, population);
          } else {
            free_.push_back(child);
          }
        }
      }
      if (population.size() == before) break;
    }
    return population.size() > parents;
  }

  // The best of them; the slots of the others are free.
  void survive(std::vector<Individual>& population) {
    rank(population);
    for (; population.size() > static_cast<size_t>(settings_.population); population.pop_back()) {
      free_.push_back(population.back().slot);
    }
    digests_.clear();
    for (const Individual& one : population) digests_.push_back(digest_of_[one.slot]);
  }

  FoundAllocation result(const std::vector<Individual>& population) {
    FoundAllocation found;
    for (const Individual& one : population) {
      if (one.rank > 0) continue;
      if (!found.front.empty() && one.mean > found.means[found.best]) found.best = found.front.size();
      Genes& genes = found.front.emplace_back(jobs_ * hosts_);
      for (size_t k = 0; k < genes.size(); ++k) {
        genes[k] = static_cast<uint8_t>(gene(row(one.slot, k / hosts_), k % hosts_));
      }
      found.means.push_back(one.mean);
      found.utilisations.push_back(one.use);
    }
    return found;
  }

  const AllocationProblem& problem_;
  const SearchSettings& settings_;
  Random& random_;
  size_t jobs_, hosts_, all_words_;  // words of a job
  int types_ = 1;
  bool gangs_ = false;
  double scale_ = 1;
  std::vector<double> hits_;
  Words base_;
  Words keys_;                   // of the digest, by word
  std::vector<int> most_hosts_;  // by job
  std::vector<size_t> first_;    // by job: its part of table_
  std::vector<Cell> table_;
  Words pool_;                             // genes of the slots
  std::vector<size_t> free_;               // slots
  Words digest_of_;                        // by slot
  Words digests_;                          // of the population, in its order
  Words masks_;                            // by word, scratch
  std::vector<gene_words::Columns> used_;  // by word: GPUs
  std::vector<std::vector<size_t>> on_;    // by host with free GPUs: the jobs there
  std::vector<size_t> drawn_, order_;
};

}  // namespace

FoundAllocation search_allocation(const AllocationProblem& problem, std::span<const Genes> start,
                                  const SearchSettings& settings, Random& random) {
  SCALAI_CHECK(!problem.jobs.empty() && !problem.capacity.empty() && problem.exponent != 0);
  SCALAI_CHECK(problem.base.size() == problem.jobs.size() * problem.capacity.size());
  switch ((problem.capacity.size() + 7) / 8) {
    case 1: return Search<1>(problem, settings, random).go(start);
    case 2: return Search<2>(problem, settings, random).go(start);
    default: return Search<0>(problem, settings, random).go(start);
  }
}

}  // namespace scalai::policy
