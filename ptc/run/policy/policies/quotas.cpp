#include "ptc/run/policy/policies/quotas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "ptc/base/status.h"
#include "ptc/base/units.h"

namespace scalai::policy {
namespace {

size_t at(GpuType type) { return static_cast<size_t>(type.value); }

// What one virtual cluster sees: its jobs, and the GPUs it may have now.
class PartView final : public View {
 public:
  void look_at(const View& view) { view_ = &view; }

  double now_s() const override { return view_->now_s(); }
  const Fleet& fleet() const override { return view_->fleet(); }
  int capacity(GpuType type) const override { return caps[at(type)]; }
  int capacity(HostId host) const override { return view_->capacity(host); }
  double price(GpuType type) const override { return view_->price(type); }
  const Job& job(JobId id) const override { return view_->job(id); }
  std::span<const JobId> active() const override { return jobs; }
  const Throughput& throughput() const override { return view_->throughput(); }
  double change_cost_s(JobId id, int to_gpus) const override { return view_->change_cost_s(id, to_gpus); }
  Progress progress(JobId id) const override {
    Progress progress = view_->progress(id);
    if (evicted.count(id) == 0) return progress;
    progress.placement = {};
    progress.beside = JobId();
    progress.even_per_s = 0;
    return progress;
  }

  std::vector<int> caps;    // by type
  std::vector<JobId> jobs;  // by id
  std::set<JobId> evicted;  // at this instant, before the policy is asked

 private:
  const View* view_ = nullptr;
};

// One virtual cluster. Vectors are by GPU type.
struct Part {
  VirtualCluster cluster;
  std::unique_ptr<Policy> policy;
  PartView view = {};
  std::set<JobId> running = {};  // jobs with GPUs
  int64_t demand = 0;            // GPUs that its jobs ask for
  std::vector<Event> events = {};
  double wake_at_s = kNever;
  // Of this instant: GPUs in use; the part of the quota that it wants, and of that it has; borrowed GPUs that it may
  // keep.
  std::vector<int> held = {}, want = {}, base = {}, keep = {};

  bool must_give_back() const {
    for (size_t t = 0; t < held.size(); ++t) {
      if (held[t] > base[t] + keep[t]) return true;
    }
    return false;
  }
  // Use for its quota: who has least is asked first.
  double load() const { return std::accumulate(held.begin(), held.end(), 0.0) / std::max(cluster.gpus(), 1); }
};

class QuotaPolicy final : public Policy {
 public:
  QuotaPolicy(Quotas quotas, std::vector<std::unique_ptr<Policy>> policies)
      : cluster_of_(std::move(quotas.cluster_of)), borrow_(quotas.borrow), traits_(policies.front()->traits()) {
    for (size_t k = 0; k < policies.size(); ++k) {
      parts_.push_back({.cluster = std::move(quotas.clusters[k]), .policy = std::move(policies[k])});
    }
  }

  PolicyTraits traits() const override {
    PolicyTraits traits = traits_;
    traits.preemptive = traits.preemptive || borrow_;
    traits.work_conserving = false;  // what a quota leaves idle stays idle
    return traits;
  }

  bool keep_answers(AnswerLog* log) override {
    return std::all_of(parts_.begin(), parts_.end(), [&](Part& part) { return part.policy->keep_answers(log); });
  }

  absl::Status begin(const View& view) override {
    for (Part& part : parts_) {
      part.view.look_at(view);
      part.view.caps = part.cluster.quota;
      SCALAI_RETURN_IF_ERROR(part.policy->begin(part.view));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    Decision decision;
    bool again = false;
    for (Part& part : parts_) part.view.look_at(view);
    for (const Event& event : events) take(view, event, &decision);
    share_out(view);
    std::vector<Part*> order;
    for (Part& part : parts_) order.push_back(&part);
    std::stable_sort(order.begin(), order.end(), [](const Part* a, const Part* b) {
      return std::pair(!a->must_give_back(), a->load()) < std::pair(!b->must_give_back(), b->load());
    });
    for (Part* part : order) SCALAI_RETURN_IF_ERROR(ask(view, part, &decision));
    for (const Part& part : parts_) {
      decision.wake_at_s = std::min(decision.wake_at_s, part.wake_at_s);
      again = again || (part.view.jobs.size() > part.running.size() && may_have_more(part));
    }
    if (again) decision.wake_at_s = std::nextafter(view.now_s(), kNever);
    return decision;
  }

  std::string remarks() const override {
    std::string text;
    if (refused_ > 0) {
      text = fmt::format("refused, for more GPUs than the quota of its virtual cluster: {}", counted(refused_, "job"));
    }
    for (const Part& part : parts_) {
      const std::string own = part.policy->remarks();
      if (!own.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", part.cluster.name, own);
    }
    return text;
  }

 private:
  Part& part_of(JobId id) { return parts_[static_cast<size_t>(cluster_of_.at(static_cast<size_t>(id.value)))]; }

  int64_t asked(const View& view, JobId id) const {
    const Job& job = view.job(id);
    return traits_.elastic ? std::max(job.gpus, job.max_gpus) : job.gpus;
  }

  // Each virtual cluster is told what happened to its jobs; all are told about hosts.
  void take(const View& view, const Event& event, Decision* decision) {
    using Kind = Event::Kind;
    if (event.kind == Kind::kTimer) return;
    if (event.kind == Kind::kCapacity) {
      for (Part& part : parts_) part.events.push_back(event);
      return;
    }
    Part& part = part_of(event.job);
    if (event.kind == Kind::kSubmitted) {
      const int most = *std::max_element(part.cluster.quota.begin(), part.cluster.quota.end());
      if (view.job(event.job).gpus > most) {
        decision->refused.push_back(event.job);
        ++refused_;
        return;
      }
      part.view.jobs.push_back(event.job);
      part.demand += asked(view, event.job);
    }
    if (event.kind == Kind::kFinished) {
      std::erase(part.view.jobs, event.job);
      part.demand -= asked(view, event.job);
    }
    if (event.kind == Kind::kFinished || event.kind == Kind::kLost) part.running.erase(event.job);
    part.events.push_back(event);
  }

  // Of two jobs that share GPUs the first counts, or the one that is left.
  static bool counts(const Part& part, JobId id, JobId beside) {
    return !beside.valid() || id < beside || part.view.evicted.count(beside) > 0;
  }

  // GPUs on hosts without notice.
  std::vector<int> held_by(const View& view, const Part& part) const {
    std::vector<int> held(view.fleet().types.size(), 0);
    for (const JobId id : part.running) {
      const Progress progress = part.view.progress(id);
      if (!counts(part, id, progress.beside)) continue;
      for (const HostShare& share : progress.placement.hosts) {
        if (view.capacity(share.host) > 0) held[at(progress.placement.type)] += share.gpus;
      }
    }
    return held;
  }

  // Of its quota, by type: what it holds, and all that its jobs wait for, as they may wait for any type.
  std::vector<int> wanted_by(const Part& part, const std::vector<int>& held) const {
    std::vector<int> want = part.cluster.quota;
    const int64_t waits = std::max<int64_t>(0, part.demand - std::accumulate(held.begin(), held.end(), int64_t{0}));
    for (size_t t = 0; borrow_ && t < want.size(); ++t) {
      want[t] = static_cast<int>(std::min<int64_t>(want[t], held[t] + waits));
    }
    return want;
  }

  // What each one may have: its own first, then what it borrowed as long as the owners do not want it.
  void share_out(const View& view) {
    const size_t types = view.fleet().types.size();
    pool_.assign(types, 0);
    spare_.assign(types, 0);
    for (Part& part : parts_) {
      part.view.evicted.clear();
      part.held = held_by(view, part);
      part.want = wanted_by(part, part.held);
      part.base = part.keep = part.cluster.quota;
    }
    for (size_t t = 0; t < types; ++t) {
      int wanted = 0, base = 0;
      for (Part& part : parts_) {
        part.base[t] = std::min(part.held[t], part.want[t]);
        part.keep[t] = part.held[t] - part.base[t];
        wanted += part.want[t];
        base += part.base[t];
      }
      const int capacity = view.capacity(GpuType(static_cast<int64_t>(t)));
      const int spare = borrow_ ? std::max(0, capacity - wanted) : 0;
      const int kept = give_back(t, spare);
      spare_[t] = spare - kept;
      pool_[t] = std::max(0, capacity - base - kept);
    }
  }

  // Cuts what is borrowed to `spare`, where most is borrowed for the quota; returns what is kept.
  int give_back(size_t t, int spare) {
    int kept = 0;
    for (const Part& part : parts_) kept += part.keep[t];
    for (; kept > spare; --kept) {
      const auto most = std::max_element(parts_.begin(), parts_.end(), [t](const Part& a, const Part& b) {
        return a.keep[t] / std::max<double>(a.cluster.gpus(), 1) < b.keep[t] / std::max<double>(b.cluster.gpus(), 1);
      });
      --most->keep[t];
    }
    return kept;
  }

  std::vector<int> caps_of(const Part& part) const {
    std::vector<int> caps = part.base;
    for (size_t t = 0; t < caps.size(); ++t) {
      caps[t] += part.keep[t] + std::min(pool_[t], part.want[t] - part.base[t] + spare_[t]);
    }
    return caps;
  }

  // One that was asked earlier may use what another one has left since then.
  bool may_have_more(const Part& part) const {
    const std::vector<int> caps = caps_of(part);
    for (size_t t = 0; t < caps.size(); ++t) {
      if (caps[t] > part.view.caps[t]) return true;
    }
    return false;
  }

  absl::Status ask(const View& view, Part* part, Decision* decision) {
    std::vector<int> caps = caps_of(*part);
    evict(view, part, caps);
    if (part->wake_at_s <= view.now_s()) {
      part->events.push_back({Event::Kind::kTimer, JobId()});
      part->wake_at_s = kNever;
    }
    Decision own;
    if (caps != part->view.caps || !part->events.empty()) {
      const auto is_capacity = [](const Event& event) { return event.kind == Event::Kind::kCapacity; };
      if (caps != part->view.caps && std::none_of(part->events.begin(), part->events.end(), is_capacity)) {
        part->events.push_back({Event::Kind::kCapacity, JobId()});
      }
      part->view.caps = std::move(caps);
      SCALAI_ASSIGN_OR_RETURN(own, part->policy->decide(part->view, part->events));
      part->events.clear();
      part->wake_at_s = own.wake_at_s;
    }
    carry_out(view, part, own, decision);
    return absl::OkStatus();
  }

  // Takes the jobs that got their GPUs last off them until the rest is within `caps`. A preemptive policy may give some
  // of them their GPUs again, at once, and take them from others.
  void evict(const View& view, Part* part, const std::vector<int>& caps) {
    std::vector<int> held = part->held;
    for (size_t t = 0; t < caps.size(); ++t) {
      while (held[t] > caps[t]) {
        const JobId newest = newest_on(view, *part, t);
        SCALAI_CHECK(newest.valid(), part->cluster.name);
        part->view.evicted.insert(newest);
        part->events.push_back({Event::Kind::kLost, newest});
        held = held_by(view, *part);
      }
    }
  }

  JobId newest_on(const View& view, const Part& part, size_t type) const {
    JobId newest;
    double since_s = -1;
    for (const JobId id : part.running) {
      const Progress progress = part.view.progress(id);
      if (progress.placement.empty() || at(progress.placement.type) != type || progress.last_change_s < since_s)
        continue;
      if (std::none_of(progress.placement.hosts.begin(), progress.placement.hosts.end(),
                       [&](const HostShare& share) { return view.capacity(share.host) > 0; })) {
        continue;  // it is leaving its hosts anyway
      }
      newest = id;
      since_s = progress.last_change_s;
    }
    return newest;
  }

  // Its decision becomes part of ours, and what it uses from now on counts.
  void carry_out(const View& view, Part* part, const Decision& own, Decision* decision) {
    std::set<JobId> granted;
    std::vector<int> used = held_by(view, *part);
    for (const Grant& grant : own.grants) {
      granted.insert(grant.job);
      const Progress progress = part->view.progress(grant.job);
      const bool takes_up = counts(*part, grant.job, progress.beside);
      for (const HostShare& share : progress.placement.hosts) {
        if (takes_up && view.capacity(share.host) > 0) used[at(progress.placement.type)] -= share.gpus;
      }
      if (grant.gpus > 0 && !grant.beside.valid()) used[at(grant.type)] += grant.gpus;
      if (grant.gpus > 0)
        part->running.insert(grant.job);
      else
        part->running.erase(grant.job);
      decision->grants.push_back(grant);
    }
    for (const JobId id : part->view.evicted) {
      if (granted.count(id) > 0) continue;
      part->running.erase(id);
      decision->grants.push_back(Grant{.job = id, .type = GpuType(0), .gpus = 0, .hosts = {}, .beside = JobId()});
    }
    for (const JobId id : own.refused) {
      std::erase(part->view.jobs, id);
      part->demand -= asked(view, id);
      decision->refused.push_back(id);
    }
    // What it waited for on all types it may have got on one.
    const std::vector<int> before = std::exchange(part->want, wanted_by(*part, used));
    for (size_t t = 0; t < used.size(); ++t) {
      pool_[t] += part->base[t] + part->keep[t] - used[t];
      const int borrowed = std::max(0, used[t] - part->want[t]);
      spare_[t] = std::max(0, spare_[t] + before[t] - part->want[t] + part->keep[t] - borrowed);
      part->base[t] = std::min(used[t], part->want[t]);
      part->keep[t] = borrowed;
    }
  }

  std::vector<Part> parts_;
  std::vector<int> cluster_of_;
  bool borrow_;
  PolicyTraits traits_;
  int64_t refused_ = 0;
  // Of this instant, by type: GPUs that nobody holds; of them those that no owner waits for.
  std::vector<int> pool_, spare_;
};

}  // namespace

int VirtualCluster::gpus() const { return std::accumulate(quota.begin(), quota.end(), 0); }

std::unique_ptr<Policy> with_quotas(Quotas quotas, std::vector<std::unique_ptr<Policy>> policies) {
  SCALAI_CHECK(!policies.empty() && policies.size() == quotas.clusters.size());
  return std::make_unique<QuotaPolicy>(std::move(quotas), std::move(policies));
}

}  // namespace scalai::policy
