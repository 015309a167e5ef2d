#include "ptc/run/policy/policies/order/shares_of_gpus.h"

#include <algorithm>

namespace scalai::policy::order {

Claim claim_on(const View& view, JobId id, GpuType type) {
  const Job& job = view.job(id);
  Claim claim{.id = id, .sizes = {}, .rates = {}, .work_left = 0, .share = -1};
  const double done = view.progress(id).work_done;
  claim.work_left = job.work - done;
  const int most = std::min(job.max_gpus, view.capacity(type));
  for (int gpus = job.min_gpus; gpus <= most; ++gpus) {
    const double rate = view.throughput().rate(job, type, gpus, done).per_s;
    if (!(rate > 0)) continue;
    claim.sizes.push_back(gpus);
    claim.rates.push_back(rate);
  }
  return claim;
}

GpuType Pools::choose(const View& view, JobId id, const std::vector<double>& asked) const {
  GpuType best;
  double best_load = 0;
  for (size_t t = 0; t < asked.size(); ++t) {
    const GpuType type(static_cast<int64_t>(t));
    if (view.capacity(type) == 0 || claim_on(view, id, type).sizes.empty()) continue;
    const double load = (asked[t] + view.job(id).gpus) / view.capacity(type);
    if (best.valid() && load >= best_load) continue;
    best = type;
    best_load = load;
  }
  return best;
}

std::vector<std::vector<Claim>> Pools::claims(const View& view) {
  const size_t types = view.fleet().types.size();
  std::vector<std::vector<Claim>> pools(types);
  std::vector<double> asked(types, 0);
  std::vector<JobId> homeless;
  std::map<JobId, GpuType> kept;
  for (const JobId id : view.active()) {
    const auto it = type_of_.find(id);
    if (it == type_of_.end()) {
      homeless.push_back(id);
      continue;
    }
    Claim claim = claim_on(view, id, it->second);
    if (claim.sizes.empty()) {
      homeless.push_back(id);
      continue;
    }
    kept[id] = it->second;
    asked[static_cast<size_t>(it->second.value)] += view.job(id).gpus;
    pools[static_cast<size_t>(it->second.value)].push_back(std::move(claim));
  }
  for (const JobId id : homeless) {
    const GpuType type = choose(view, id, asked);
    if (!type.valid()) continue;
    kept[id] = type;
    asked[static_cast<size_t>(type.value)] += view.job(id).gpus;
    pools[static_cast<size_t>(type.value)].push_back(claim_on(view, id, type));
  }
  type_of_ = std::move(kept);
  for (std::vector<Claim>& pool : pools) {
    std::sort(pool.begin(), pool.end(), [](const Claim& a, const Claim& b) { return a.id < b.id; });
  }
  return pools;
}

void Pools::rehome(const View& view, std::vector<int> left, std::vector<std::vector<Claim>>* pools) {
  for (size_t from = 0; from < pools->size(); ++from) {
    std::vector<Claim> unserved;
    for (const Claim& claim : (*pools)[from]) {
      if (claim.share < 0) unserved.push_back(claim);
    }
    for (const Claim& claim : unserved) {
      for (size_t to = 0; to < pools->size(); ++to) {
        const GpuType type(static_cast<int64_t>(to));
        Claim there = claim_on(view, claim.id, type);
        if (to == from || there.sizes.empty() || there.step() > left[to]) continue;
        left[to] -= there.step();
        there.share = 0;
        type_of_[claim.id] = type;
        std::erase_if((*pools)[from], [&](const Claim& other) { return other.id == claim.id; });
        (*pools)[to].push_back(std::move(there));
        break;
      }
    }
  }
}

void grant_shares(const View& view, GpuType type, const std::vector<Claim>& claims, std::vector<Grant>* grants) {
  for (const Claim& claim : claims) {
    if (claim.gpus() == 0 && view.progress(claim.id).placement.empty()) continue;
    grants->push_back(Grant{.job = claim.id, .type = type, .gpus = claim.gpus(), .hosts = {}, .beside = JobId()});
  }
}

}  // namespace scalai::policy::order
