#pragma once
// Shares of a heterogeneous cluster: the fraction of time of each job on each GPU type, as linear programs (Narayanan
// et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI'20). Pure functions of
// numbers without clocks, rounds or hosts (rounds.h turns shares into rounds).
//
// Notation: job m wants s_m GPUs of one type, does T_mj iterations per second on s_m GPUs of type j, has R_m iterations
// left and weight w_m; there are N_j GPUs of type j. X_mj in [0, 1] is the fraction of time of m on type j.
// Constraints:
//   X >= 0;  sum over j of X_mj <= 1;  sum over m of s_m X_mj <= N_j;  X_mj = 0 if m cannot run on j.
// Space sharing adds X_cj for pairs c of jobs with equal s on the same GPUs: the time of a pair counts for both jobs
// and once for the GPUs. thr_m(X): iterations per second of m under X. X^eq_mj = N_j / (sum of N): the equal share.
//
// Ties: a linear program rarely has only one solution. Fairness objectives are followed by a second program that keeps
// their optimum and maximises the sum of the normalised throughputs (s_m / w_m) thr_m(X) / thr_m(X^eq). The makespan is
// followed by one that maximises the sum of thr_m(X). The sums need none. Equal jobs have equal shares (classes.h).
// Remaining ties end at CLP's vertex for columns in job order, then types in the fleet's order (kTieBreak has this for
// users).

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ptc/run/policy/fleet.h"
#include "ptc/run/policy/job.h"
#include "ptc/run/policy/policies/shares/program.h"
#include "ptc/run/policy/throughput.h"

namespace scalai::policy {

struct ShareJob {
  JobId id;
  int gpus = 1;                 // s_m
  double weight = 1;            // w_m
  std::vector<double> rates;    // T_mj by type; 0 = cannot run there (or requests more than there is)
  double remaining = 0;         // R_m
  double age_s = 0;             // since submission
  double isolated_s = 0;        // time of its work so far on its isolated share
  double time_left_s = kNever;  // to its deadline; may be negative
  std::string entity;
  int count = 1;      // a class of so many equal jobs (classes.h); all other numbers, and its shares, are of each
  bool runs() const;  // on at least one type
};

// Two jobs on the same GPUs of a type, with rates above 0 for both. Of classes: every pair of a job of each.
struct SharePair {
  int first = 0, second = 0;  // indices into jobs, first < second; of classes first <= second
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
  double objective = 0;                    // of the first program; see each function
  Effort effort;
  std::vector<JobId> dropped;  // jobs with ignored deadlines, because all deadlines together were infeasible
};

inline constexpr char kTieBreak[] =
    "ties: the largest sum of throughputs (normalised ones for fairness), equal shares for equal jobs, then CLP's "
    "vertex "
    "with columns by job and type";

// The problem of `jobs` (all new) on the GPUs of `fleet`, with pairs if `packing`. Rates come from `throughput`.
ShareProblem share_problem(std::span<const Job> jobs, const Fleet& fleet, const Throughput& throughput, bool packing);
// Adds pairs of jobs with equal numbers of GPUs that some type can run, by (type, first, second).
void add_pairs(ShareProblem& problem, std::span<const Job* const> jobs, const Throughput& throughput);

// thr_m(X) by job.
std::vector<double> throughputs(const ShareProblem& problem, const Shares& shares);
// (s_m / w_m) / thr_m(X^eq) by job: the factor of a normalised throughput; 0 for a job that cannot run.
std::vector<double> normalisers(const ShareProblem& problem);

// In all of these a job that cannot run has no share; equal jobs have equal shares where work left and deadlines do not
// count. Internal: the solver gave up.

// Weighted least attained service: maximises z, the least normalised throughput. objective = z. (POP's tables, and the
// files of POP's authors, normalise by N_j / jobs: their optimum is z × jobs / sum of N.)
absl::StatusOr<Shares> max_min_shares(const ShareProblem& problem);
// Minimises T such that every job can finish within T: thr_m(X) >= R_m / T. Exact: one program in y = X T. objective =
// T (s).
absl::StatusOr<Shares> makespan_shares(const ShareProblem& problem);
// Minimises rho >= (age_m + R_m / thr_m(X)) / (isolated_m + R_m / thr_m(X^iso)) for all m, to 1e-6 relative; bisection
// over linear programs. objective = rho.
absl::StatusOr<Shares> finish_time_shares(const ShareProblem& problem);
enum class Value : uint8_t { kThroughput, kThroughputPerDollar };
// Maximises the sum of thr_m(X), or of T_mj / price_j × X_mj. With deadlines: thr_m(X) >= R_m / time left for every job
// with a future deadline. If this is infeasible, all deadlines are dropped, as in the reference code, and `dropped`
// names the jobs. objective = the sum. InvalidArgument: a type without a price.
absl::StatusOr<Shares> throughput_shares(const ShareProblem& problem, Value value, bool deadlines);
// X^iso: each job has N_j / (jobs · s_m) of each type, scaled down to at most 1 in all. objective = 0.
Shares isolated_shares(const ShareProblem& problem);
// X^eq, scaled down to the number of GPUs. objective = 0.
Shares proportional_shares(const ShareProblem& problem);

}  // namespace scalai::policy
