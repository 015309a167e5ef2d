#pragma once
// A fixed View for tests of the protocol: two GPU types, jobs added by the test. One thread.

#include <utility>
#include <vector>

#include "ptc/run/policy/policy.h"

namespace scalai::policy::testing {

class PaperView final : public View {
 public:
  // Hosts 0 and 1 with 4 v100 each, host 2 with 8 k80. A v100 does 2 iterations per second, a k80 one.
  PaperView() {
    fleet_.types = {{"v100", 2.5}, {"k80", 0}};
    fleet_.hosts = {{GpuType(0), 4}, {GpuType(0), 4}, {GpuType(1), 8}};
    capacity_ = {4, 4, 8};
  }
  JobId add(const std::string& name, int gpus, double work, double submit_s = 0) {
    Job job;
    job.name = name;
    job.type = "bert";
    job.gpus = job.min_gpus = job.max_gpus = gpus;
    job.work = work;
    job.submit_s = submit_s;
    jobs_.push_back(job);
    progress_.emplace_back();
    active_.push_back(JobId(static_cast<int64_t>(jobs_.size()) - 1));
    return active_.back();
  }

  double now_s() const override { return now; }
  const Fleet& fleet() const override { return fleet_; }
  int capacity(GpuType type) const override {
    int sum = 0;
    for (size_t h = 0; h < fleet_.hosts.size(); ++h) sum += fleet_.hosts[h].type == type ? capacity_[h] : 0;
    return sum;
  }
  int capacity(HostId host) const override { return capacity_[static_cast<size_t>(host.value)]; }
  double price(GpuType type) const override { return fleet_.types[static_cast<size_t>(type.value)].price_per_gpu_hour; }
  const Job& job(JobId id) const override { return jobs_[static_cast<size_t>(id.value)]; }
  Progress progress(JobId id) const override { return progress_[static_cast<size_t>(id.value)]; }
  std::span<const JobId> active() const override { return active_; }
  const Throughput& throughput() const override { return speed_; }
  double change_cost_s(JobId, int to_gpus) const override { return 10.0 * to_gpus; }

  Job& spec(JobId id) { return jobs_[static_cast<size_t>(id.value)]; }
  Progress& at(JobId id) { return progress_[static_cast<size_t>(id.value)]; }
  void set_capacity(int host, int gpus) { capacity_[static_cast<size_t>(host)] = gpus; }

  // Two jobs on the same GPUs: the first as fast as `share` of alone, the second half of that. 0: they cannot share.
  void set_share(double share) { speed_.share = share; }
  // Rates hold until this much work; beyond it they are half.
  void set_until_work(double work) { speed_.until_work = work; }
  void leave(JobId id) { std::erase(active_, id); }

  double now = 100;

 private:
  class Speed final : public Throughput {
   public:
    Rate rate(const Job&, GpuType type, int gpus, double done) const override {
      const bool late = done >= until_work;
      return {.per_s = gpus * (type.value == 0 ? 2.0 : 1.0) / (late ? 2 : 1), .until_work = late ? kNever : until_work};
    }
    // Half of it between hosts.
    Rate placed_rate(const Job& job, const Placement& placement, double done) const override {
      return {.per_s = rate(job, placement.type, placement.gpus(), done).per_s / (placement.hosts.size() > 1 ? 2 : 1)};
    }
    std::pair<double, double> shared_rate(const Job& a, const Job&, GpuType type, int gpus) const override {
      const double alone = rate(a, type, gpus, 0).per_s;
      return {share * alone, share * alone / 2};
    }
    double share = 0, until_work = kNever;
    std::string description() const override { return "on paper"; }
  };
  Fleet fleet_;
  Speed speed_;
  std::vector<int> capacity_;
  std::vector<Job> jobs_;
  std::vector<Progress> progress_;
  std::vector<JobId> active_;
};

}  // namespace scalai::policy::testing
