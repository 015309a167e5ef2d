#pragma once
// What a scenario's policy may look at: the cluster as a fleet, jobs as those of a workload, and how far each has come.
// A picture that the control loop brings up to date before it asks; nothing here decides. One thread.
//
// Work is steps. A job without `steps` has more than any run does (kEndless): policies that need to know it are refused
// when the scenario is loaded.

#include <vector>

#include "ptc/run/control/internal/policy_throughput.h"
#include "ptc/run/policy/host_ledger.h"
#include "ptc/run/policy/policy.h"
#include "ptc/run/scenario/strategy.h"

namespace scalai::control {

inline constexpr double kEndless = 1e15;

class PolicyView final : public policy::View {
 public:
  // Both outlive this.
  PolicyView(const scenario::Scenario& scenario, const scenario::Strategy& strategy);

  // ---- brought up to date by the control loop
  void set_now(double now_s) { now_s_ = now_s; }
  void set_usable(const std::vector<char>& by_device);  // up, and not to be left
  void set_active(std::vector<policy::JobId> active) { active_ = std::move(active); }
  void set_progress(int job, policy::Progress progress) {
    progress_.at(static_cast<size_t>(job)) = std::move(progress);
  }
  void limit(int job, int gpus) { throughput_.limit(job, gpus); }

  // The GPUs that these devices are; those of one type.
  policy::Placement placement_of(const std::vector<DeviceId>& devices) const;
  // The usable GPUs, all free.
  const policy::HostLedger& ledger() const { return ledger_; }

  // ---- policy::View
  double now_s() const override { return now_s_; }
  const policy::Fleet& fleet() const override { return fleet_; }
  int capacity(policy::GpuType type) const override { return ledger_.capacity(type); }
  int capacity(HostId host) const override { return ledger_.capacity(host); }
  double price(policy::GpuType type) const override;
  const policy::Job& job(policy::JobId id) const override { return jobs_.at(static_cast<size_t>(id.value)); }
  policy::Progress progress(policy::JobId id) const override { return progress_.at(static_cast<size_t>(id.value)); }
  std::span<const policy::JobId> active() const override { return active_; }
  const policy::Throughput& throughput() const override { return throughput_; }
  // The strategy's numbers, and all the job's state over the links of as many hosts as the change reaches.
  double change_cost_s(policy::JobId id, int to_gpus) const override;

 private:
  const scenario::Scenario& scenario_;
  const scenario::Strategy& strategy_;
  const policy::Fleet fleet_;
  policy::HostLedger ledger_;
  PolicyThroughput throughput_;
  std::vector<policy::Job> jobs_;
  std::vector<policy::Progress> progress_;
  std::vector<policy::JobId> active_;
  double now_s_ = 0;
};

}  // namespace scalai::control
