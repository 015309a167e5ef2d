#include "ptc/run/policy/decision.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

absl::Status broken(const std::string& what) { return absl::InternalError("the policy broke a rule: " + what); }

class Checker {
 public:
  Checker(const Decision& decision, const View& view, const Rules& rules)
      : decision_(decision), view_(view), rules_(rules) {}

  absl::StatusOr<Grants> check();

 private:
  bool known(JobId id) const { return id.valid() && id.value < rules_.jobs; }
  const std::string& name(JobId id) const { return view_.job(id).name; }
  absl::Status check_refused();
  absl::Status check(const Grant& grant) const;
  absl::Status check_hosts(const Grant& grant) const;
  absl::Status check_beside(const Grant& grant) const;

  const Decision& decision_;
  const View& view_;
  const Rules& rules_;
  std::set<JobId> refused_;
  Grants grants_;
};

absl::StatusOr<Grants> Checker::check() {
  const double now_s = view_.now_s(), wake_at_s = decision_.wake_at_s;
  if (wake_at_s <= now_s && wake_at_s != rules_.armed_s)
    return broken(fmt::format("it asks to be woken at {} s, which is not after now ({} s)", wake_at_s, now_s));
  SCALAI_RETURN_IF_ERROR(check_refused());
  for (const Grant& grant : decision_.grants) grants_.push_back(&grant);
  std::sort(grants_.begin(), grants_.end(), [](const Grant* a, const Grant* b) { return a->job < b->job; });
  for (size_t k = 0; k < grants_.size(); ++k) {
    if (k > 0 && grants_[k]->job == grants_[k - 1]->job)
      return broken(fmt::format("two grants to job {}", grants_[k]->job.value));
    SCALAI_RETURN_IF_ERROR(check(*grants_[k]));
  }
  return std::move(grants_);
}

absl::Status Checker::check_refused() {
  for (const JobId id : decision_.refused) {
    if (!known(id) || rules_.presence(id) != Presence::kWaiting || !refused_.insert(id).second)
      return broken(fmt::format("job {} is refused, which does not wait", id.value));
  }
  return absl::OkStatus();
}

absl::Status Checker::check(const Grant& grant) const {
  if (!known(grant.job)) return broken(fmt::format("a grant to job {}, of {}", grant.job.value, rules_.jobs));
  const Presence presence = refused_.contains(grant.job) ? Presence::kLeft : rules_.presence(grant.job);
  if (presence == Presence::kFuture || presence == Presence::kLeft) {
    return broken(fmt::format("a grant to job \"{}\", which {}", name(grant.job),
                              presence == Presence::kFuture ? "was not submitted yet" : "has left"));
  }
  if (grant.gpus < 0) return broken(fmt::format("{} GPUs for job \"{}\"", grant.gpus, name(grant.job)));
  if (grant.gpus == 0) return absl::OkStatus();
  const auto types = static_cast<int64_t>(view_.fleet().types.size());
  if (!grant.type.valid() || grant.type.value >= types)
    return broken(fmt::format("GPU type {} for job \"{}\", of {} types", grant.type.value, name(grant.job), types));
  SCALAI_RETURN_IF_ERROR(check_hosts(grant));
  return grant.beside.valid() ? check_beside(grant) : absl::OkStatus();
}

absl::Status Checker::check_hosts(const Grant& grant) const {
  const Fleet& fleet = view_.fleet();
  int gpus = 0;
  HostId last;
  for (const HostShare& share : grant.hosts) {
    const bool there = share.host.valid() && static_cast<size_t>(share.host.value) < fleet.hosts.size();
    if (!there || share.host <= last || share.gpus <= 0 ||
        fleet.hosts[static_cast<size_t>(share.host.value)].type != grant.type) {
      return broken(fmt::format("{} GPUs of host {} for job \"{}\": hosts of the type, ascending, each with some GPUs",
                                share.gpus, share.host.value, name(grant.job)));
    }
    last = share.host;
    gpus += share.gpus;
  }
  if (fleet.per_gpu > 1 && (!grant.hosts.empty() || grant.beside.valid() || grant.gpus != view_.job(grant.job).gpus)) {
    return broken(
        fmt::format("job \"{}\" is to have {} slices of GPUs that are cut, of which only numbers are granted, "
                    "as asked for",
                    name(grant.job), grant.gpus));
  }
  if (!grant.hosts.empty() && gpus != grant.gpus)
    return broken(fmt::format("{} GPUs for job \"{}\", but {} on hosts", grant.gpus, name(grant.job), gpus));
  return absl::OkStatus();
}

absl::Status Checker::check_beside(const Grant& grant) const {
  const std::string& job = name(grant.job);
  if (!rules_.sharing) {
    return broken(
        fmt::format("job \"{}\" beside job {}, and jobs of this scenario cannot share GPUs: take a policy "
                    "without space sharing",
                    job, grant.beside.value));
  }
  if (!known(grant.beside) || grant.beside == grant.job)
    return broken(fmt::format("job \"{}\" beside job {}", job, grant.beside.value));
  const std::string& other = name(grant.beside);
  if (!grant.hosts.empty()) return broken(fmt::format("hosts for job \"{}\" and beside \"{}\"", job, other));
  const Grant* leader = find_grant(grants_, grant.beside);
  const Placement now = view_.progress(grant.beside).placement;
  if (leader != nullptr && leader->beside.valid())
    return broken(fmt::format("job \"{}\" beside \"{}\", itself beside another", job, other));
  const GpuType type = leader != nullptr ? leader->type : now.type;
  const int gpus = leader != nullptr ? leader->gpus : now.gpus();
  if (gpus != grant.gpus || type != grant.type)
    return broken(fmt::format("job \"{}\" with {} GPUs beside \"{}\" with {}", job, grant.gpus, other, gpus));
  return absl::OkStatus();
}

}  // namespace

const Grant* find_grant(const Grants& grants, JobId job) {
  const auto it = std::lower_bound(grants.begin(), grants.end(), job,
                                   [](const Grant* grant, JobId wanted) { return grant->job < wanted; });
  return it != grants.end() && (*it)->job == job ? *it : nullptr;
}

absl::StatusOr<Grants> check_decision(const Decision& decision, const View& view, const Rules& rules) {
  return Checker(decision, view, rules).check();
}

bool same_gpus(const Grant& grant, const Placement& now) {
  return !now.empty() && now.type == grant.type && now.gpus() == grant.gpus &&
         (grant.hosts.empty() || now.hosts == grant.hosts);
}

bool placed_before(const Grant& a, const Grant& b) {
  const auto key = [](const Grant& grant) {
    return std::tuple(grant.beside.valid() ? 2 : grant.hosts.empty() ? 1 : 0, -grant.gpus, grant.job);
  };
  return key(a) < key(b);
}

absl::StatusOr<Placement> place_grant(const Grant& grant, const View& view, const Placement& own, HostLedger& ledger) {
  const std::string& job = view.job(grant.job).name;
  if (!grant.hosts.empty()) {
    Placement placement{.type = grant.type, .hosts = grant.hosts};
    const absl::Status taken = ledger.take(placement);
    if (!taken.ok()) return broken(fmt::format("job \"{}\" is to have {}", job, message_of(taken)));
    return placement;
  }
  const int free = ledger.free(grant.type);
  if (free < grant.gpus) {
    return broken(fmt::format("job \"{}\" is to have {} GPUs of {}, of which {} are free", job, grant.gpus,
                              view.fleet().types[static_cast<size_t>(grant.type.value)].name, free));
  }
  return ledger.place(grant.type, grant.gpus, own);
}

}  // namespace scalai::policy
