#include "ptc/run/policy/policies/goodput/goodput.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr int kCandidates = 50;       // global batches tried
constexpr double kTiny = 1e-8;        // for ceilings of quotients
constexpr int kMostPerHost = 4;       // GPUs a node of the profiles
constexpr int kMostReplicas = 64;     // "simulator can't handle more" (simulator.py)
constexpr int64_t kNcfBatch = 32768;  // simulator.py pins ncf to one GPU and this batch

bool pinned(const Application& app) { return app.name() == "ncf"; }

class Source final : public GoodputSource {
 public:
  Source(Profiles profiles, int per_host, BatchMode mode)
      : profiles_(std::move(profiles)), per_host_(per_host), mode_(mode) {}

  const Application* application(const Job& job) const override { return profiles_.find(job.type); }

  Rate rate(const Job& job, GpuType /*type*/, int gpus, double work_done) const override {
    std::vector<int> hosts(static_cast<size_t>(std::max(gpus, 0) / per_host_), per_host_);
    if (gpus % per_host_ > 0) hosts.push_back(gpus % per_host_);
    return rate_on(job, hosts, work_done);
  }

  Rate placed_rate(const Job& job, const Placement& placement, double work_done) const override {
    return rate_on(job, hosts_of(placement), work_done);
  }

  BatchCut batch(const Job& job, const Placement& placement, double work_done) const override {
    const Application* app = application(job);
    return app == nullptr ? BatchCut{} : best(*app, job, hosts_of(placement), epoch(*app, work_done)).cut;
  }

  std::string description() const override {
    return fmt::format(
        "goodput of measured applications ({}), {} batch; beyond four nodes interpolated, outside: refuse",
        fmt::join(profiles_.names(), ", "), mode_ == BatchMode::kAdaptive ? "best" : "fixed");
  }

 private:
  struct Best {
    double goodput = 0;
    BatchCut cut;
  };

  static std::vector<int> hosts_of(const Placement& placement) {
    std::vector<int> hosts;
    for (const HostShare& share : placement.hosts) hosts.push_back(share.gpus);
    return hosts;
  }

  // Work done is summed up by the engine: a boundary counts as reached a rounding error early.
  static int epoch(const Application& app, double work_done) { return app.epoch_at(work_done * (1 + 1e-12)); }

  Rate rate_on(const Job& job, const std::vector<int>& hosts, double work_done) const {
    const Application* app = application(job);
    if (app == nullptr || hosts.empty()) return {};
    const int now = epoch(*app, work_done);
    return {best(*app, job, hosts, now).goodput, now + 1 < app->epochs() ? app->epoch_end(now) : kNever};
  }

  Best best(const Application& app, const Job& job, const std::vector<int>& hosts, int epoch) const {
    const int64_t batch = fixed_batch(app, job);
    std::string key = fmt::format("{}/{}/{}/", app.name(), epoch, batch);
    for (const int gpus : hosts) key += static_cast<char>('0' + gpus);
    if (const auto it = cache_.find(key); it != cache_.end()) return it->second;
    int replicas = 0;
    for (const int gpus : hosts) replicas += gpus;
    Best most;
    const auto cuts = batch == 0 ? adaptive_cuts(app, replicas) : std::vector<BatchCut>{app.cut(batch, replicas)};
    for (const BatchCut& cut : cuts) {
      const double goodput = goodput_of(app, hosts, replicas, cut, epoch);
      if (goodput > most.goodput) most = {goodput, cut};
    }
    cache_.emplace(std::move(key), most);
    return most;
  }

  // 0 = the best one.
  int64_t fixed_batch(const Application& app, const Job& job) const {
    if (pinned(app)) return kNcfBatch;
    if (mode_ == BatchMode::kAdaptive) return 0;
    return job.batch > 0 ? job.batch : app.initial_batch();
  }

  static double goodput_of(const Application& app, const std::vector<int>& hosts, int replicas, const BatchCut& cut,
                           int epoch) {
    const std::optional<StepTime> time = app.step_time(hosts, cut.local);
    if (!time.has_value()) return 0;
    const int64_t batch = replicas * cut.local * (cut.accumulation + 1);
    const double scale = static_cast<double>(batch) / static_cast<double>(app.initial_batch());
    const double seconds = time->step_s + static_cast<double>(cut.accumulation) * (time->step_s - time->sync_s);
    return step_gain(app.noise(batch, epoch), scale) / seconds;
  }

  Profiles profiles_;
  int per_host_;
  BatchMode mode_;
  mutable std::unordered_map<std::string, Best> cache_;  // looked up only, never iterated
};

absl::Status check_jobs(const Profiles& profiles, const Workload& workload) {
  std::set<std::string> unknown;
  for (const Job& job : workload.jobs) {
    if (profiles.find(job.type) == nullptr) unknown.insert(job.type);
  }
  if (unknown.empty()) return absl::OkStatus();
  return invalid(
      fmt::format("no profile for {}: known are {}", fmt::join(unknown, ", "), fmt::join(profiles.names(), ", ")));
}

}  // namespace

std::vector<BatchCut> adaptive_cuts(const Application& app, int replicas) {
  const double lo = static_cast<double>(std::max(app.initial_batch(), app.least_local() * replicas));
  const double hi = static_cast<double>(app.most_batch());
  std::vector<BatchCut> cuts;
  if (lo > hi) return cuts;
  for (int k = 0; k < kCandidates; ++k) {
    const double local = lo * std::pow(hi / lo, static_cast<double>(k) / (kCandidates - 1)) / replicas;
    auto passes = static_cast<int64_t>(std::ceil(local / static_cast<double>(app.most_local()) - kTiny));
    // One pass on one GPU cannot tell the gradient's noise: two from there on.
    if (replicas == 1 && local > static_cast<double>(app.initial_batch()) + kTiny) {
      passes = std::max<int64_t>(passes, 2);
    }
    auto cut = BatchCut{static_cast<int64_t>(std::ceil(local / static_cast<double>(passes) - kTiny)), passes - 1};
    cut.local = std::min(cut.local, app.most_batch() / (replicas * passes));
    if (cut.local < app.least_local() || cut.local > app.most_local()) continue;
    if (cuts.empty() || !(cuts.back() == cut)) cuts.push_back(cut);
  }
  return cuts;
}

absl::StatusOr<std::unique_ptr<GoodputSource>> pollux_throughput(const std::string& folder, const Fleet& fleet,
                                                                 const Workload& workload, BatchMode mode) {
  SCALAI_ASSIGN_OR_RETURN(Profiles profiles, Profiles::load(folder));
  SCALAI_RETURN_IF_ERROR(check_jobs(profiles, workload));
  if (fleet.types.size() > 1) {
    return invalid(
        fmt::format("{}: profiles are of one GPU type, the cluster has {}: leave one", folder, fleet.types.size()));
  }
  int per_host = 1;
  for (const HostSpec& host : fleet.hosts) per_host = std::max(per_host, host.gpus);
  if (per_host > kMostPerHost) {
    return invalid(
        fmt::format("{}: profiles have at most {} GPUs a node, the cluster has {}", folder, kMostPerHost, per_host));
  }
  return std::make_unique<Source>(std::move(profiles), per_host, mode);
}

absl::Status pollux_set_work(const std::string& folder, BatchMode mode, Workload* workload) {
  SCALAI_ASSIGN_OR_RETURN(const Profiles profiles, Profiles::load(folder));
  SCALAI_RETURN_IF_ERROR(check_jobs(profiles, *workload));
  for (Job& job : workload->jobs) {
    const Application& app = *profiles.find(job.type);
    const int64_t batch =
        mode == BatchMode::kAdaptive ? app.most_batch() : (job.batch > 0 ? job.batch : app.initial_batch());
    job.work = app.work();
    job.min_gpus = 1;
    job.max_gpus = static_cast<int>(std::clamp<int64_t>(batch / app.least_local(), 1, kMostReplicas));
    if (pinned(app)) job.max_gpus = 1;
  }
  return absl::OkStatus();
}

}  // namespace scalai::policy
