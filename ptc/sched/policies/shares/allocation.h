#pragma once
// Shares of a heterogeneous cluster: who is to run on which GPU type for which fraction of the time, as linear programs
// (Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI'20). Pure functions of
// numbers: nothing here knows clocks, rounds or hosts (rounds.h turns shares into rounds).
//
// Notation: job m wants s_m GPUs of one type, does T_mj iterations a second on s_m GPUs of type j, has R_m iterations to go and
// weight w_m; there are N_j GPUs of type j. X_mj in [0, 1]: fraction of the time that m runs on type j. Allowed shares:
//   X >= 0;  sum over j of X_mj <= 1;  sum over m of s_m X_mj <= N_j;  X_mj = 0 where m cannot run on j.
// Space sharing adds X_cj for pairs c of jobs with the same s on the same GPUs: a pair's time counts for both of its jobs and
// once for the GPUs. thr_m(X): iterations a second of m under X. X^eq_mj = N_j / (sum of N): the share of nobody in particular.
//
// Ties: a linear program rarely has one solution only. Fairness objectives are followed by a second program that keeps their
// optimum and maximises the sum of the normalised throughputs (s_m / w_m) thr_m(X) / thr_m(X^eq), the makespan by one that
// maximises the sum of thr_m(X); the sums need none. What is still tied is CLP's vertex for columns in job order, types in
// the fleet's (kTieBreak tells the user).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/sched/fleet.h"
#include "ptc/sched/job.h"
#include "ptc/sched/throughput.h"

namespace scalai::sched {

struct ShareJob {
  JobId id;
  int gpus = 1;                 // s_m
  double weight = 1;            // w_m
  std::vector<double> rates;    // T_mj by type; 0 = cannot run there (or asks for more than there is)
  double remaining = 0;         // R_m
  double age_s = 0;             // since submission
  double isolated_s = 0;        // what it has done so far would have taken so long on its isolated share
  double time_left_s = kNever;  // to its deadline; may be negative
  std::string entity;
  bool runs() const;  // on some type
};

// Both jobs do more than nothing on the same GPUs of a type.
struct SharePair {
  int first = 0, second = 0;  // indices into jobs, first < second
  GpuType type;
  double first_rate = 0, second_rate = 0;
};

struct ShareProblem {
  std::vector<int> gpus;       // N_j
  std::vector<double> prices;  // US dollars per GPU and hour by type; needed for costs only
  std::vector<ShareJob> jobs;  // by id
  std::vector<SharePair> pairs;
};

struct Shares {
  std::vector<std::vector<double>> alone;  // X_mj by job, type
  std::vector<double> paired;              // X of each pair of the problem
  double objective = 0;                    // of the first program, see each function
  int64_t programs = 0, pivots = 0;
  std::vector<JobId> dropped;  // whose deadlines could not be met together and were ignored
};

inline constexpr char kTieBreak[] =
    "ties: the largest sum of throughputs (normalised ones for fairness), then CLP's vertex with columns by job and "
    "type";

// The problem of `jobs` (all new) on the GPUs of `fleet`, with pairs where `packing`. Rates are `throughput`'s.
ShareProblem share_problem(std::span<const Job> jobs, const Fleet& fleet, const Throughput& throughput, bool packing);
// Pairs of jobs with the same number of GPUs that some type carries, by (type, first, second).
void add_pairs(ShareProblem& problem, std::span<const Job* const> jobs, const Throughput& throughput);

// thr_m(X) by job.
std::vector<double> throughputs(const ShareProblem& problem, const Shares& shares);
// (s_m / w_m) / thr_m(X^eq) by job: what a throughput is multiplied with to be normalised; 0 for a job that cannot run.
std::vector<double> normalisers(const ShareProblem& problem);

// All of these leave a job that cannot run without a share. Errors: Internal (the solver gave up).

// Least attained service, weighted: maximises z, the least normalised throughput. objective = z. (POP's tables, and the files
// of POP's authors, normalise by N_j / jobs: their optimum is z x jobs / sum of N.)
absl::StatusOr<Shares> max_min_shares(const ShareProblem& problem);
// Minimises T such that every job can be done in T: thr_m(X) >= R_m / T. Exact: one program in y = X T. objective = T (s).
absl::StatusOr<Shares> makespan_shares(const ShareProblem& problem);
// Minimises rho >= (age_m + R_m / thr_m(X)) / (isolated_m + R_m / thr_m(X^iso)) for all m, to 1e-6 relative; bisection over
// linear programs. objective = rho.
absl::StatusOr<Shares> finish_time_shares(const ShareProblem& problem);
enum class Value : uint8_t { kThroughput, kThroughputPerDollar };
// Maximises the sum of thr_m(X), or of T_mj / price_j x X_mj. With deadlines: thr_m(X) >= R_m / time left for every job whose
// deadline is to come; where that has no solution, all deadlines are dropped, as in the reference code, and `dropped` names
// the jobs. objective = the sum. Error: InvalidArgument, a type without a price.
absl::StatusOr<Shares> throughput_shares(const ShareProblem& problem, Value value, bool deadlines);
// X^iso: every job has N_j / (jobs s_m) of each type, scaled down to at most 1 in all. objective = 0.
Shares isolated_shares(const ShareProblem& problem);
// X^eq, scaled down so that the GPUs suffice. objective = 0.
Shares proportional_shares(const ShareProblem& problem);

}  // namespace scalai::sched
