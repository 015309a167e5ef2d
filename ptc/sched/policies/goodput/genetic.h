#pragma once
// Search for the allocation of all jobs on all hosts that has the best power mean of speed-ups: the genetic algorithm
// of Pollux (OSDI'21, section 4.2; operators and order of repairs as in its simulator, pollux.py), on NSGA-II (Deb et
// al. 2002) with two objectives, the mean and the use made of active hosts. A row of bytes a job, a byte a host; cost a
// child O(jobs x hosts / 16). Deterministic from the Random given: only its draws and IEEE arithmetic decide.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ptc/base/random.h"

namespace scalai::sched {

// jobs x hosts GPUs, row by row.
using Genes = std::vector<uint8_t>;

struct AllocationProblem {
  struct Row {
    int least = 1;       // GPUs when it has any
    int most = 1;        // at most so many
    double changed = 1;  // factor of its speed-up when its row is not that of `base`
  };
  std::vector<Row> jobs;      // earlier ones go first where GPUs are short
  std::vector<int> capacity;  // GPUs by host, 0..255
  std::vector<int> type;      // GPU type by host; a job has hosts of one type
  Genes base;                 // what jobs have now
  double exponent = -1;       // of the power mean, not 0; smaller = fairer
  // Speed-up of a job on so many hosts and GPUs of a type, >= 0; asked once for each question.
  std::function<double(int job, int type, int hosts, int gpus)> speedup;
};

struct SearchSettings {
  int population = 100;
  int generations = 100;
  bool avoid_interference = true;  // at most one job of several hosts on a host
};

struct FoundAllocation {
  std::vector<Genes> front;          // the non-dominated ones: where the next search may start
  std::vector<double> means;         // of each
  std::vector<double> utilisations;  // of each: sum of speed-ups a GPU of the hosts used
  size_t best = 0;                   // the largest mean, the first of equals
};

// `start` is repaired first; empty = from `base`. There is at least one job and one host.
FoundAllocation search_allocation(const AllocationProblem& problem, std::span<const Genes> start,
                                  const SearchSettings& settings, Random& random);

}  // namespace scalai::sched
