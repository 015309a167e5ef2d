#include "labs/policies/themis.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ptc/base/random.h"
#include "ptc/run/policy/policies/order/ordered.h"
#include "ptc/run/policy/policies/order/shares_of_gpus.h"

namespace scalai::policy::labs {
namespace {

using order::Claim;
using order::claim_on;
using order::fill_all;
using order::FillRequest;
using order::remaining_s;
using order::safe_gpus;

constexpr PolicyTraits kThemisTraits = {
    .preemptive = true, .elastic = true, .work_conserving = true, .needs_durations = true};

struct Bidder {
  Claim claim;
  double age_s = 0;
  double isolated_s = 0;

  // log of 1 / rho with a share; -1: it waits for one lease and has its smallest then.
  double log_bid(int share, double lease_s) const {
    const double left_s = share < 0 ? lease_s + claim.seconds(0) : claim.seconds(share);
    return std::log(isolated_s) - std::log(age_s + left_s);
  }
};

class Themis : public Policy {
 public:
  Themis(double lease_s, bool auction, double fairness, bool fastest, uint64_t seed)
      : lease_s_(lease_s), auction_(auction), fairness_(fairness), fastest_(fastest), random_(seed) {}
  PolicyTraits traits() const override { return kThemisTraits; }

  absl::StatusOr<Decision> decide(const View& view, std::span<const Event> events) override {
    watch_contention(view, events);
    FillRequest request{.ids = {}, .keep = {}, .options = {.fastest = fastest_}};
    std::vector<std::pair<double, JobId>> queue;  // by -rho
    for (const JobId id : view.active()) {
      const bool runs = !view.progress(id).placement.empty();
      const auto lease = lease_until_.find(id);
      if (runs && lease != lease_until_.end() && lease->second > view.now_s()) {
        request.keep.push_back(id);
      } else {
        queue.emplace_back(-rho(view, id), id);
      }
    }
    std::sort(queue.begin(), queue.end());
    for (const auto& entry : queue) request.ids.push_back(entry.second);
    Decision decision;
    decision.grants = auction_ ? auction(view, request) : fill_all(view, request);
    renew(view, &decision);
    return decision;
  }

 private:
  struct Seen {
    double at_s = 0, job_s = 0;  // at submission: time, and the integral of the number of jobs
  };

  void watch_contention(const View& view, std::span<const Event> events) {
    job_s_ += (view.now_s() - last_s_) * last_jobs_;
    last_s_ = view.now_s();
    last_jobs_ = static_cast<double>(view.active().size());
    for (const Event& event : events) {
      if (event.kind == Event::Kind::kSubmitted) seen_[event.job] = Seen{view.now_s(), job_s_};
      if (event.kind == Event::Kind::kFinished) {
        seen_.erase(event.job);
        lease_until_.erase(event.job);
      }
      if (event.kind == Event::Kind::kLost) lease_until_.erase(event.job);
    }
  }

  double isolated_s(const View& view, JobId id) const {
    const Seen& seen = seen_.at(id);
    const double age_s = view.now_s() - seen.at_s;
    const double jobs = age_s > 0 ? (job_s_ - seen.job_s) / age_s : last_jobs_;
    int up = 0;
    for (size_t t = 0; t < view.fleet().types.size(); ++t) up += view.capacity(GpuType(static_cast<int64_t>(t)));
    const Job& job = view.job(id);
    const double done = view.progress(id).work_done;
    const double alone_s = remaining_s(view, id) * job.work / (job.work - done);
    return alone_s * std::max(1.0, job.gpus * jobs / std::max(1, up));
  }

  double rho(const View& view, JobId id) const {
    const double left_s = remaining_s(view, id);
    if (!(left_s < kNever)) return 0;  // runs on no type
    return (view.now_s() - seen_.at(id).at_s + left_s) / isolated_s(view, id);
  }

  // Who was granted or kept what it had holds a new lease; the next auction is at the first end of a lease if anybody
  // waits.
  void renew(const View& view, Decision* decision) {
    for (const Grant& grant : decision->grants) {
      if (grant.gpus > 0) {
        lease_until_[grant.job] = view.now_s() + lease_s_;
      } else {
        lease_until_.erase(grant.job);
      }
    }
    if (lease_until_.size() >= view.active().size()) return;
    for (const auto& entry : lease_until_) {
      if (entry.second > view.now_s()) decision->wake_at_s = std::min(decision->wake_at_s, entry.second);
    }
  }

  std::vector<Grant> auction(const View& view, const FillRequest& request);
  std::vector<Grant> auction_type(const View& view, GpuType type, int free, const std::vector<JobId>& bidders);
  void share(std::vector<Bidder>* bidders, int free, const Bidder* without) const;
  double others_log(const std::vector<Bidder>& bidders, JobId without) const;

  double lease_s_;
  bool auction_;
  double fairness_;
  bool fastest_;
  Random random_;
  double job_s_ = 0, last_s_ = 0, last_jobs_ = 0;
  std::map<JobId, Seen> seen_;
  std::map<JobId, double> lease_until_;
};

// The smallest share each, for a product is nothing if a factor is; then greedily the largest gain in the sum of logs
// per GPU. `without` gets nothing.
void Themis::share(std::vector<Bidder>* bidders, int free, const Bidder* without) const {
  const auto bids = [&](const Claim& claim) {
    return claim.grows() && claim.step() <= free && (without == nullptr || without->claim.id != claim.id);
  };
  for (Bidder& bidder : *bidders) {
    bidder.claim.share = -1;
    if (!bids(bidder.claim)) continue;
    free -= bidder.claim.step();
    bidder.claim.share = 0;
  }
  while (true) {
    Bidder* best = nullptr;
    double best_gain = 0;
    for (Bidder& bidder : *bidders) {
      Claim& claim = bidder.claim;
      if (claim.share < 0 || !bids(claim)) continue;
      const double gain =
          (bidder.log_bid(claim.share + 1, lease_s_) - bidder.log_bid(claim.share, lease_s_)) / claim.step();
      if (gain <= best_gain) continue;
      best = &bidder;
      best_gain = gain;
    }
    if (best == nullptr) return;
    free -= best->claim.step();
    ++best->claim.share;
  }
}

double Themis::others_log(const std::vector<Bidder>& bidders, JobId without) const {
  double sum = 0;
  for (const Bidder& bidder : bidders) {
    if (bidder.claim.id != without) sum += bidder.log_bid(bidder.claim.share, lease_s_);
  }
  return sum;
}

std::vector<Grant> Themis::auction_type(const View& view, GpuType type, int free, const std::vector<JobId>& ids) {
  std::vector<Bidder> bidders;
  for (const JobId id : ids) {
    Bidder bidder{.claim = claim_on(view, id, type)};
    if (bidder.claim.sizes.empty()) continue;
    bidder.age_s = view.now_s() - seen_.at(id).at_s;
    bidder.isolated_s = isolated_s(view, id);
    if (bidder.isolated_s < kNever) bidders.push_back(std::move(bidder));
  }
  share(&bidders, free, nullptr);
  const std::vector<Bidder> winners = bidders;
  std::vector<Grant> grants;
  for (const Bidder& winner : winners) {
    if (winner.claim.share < 0) continue;
    share(&bidders, free, &winner);
    const double kept =
        std::exp(others_log(winners, winner.claim.id) - others_log(bidders, winner.claim.id)) * winner.claim.gpus();
    int gpus = 0;  // the largest size it can use within what it keeps
    for (const int size : winner.claim.sizes) {
      if (size <= std::floor(kept * (1 + 1e-9))) gpus = size;
    }
    if (gpus == 0) continue;
    grants.push_back(Grant{.job = winner.claim.id, .type = type, .gpus = gpus, .hosts = {}, .beside = JobId()});
  }
  return grants;
}

std::vector<Grant> Themis::auction(const View& view, const FillRequest& request) {
  std::vector<int> free;
  for (size_t t = 0; t < view.fleet().types.size(); ++t) {
    free.push_back(view.capacity(GpuType(static_cast<int64_t>(t))));
  }
  for (const JobId id : request.keep) {
    const Placement placement = view.progress(id).placement;
    free[static_cast<size_t>(placement.type.value)] -= safe_gpus(view, placement);
  }
  const size_t some =
      std::max<size_t>(1, static_cast<size_t>(std::ceil((1 - fairness_) * static_cast<double>(request.ids.size()))));
  std::vector<JobId> bidders(request.ids.begin(),
                             request.ids.begin() + static_cast<long>(std::min(some, request.ids.size())));
  std::vector<JobId> rest(request.ids.begin() + static_cast<long>(bidders.size()), request.ids.end());
  std::vector<Grant> grants;
  for (size_t t = 0; t < free.size(); ++t) {
    for (const Grant& grant : auction_type(view, GpuType(static_cast<int64_t>(t)), free[t], bidders)) {
      free[t] -= grant.gpus;
      grants.push_back(grant);
      std::erase(bidders, grant.job);
    }
  }
  // What is left, in random order, to those who asked for no more than that.
  rest.insert(rest.end(), bidders.begin(), bidders.end());
  for (size_t k = rest.size(); k > 1; --k)
    std::swap(rest[k - 1], rest[static_cast<size_t>(random_.below(static_cast<int64_t>(k)))]);
  for (const JobId id : rest) {
    Grant grant{.job = id, .type = GpuType(), .gpus = 0, .hosts = {}, .beside = JobId()};
    const Progress progress = view.progress(id);
    for (size_t t = 0; t < free.size(); ++t) {
      const GpuType type(static_cast<int64_t>(t));
      const int gpus = view.job(id).gpus;
      if (gpus > free[t] || !(view.throughput().rate(view.job(id), type, gpus, progress.work_done).per_s > 0)) continue;
      if (grant.gpus > 0 && progress.placement.type != type) continue;  // it had better stay on its type
      grant.type = type;
      grant.gpus = gpus;
    }
    if (grant.gpus > 0) free[static_cast<size_t>(grant.type.value)] -= grant.gpus;
    if (grant.gpus > 0 || !progress.placement.empty()) grants.push_back(grant);
  }
  return grants;
}

std::unique_ptr<Policy> make_themis(const Parameters& parameters, uint64_t seed) {
  return std::make_unique<Themis>(
      std::max(1.0, parameters.seconds("lease")), parameters.text("form") == "partial-allocation",
      std::min(1.0, parameters.number("fairness")), parameters.text("types") == "fastest", seed);
}

}  // namespace

std::vector<PolicyInfo> themis_policies() {
  return {{.name = "themis",
           .family = "order",
           .summary = "finish-time fairness: the jobs furthest behind their fair share first, by leases",
           .source = "Themis, NSDI'20",
           .parameters =
               {{.name = "lease", .default_value = "30min", .unit = "time", .help = "for which a job keeps its GPUs"},
                {.name = "form",
                 .default_value = "largest-rho",
                 .unit = "largest-rho|partial-allocation",
                 .help = "what an auction is: all to the largest rho, or bids and partial allocation"},
                {.name = "fairness",
                 .default_value = "0.8",
                 .unit = "share",
                 .help = "f of partial-allocation: the 1 - f share of jobs that are worst off bid"},
                {.name = "types",
                 .default_value = "fleet",
                 .unit = "fleet|fastest",
                 .help = "of several GPU types with room the first in the fleet, or the one the job is fastest on"}},
           .traits = kThemisTraits,
           .make = make_themis}};
}

}  // namespace scalai::policy::labs
