#pragma once
// Optimal shares of a small cluster of several GPU types, by trying every corner of what is allowed (vertices.h). The
// objectives are Gavel's (OSDI'20). Nothing here uses the policies. Pure functions.

#include <optional>
#include <vector>

namespace scalai::policy::small {

// Job m on type j has the share X_mj of the time: sum over j <= 1; sum over m of gpus × X_mj <= GPUs of the type.
struct ShareCase {
  struct Job {
    int gpus = 1;
    double weight = 1;
    std::vector<double> rates;  // iterations a second by type; 0: not there
    double left = 1;            // iterations
    double age_s = 0;           // since submission
    double isolated_s = 0;      // so long its work so far would have taken on an equal part of the cluster
    double due_s = 0;           // to its deadline; 0: none
  };
  std::vector<int> gpus;      // by type
  std::vector<double> price;  // by type; empty: none
  std::vector<Job> jobs;
};

using ShareTable = std::vector<std::vector<double>>;  // X by job, type

// True: X is within the bounds above, to 1e-7.
bool allowed(const ShareCase& one, const ShareTable& shares);
std::vector<double> rates_of(const ShareCase& one, const ShareTable& shares);

// (gpus / weight) × rate / (rate on every type by its part of all GPUs), by job, ascending: what fairness levels.
std::vector<double> levels_of(const ShareCase& one, const std::vector<double>& rates);
// Max-min to the end: of all ascending levels the lexicographically greatest. The sum of the k least, for k = 1, 2, …,
// is a linear objective over all sets of k jobs (Ogryczak), so that a corner has it.
std::vector<double> fairest_levels(const ShareCase& one);

// (age + left / rate) / (isolated + left / rate on an equal part) of the job that has most.
double worst_ratio(const ShareCase& one, const std::vector<double>& rates);
double least_ratio(const ShareCase& one);  // that no shares beat, to 1e-9

// Sum over jobs and types of rates × X, per dollar if there are prices; with `due`, each job with a deadline is at
// least as fast as that needs. nullopt: it cannot be.
std::optional<double> best_sum(const ShareCase& one, bool due);
double sum_of(const ShareCase& one, const ShareTable& shares);

// Each job has an equal part of every type (GPUs / jobs / its own), never more than all of the time.
ShareTable isolated(const ShareCase& one);
// Each job has the same time, as much as there is, on each type by its part of all GPUs.
ShareTable proportional(const ShareCase& one);

}  // namespace scalai::policy::small
