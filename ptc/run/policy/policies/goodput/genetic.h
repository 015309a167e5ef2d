#pragma once
// Genetic search for the allocation of all jobs to all hosts with the best power mean of speed-ups: the algorithm of
// Pollux (OSDI'21, section 4.2; operators and order of repairs as in its simulator, pollux.py), on NSGA-II (Deb et al.
// 2002) with two objectives, the mean and the utilisation of active hosts. One row of bytes a job, one byte a host; a
// child costs O(jobs × hosts / 16). Deterministic: only the draws of the given Random and IEEE arithmetic decide.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "ptc/base/random.h"

namespace scalai::policy {

// GPUs by job and host, row by row (jobs × hosts).
using Genes = std::vector<uint8_t>;

struct AllocationProblem {
  struct Row {
    int least = 1;       // minimum GPUs if it has any
    int most = 1;        // maximum GPUs
    double changed = 1;  // factor of its speed-up if its row differs from that of `base`
  };
  std::vector<Row> jobs;      // earlier jobs go first if GPUs are short
  std::vector<int> capacity;  // GPUs by host, 0 … 255
  std::vector<int> type;      // GPU type by host; a job has hosts of one type
  Genes base;                 // the present allocation
  double exponent = -1;       // of the power mean, not 0; smaller = fairer
  // Speed-up (>= 0) of a job on this many hosts and GPUs of a type; called once for each argument list.
  std::function<double(int job, int type, int hosts, int gpus)> speedup;
};

struct SearchSettings {
  int population = 100;
  int generations = 100;
  bool avoid_interference = true;  // at most one multi-host job on a host
};

struct FoundAllocation {
  std::vector<Genes> front;          // non-dominated allocations, a start for the next search
  std::vector<double> means;         // of each
  std::vector<double> utilisations;  // of each: sum of speed-ups / GPUs of the hosts in use
  size_t best = 0;                   // the largest mean, the first of equals
};

// `start` is repaired first; empty = start from `base`. At least one job and one host. Arguments are used during the
// call only.
FoundAllocation search_allocation(const AllocationProblem& problem, std::span<const Genes> start,
                                  const SearchSettings& settings, Random& random);

}  // namespace scalai::policy
