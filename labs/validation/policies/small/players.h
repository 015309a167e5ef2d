#pragma once
// Scheduling rules played on small cases, second by second or event by event, from their definitions alone. Nothing
// here uses the policies, the engine or their types. Pure functions.

#include <vector>

namespace scalai::policy::small {

// A job that runs for whole seconds on all of its GPUs, or not at all.
struct RigidJob {
  int submit_s = 0;
  int gpus = 1;
  int seconds = 1;
  int weight = 1;
};

// The second at which each job ends, on `gpus` equal GPUs.
//
// Smallest remaining service first (remaining seconds × GPUs), preemptive; ties to the earlier job. Each job in turn
// that fits runs in that second.
std::vector<int> play_srsf(const std::vector<RigidJob>& jobs, int gpus);
// Largest weight first, in the same way.
std::vector<int> play_priority(const std::vector<RigidJob>& jobs, int gpus);

// Finish-time fairness with leases (Themis, NSDI'20, in the form that gives all to the largest rho).
//   rho = (age + remaining) / (seconds × max(1, gpus_of_job × n / gpus)), n = mean number of jobs since its submission
// Jobs whose lease runs keep their GPUs. At a submission, a completion, and the end of a lease while somebody waits,
// the others get theirs by falling rho if they fit, each with a new lease.
std::vector<int> play_themis(const std::vector<RigidJob>& jobs, int gpus, int lease_s);

// A job that may have 1, 2, … GPUs: per_s[k] iterations a second on k + 1.
struct ElasticJob {
  double submit_s = 0;
  double work = 1;
  std::vector<double> per_s;
};

// AFS (NSDI'21) in its authors' form, on `gpus` equal GPUs: again at each submission and completion. One GPU each, the
// shorter job first. Each further GPU goes to the winner of a tournament in order of submission: of two jobs, l with
// the shorter remaining time at its present share and h with the longer, l wins if r_l / r_l' + r_h' / r_h > 2 (r, r'
// the remaining times now and with one GPU more). Returns when each job ends.
std::vector<double> play_afs_l(const std::vector<ElasticJob>& jobs, int gpus);
// The same where lengths are not known: the job that ran for fewer epochs counts as the shorter, ties: the later of the
// two in the tournament counts as the longer. Decides again at the end of an epoch, too.
std::vector<double> play_afs_p(const std::vector<ElasticJob>& jobs, int gpus, double epoch_s);

// AlloX (EuroSys'20) as in Gavel: jobs of one GPU, seconds[m][g] on GPU g. At a submission or completion the jobs that
// do not run are matched with the free GPUs: of all ways to put them in queues, the one with the least sum of
// completion times, by trying all. The head of each queue starts, and keeps its GPU to its end. Returns when each job
// ends.
struct MatchedJob {
  int submit_s = 0;
  std::vector<int> seconds;  // by GPU
};
std::vector<int> play_allox(const std::vector<MatchedJob>& jobs);

}  // namespace scalai::policy::small
