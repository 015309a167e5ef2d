#include "ptc/run/policy/policies/goodput/pollux.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/status.h"
#include "ptc/run/policy/answer_log.h"
#include "ptc/run/policy/policies/goodput/beliefs.h"
#include "ptc/run/policy/policies/goodput/kept_answers.h"

namespace scalai::policy {
namespace {

constexpr int kMostOnHost = 255;  // a gene is a byte

class Pollux final : public Policy {
 public:
  Pollux(const PolluxSettings& settings, uint64_t seed)
      : settings_(settings), beliefs_(settings.model == "fitted"), random_(seed) {}

  PolicyTraits traits() const override {
    return {.preemptive = true, .elastic = true, .stochastic = true, .heterogeneous = true};
  }

  absl::Status begin(const View& view) override {
    if (settings_.model != "fitted" && settings_.model != "oracle") {
      return invalid(fmt::format("pollux: model \"{}\" is neither fitted nor oracle", settings_.model));
    }
    if (settings_.interval_s <= 0) return invalid("pollux: the interval must be above 0: interval=60s");
    if (settings_.exponent == 0) return invalid("pollux: p must not be 0: p=-1");
    if (settings_.search.population < 2) return invalid("pollux: a population is of at least 2: population=100");
    for (size_t h = 0; h < view.fleet().hosts.size(); ++h) {
      if (view.fleet().hosts[h].gpus > kMostOnHost) {
        return invalid(
            fmt::format("pollux: host {} has {} GPUs, more than {}", h, view.fleet().hosts[h].gpus, kMostOnHost));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> /*events*/) override {
    Decision decision;
    if (view.active().empty()) return decision;
    // Intervals count from 0, whatever happens between.
    const double ticks = std::floor(view.now_s() / settings_.interval_s + 1e-9);
    const bool due = view.now_s() - ticks * settings_.interval_s < 1e-6 && ticks > last_tick_;
    decision.wake_at_s = (ticks + 1) * settings_.interval_s;
    if (!due) return decision;
    last_tick_ = ticks;
    beliefs_.observe(view);
    SCALAI_ASSIGN_OR_RETURN(const bool hope, optimise(view, &decision));
    if (!hope) decision.wake_at_s = kNever;
    return decision;
  }

  bool keep_answers(AnswerLog* log) override {
    log_ = log;
    return true;
  }

  std::string remarks() const override {
    return fmt::format("pollux: {} searches, mean of their best power means {:.4g}", searches_,
                       searches_ == 0 ? 0 : means_ / static_cast<double>(searches_));
  }

 private:
  // False: nobody has or can use GPUs, so that waking up again is of no use.
  absl::StatusOr<bool> optimise(const View& view, Decision* decision) {
    std::vector<JobId> jobs(view.active().begin(), view.active().end());
    std::map<JobId, Progress> progress;
    for (const JobId id : jobs) progress.emplace(id, view.progress(id));
    std::stable_sort(jobs.begin(), jobs.end(), [&](JobId a, JobId b) {
      const double x = progress.at(a).attained_gpu_s, y = progress.at(b).attained_gpu_s;
      return x != y ? x < y : view.job(a).submit_s < view.job(b).submit_s;
    });
    AllocationProblem problem = problem_of(view, jobs, progress);
    if (std::all_of(problem.capacity.begin(), problem.capacity.end(), [](int gpus) { return gpus == 0; })) {
      return false;
    }
    SCALAI_ASSIGN_OR_RETURN(FoundAllocation found, search(jobs, problem));
    ++searches_;
    means_ += found.means[found.best];
    const bool hope = grant(view, jobs, problem, found.front[found.best], decision);
    front_ = std::move(found.front);
    front_jobs_ = std::move(jobs);
    return hope;
  }

  absl::StatusOr<FoundAllocation> search(const std::vector<JobId>& jobs, const AllocationProblem& problem) {
    const auto compute = [&] { return search_allocation(problem, adapted(jobs, problem), settings_.search, random_); };
    if (log_ == nullptr) return compute();
    SCALAI_ASSIGN_OR_RETURN(const std::string bytes,
                            log_->answer(digest_of(problem, random_), [&] { return bytes_of(compute(), random_); }));
    return allocation_of(bytes, problem.base.size(), &random_);
  }

  AllocationProblem problem_of(const View& view, const std::vector<JobId>& jobs,
                               const std::map<JobId, Progress>& progress) {
    AllocationProblem problem;
    problem.exponent = settings_.exponent;
    int gpus = 0;
    for (size_t h = 0; h < view.fleet().hosts.size(); ++h) {
      problem.capacity.push_back(view.capacity(HostId(static_cast<int64_t>(h))));
      problem.type.push_back(view.fleet().hosts[h].type.value);
      gpus += problem.capacity.back();
    }
    problem.base.assign(jobs.size() * problem.capacity.size(), 0);
    const int fair = (gpus + static_cast<int>(jobs.size()) - 1) / static_cast<int>(jobs.size());
    std::vector<double> fair_goodput;
    for (size_t k = 0; k < jobs.size(); ++k) {
      const Job& job = view.job(jobs[k]);
      const Progress& now = progress.at(jobs[k]);
      problem.jobs.push_back(row_of(view, jobs[k], job, now));
      fair_goodput.push_back(fair_of(view, jobs[k], job, fair));
      for (const HostShare& share : now.placement.hosts) {
        problem.base[k * problem.capacity.size() + static_cast<size_t>(share.host.value)] =
            static_cast<uint8_t>(share.gpus);
      }
    }
    problem.speedup = [this, &view, jobs, fair_goodput](int job, int type, int hosts, int count) {
      const auto k = static_cast<size_t>(job);
      const double goodput = beliefs_.goodput(view, jobs[k], GpuType(type), hosts, count);
      return fair_goodput[k] > 0 ? goodput / fair_goodput[k] : 0;
    };
    return problem;
  }

  AllocationProblem::Row row_of(const View& view, JobId id, const Job& job, const Progress& now) const {
    AllocationProblem::Row row;
    row.least = std::max(job.min_gpus, 1);
    row.most =
        std::max(row.least, std::min({std::max(2 * beliefs_.scaled_to(id), 1), settings_.most_gpus, job.max_gpus}));
    const double age = view.now_s() - job.submit_s;
    const double restart = view.change_cost_s(id, row.least);
    const double lost = now.restarts * restart;
    row.changed = age + restart > 0 ? std::max(age - lost, 0.0) / (age + restart) : 1;
    return row;
  }

  // On a fair share of the GPUs, all on one host as the authors count it; the fastest type.
  double fair_of(const View& view, JobId id, const Job& job, int fair) const {
    const int gpus = std::clamp(fair, std::max(job.min_gpus, 1), std::max(job.max_gpus, 1));
    double best = 0;
    for (size_t type = 0; type < view.fleet().types.size(); ++type) {
      best = std::max(best, beliefs_.near_goodput(view, id, GpuType(static_cast<int64_t>(type)), gpus));
    }
    return best;
  }

  // The last front with the jobs there are now; GPUs that left with a host are repaired away.
  std::vector<Genes> adapted(const std::vector<JobId>& jobs, const AllocationProblem& problem) const {
    const size_t hosts = problem.capacity.size();
    std::map<JobId, size_t> before;
    for (size_t k = 0; k < front_jobs_.size(); ++k) before.emplace(front_jobs_[k], k);
    std::vector<Genes> start;
    for (const Genes& old : front_) {
      Genes genes(jobs.size() * hosts, 0);
      for (size_t k = 0; k < jobs.size(); ++k) {
        const auto it = before.find(jobs[k]);
        if (it == before.end()) continue;
        std::copy_n(old.begin() + static_cast<ptrdiff_t>(it->second * hosts), hosts,
                    genes.begin() + static_cast<ptrdiff_t>(k * hosts));
      }
      start.push_back(std::move(genes));
    }
    return start;
  }

  // True if somebody has GPUs from now on, or could have if there were room.
  bool grant(const View& view, const std::vector<JobId>& jobs, const AllocationProblem& problem, const Genes& genes,
             Decision* decision) const {
    const size_t hosts = problem.capacity.size();
    bool hope = false;
    for (size_t k = 0; k < jobs.size(); ++k) {
      Grant grant;
      grant.job = jobs[k];
      for (size_t h = 0; h < hosts; ++h) {
        const int gpus = genes[k * hosts + h];
        if (gpus == 0) continue;
        grant.type = view.fleet().hosts[h].type;
        grant.gpus += gpus;
        grant.hosts.push_back({HostId(static_cast<int64_t>(h)), gpus});
      }
      hope = hope || grant.gpus > 0 || can_run(view, jobs[k], problem.jobs[k].least);
      const auto base = problem.base.begin() + static_cast<ptrdiff_t>(k * hosts);
      const auto mine = genes.begin() + static_cast<ptrdiff_t>(k * hosts);
      if (!std::equal(mine, mine + static_cast<ptrdiff_t>(hosts), base)) decision->grants.push_back(std::move(grant));
    }
    return hope;
  }

  bool can_run(const View& view, JobId job, int least) const {
    for (size_t t = 0; t < view.fleet().types.size(); ++t) {
      const GpuType type(static_cast<int64_t>(t));
      if (least <= view.capacity(type) && beliefs_.near_goodput(view, job, type, least) > 0) return true;
    }
    return false;
  }

  PolluxSettings settings_;
  Beliefs beliefs_;
  Random random_;
  AnswerLog* log_ = nullptr;
  std::vector<Genes> front_;  // of the last search
  std::vector<JobId> front_jobs_;
  double last_tick_ = -1;
  int64_t searches_ = 0;
  double means_ = 0;
};

}  // namespace

std::unique_ptr<Policy> make_pollux(const PolluxSettings& settings, uint64_t seed) {
  return std::make_unique<Pollux>(settings, seed);
}

}  // namespace scalai::policy
