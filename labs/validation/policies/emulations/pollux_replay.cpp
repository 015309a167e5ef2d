#include "labs/validation/policies/emulations/pollux_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/run/policy/policies/goodput/genetic.h"
#include "ptc/run/policy/policies/goodput/goodput.h"
#include "ptc/run/policy/policies/goodput/step_model.h"

namespace scalai::policy::validation {
namespace {

constexpr double kStep_s = 60, kMove_s = 30;
constexpr int kMostOfAJob = 64;
constexpr int64_t kPinnedBatch = 32768;  // its simulator pins ncf to one GPU and this batch

struct ReplayedJob {
  const Application* app = nullptr;
  double submit_s = 0;
  std::optional<double> end_s;
  double now_s = 0, rescale_s = 0, progress = 0, attained_gpu_s = 0;
  int epoch = 0, restarts = -1, profiled = 0;
  Genes gpus;  // by host
  BatchCut cut;
  std::vector<StepObservation> seen;
  StepModel model;
  GradientNoise noise;

  bool pinned() const { return app->name() == "ncf"; }
  int replicas() const { return std::accumulate(gpus.begin(), gpus.end(), 0); }
  std::vector<int> placement() const {
    std::vector<int> hosts;
    for (const uint8_t count : gpus) {
      if (count > 0) hosts.push_back(count);
    }
    return hosts;
  }
};

class Simulator {
 public:
  Simulator(const Profiles& profiles, const Workload& workload, const PolluxReplay& settings)
      : settings_(settings), random_(settings.seed) {
    for (const Job& job : workload.jobs) {
      ReplayedJob& one = jobs_.emplace_back();
      one.app = profiles.find(job.type);
      one.submit_s = job.submit_s;
      one.gpus.assign(static_cast<size_t>(settings.hosts), 0);
    }
  }

  absl::StatusOr<std::vector<double>> run() {
    const auto ended = [](const ReplayedJob& job) { return job.end_s.has_value(); };
    while (!std::all_of(jobs_.begin(), jobs_.end(), ended)) {
      for (ReplayedJob& job : jobs_) SCALAI_RETURN_IF_ERROR(train(job, kStep_s));
      now_s_ += kStep_s;
      std::vector<size_t> active;
      for (size_t k = 0; k < jobs_.size(); ++k) {
        if (jobs_[k].end_s) std::fill(jobs_[k].gpus.begin(), jobs_[k].gpus.end(), 0);
        if (!jobs_[k].end_s && jobs_[k].submit_s <= now_s_) active.push_back(k);
      }
      if (!active.empty()) give_out(active);
    }
    std::vector<double> times;
    for (const ReplayedJob& job : jobs_) times.push_back(*job.end_s - job.submit_s);
    return times;
  }

 private:
  absl::Status train(ReplayedJob& job, double seconds) {
    const std::vector<int> placement = job.placement();
    const int replicas = job.replicas();
    const double delay = replicas == 0 ? 0 : std::min(job.rescale_s, seconds);
    job.attained_gpu_s += delay * replicas;
    job.rescale_s -= delay;
    job.now_s += delay;
    seconds -= delay;
    while (replicas > 0 && seconds > 0 && !job.end_s) {
      const std::optional<StepTime> time = job.app->step_time(placement, job.cut.local);
      if (!time) return invalid(fmt::format("no step of {} on {} GPUs is known", job.app->name(), replicas));
      const int64_t batch = replicas * job.cut.local * (job.cut.accumulation + 1);
      job.noise = job.app->noise(batch, job.epoch);
      learn(job, static_cast<int>(placement.size()), *time);
      const double goodput = rate(job, *time, job.cut, batch);
      const double left = job.app->epoch_end(job.epoch) - job.progress;
      double took_s = seconds;
      if (goodput * seconds < left) {
        job.progress += goodput * seconds;
      } else {
        took_s = settings_.rounded ? std::nearbyint(left / goodput) : left / goodput;
        job.progress = job.app->epoch_end(job.epoch++);
        if (job.epoch == job.app->epochs()) job.end_s = job.now_s + took_s;
      }
      job.now_s += took_s;
      job.attained_gpu_s += took_s * replicas;
      seconds -= took_s;
      if (!job.end_s) choose_batch(job);
    }
    job.now_s += seconds;
    return absl::OkStatus();
  }

  static void learn(ReplayedJob& job, int hosts, const StepTime& time) {
    const int gpus = job.replicas();
    const bool known = std::any_of(job.seen.begin(), job.seen.end(), [&](const StepObservation& one) {
      return one.hosts == hosts && one.gpus == gpus && one.local == job.cut.local;
    });
    if (known) return;
    job.seen.push_back({hosts, gpus, job.cut.local, time.step_s - time.sync_s, time.step_s});
    job.model = fit_step_model(job.seen);
    job.profiled = std::max(job.profiled, gpus);
  }

  // Progress per second at the current epoch.
  static double rate(const ReplayedJob& job, const StepTime& time, const BatchCut& cut, int64_t batch) {
    const double scale = static_cast<double>(batch) / static_cast<double>(job.app->initial_batch());
    return step_gain(job.app->noise(batch, job.epoch), scale) /
           (time.step_s + static_cast<double>(cut.accumulation) * (time.step_s - time.sync_s));
  }

  const std::vector<BatchCut>& cuts(const Application* app, int replicas) {
    const auto [it, fresh] = cuts_.try_emplace({app, replicas});
    if (fresh) it->second = adaptive_cuts(*app, replicas);
    return it->second;
  }

  double believed(const ReplayedJob& job, std::span<const BatchCut> cuts, int hosts, int gpus) const {
    return believed_goodput(job.model, job.noise, job.app->initial_batch(), cuts, hosts, gpus);
  }

  void choose_batch(ReplayedJob& job) {
    const std::vector<int> placement = job.placement();
    const int gpus = job.replicas();
    const bool first = job.seen.empty() && settings_.initial_batch;
    if (job.pinned() || first) {
      const int64_t batch =
          job.pinned() ? kPinnedBatch : std::max(job.app->initial_batch(), job.app->least_local() * gpus);
      job.cut = job.app->cut(batch, gpus);
      return;
    }
    double best = -1;
    for (const BatchCut& cut : cuts(job.app, gpus)) {
      double goodput = 0;
      if (settings_.fitted_batch && !job.seen.empty()) {
        goodput = believed(job, std::span(&cut, 1), static_cast<int>(placement.size()), gpus);
      } else if (const auto time = job.app->step_time(placement, cut.local)) {
        goodput = rate(job, *time, cut, gpus * cut.local * (cut.accumulation + 1));
      }
      if (goodput <= best) continue;
      best = goodput;
      job.cut = cut;
    }
  }

  void give_out(std::vector<size_t>& active) {
    std::stable_sort(active.begin(), active.end(), [this](size_t a, size_t b) {
      const ReplayedJob &x = jobs_[a], &y = jobs_[b];
      return x.attained_gpu_s != y.attained_gpu_s ? x.attained_gpu_s < y.attained_gpu_s : x.submit_s < y.submit_s;
    });
    const size_t hosts = static_cast<size_t>(settings_.hosts);
    AllocationProblem problem;
    problem.capacity.assign(hosts, settings_.gpus_per_host);
    problem.type.assign(hosts, 0);
    const int gpus = settings_.hosts * settings_.gpus_per_host, count = static_cast<int>(active.size());
    const int fair = (gpus + count - 1) / count;
    std::vector<double> fair_goodput;
    for (const size_t k : active) {
      const ReplayedJob& job = jobs_[k];
      problem.jobs.push_back(row_of(job));
      problem.base.insert(problem.base.end(), job.gpus.begin(), job.gpus.end());
      fair_goodput.push_back(job.seen.empty() ? fair : believed(job, cuts(job.app, fair), 1, fair));
    }
    problem.speedup = [&](int at, int /*type*/, int on_hosts, int on_gpus) {
      const auto k = static_cast<size_t>(at);
      const ReplayedJob& job = jobs_[active[k]];
      const double goodput = job.seen.empty() ? on_gpus : believed(job, cuts(job.app, on_gpus), on_hosts, on_gpus);
      return fair_goodput[k] > 0 ? goodput / fair_goodput[k] : 0;
    };
    FoundAllocation found = search_allocation(problem, start_of(active, hosts), SearchSettings{}, random_);
    const Genes& best = found.front[found.best];
    for (size_t k = 0; k < active.size(); ++k) place(jobs_[active[k]], std::span(best).subspan(k * hosts, hosts));
    front_ = std::move(found.front);
    front_jobs_ = active;
  }

  AllocationProblem::Row row_of(const ReplayedJob& job) const {
    const double age_s = now_s_ - job.submit_s;
    AllocationProblem::Row row;
    row.most = std::min(
        {std::max(2 * job.profiled, 1), kMostOfAJob, static_cast<int>(job.app->most_batch() / job.app->least_local())});
    if (job.pinned()) row.most = 1;
    row.changed = std::max(age_s - std::max(job.restarts, 0) * kMove_s, 0.0) / (age_s + kMove_s);
    return row;
  }

  // The last front, with the jobs there are now.
  std::vector<Genes> start_of(const std::vector<size_t>& active, size_t hosts) const {
    std::vector<Genes> start;
    for (const Genes& old : front_) {
      Genes& genes = start.emplace_back(active.size() * hosts);
      for (size_t k = 0; k < active.size(); ++k) {
        const auto before = std::find(front_jobs_.begin(), front_jobs_.end(), active[k]) - front_jobs_.begin();
        if (before == std::ssize(front_jobs_)) continue;
        std::copy_n(old.begin() + before * static_cast<ptrdiff_t>(hosts), hosts,
                    genes.begin() + static_cast<ptrdiff_t>(k * hosts));
      }
    }
    return start;
  }

  void place(ReplayedJob& job, std::span<const uint8_t> gpus) {
    if (std::equal(gpus.begin(), gpus.end(), job.gpus.begin())) return;
    job.gpus.assign(gpus.begin(), gpus.end());
    if (job.replicas() == 0) return;
    choose_batch(job);
    job.rescale_s = kMove_s;
    ++job.restarts;
  }

  PolluxReplay settings_;
  Random random_;
  std::vector<ReplayedJob> jobs_;
  std::map<std::pair<const Application*, int>, std::vector<BatchCut>> cuts_;
  std::vector<Genes> front_;  // of the last search
  std::vector<size_t> front_jobs_;
  double now_s_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<double>> replay_pollux(const Profiles& profiles, const Workload& workload,
                                                  const PolluxReplay& settings) {
  SCALAI_CHECK(settings.hosts > 0 && settings.gpus_per_host > 0);
  for (const Job& job : workload.jobs) {
    if (profiles.find(job.type) == nullptr) return invalid(fmt::format("no profile for \"{}\"", job.type));
  }
  return Simulator(profiles, workload, settings).run();
}

}  // namespace scalai::policy::validation
