#include "ptc/run/policy/policies/goodput/packing.h"

#include <algorithm>
#include <numeric>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

using Shares = std::vector<HostShare>;

class Packer {
 public:
  Packer(std::span<const int> capacity, std::span<const PackRequest> requests)
      : capacity_(capacity.begin(), capacity.end()), requests_(requests), cleared_(capacity.size(), 0) {
    largest_ = capacity_.empty() ? 0 : *std::max_element(capacity_.begin(), capacity_.end());
    for (size_t k = 0; k < requests.size(); ++k) order_.push_back(k);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return requests_[a].gpus > requests_[b].gpus; });
  }

  std::vector<Shares> go() {
    const int wanted = std::accumulate(requests_.begin(), requests_.end(), 0,
                                       [](int sum, const PackRequest& one) { return sum + one.gpus; });
    SCALAI_CHECK(wanted <= std::accumulate(capacity_.begin(), capacity_.end(), 0));
    while (!attempt(false)) {
      if (!clear_a_host()) {
        SCALAI_CHECK(attempt(true));
        break;
      }
    }
    return shares_;
  }

 private:
  bool stays(const PackRequest& request) const {
    int gpus = 0;
    for (const HostShare& share : request.now) {
      const auto host = static_cast<size_t>(share.host.value);
      if (cleared_[host] > 0 || share.gpus > capacity_[host]) return false;
      gpus += share.gpus;
    }
    return gpus > 0 && gpus == request.gpus;
  }

  bool attempt(bool split) {
    free_ = capacity_;
    shares_.assign(requests_.size(), {});
    for (size_t k = 0; k < requests_.size(); ++k) {
      if (!stays(requests_[k])) continue;
      const bool room = std::all_of(requests_[k].now.begin(), requests_[k].now.end(), [&](const HostShare& share) {
        return free_[static_cast<size_t>(share.host.value)] >= share.gpus;
      });
      if (!room) continue;
      for (const HostShare& share : requests_[k].now) take(k, static_cast<size_t>(share.host.value), share.gpus);
    }
    kept_free_ = free_;
    for (const size_t k : order_) {
      if (shares_[k].empty() && requests_[k].gpus > 0 && !place(k, split)) return false;
    }
    for (Shares& shares : shares_) std::sort(shares.begin(), shares.end());
    return true;
  }

  void take(size_t k, size_t host, int gpus) {
    free_[host] -= gpus;
    shares_[k].push_back({HostId(static_cast<int64_t>(host)), gpus});
  }

  bool had(size_t k, size_t host) const {
    return std::any_of(requests_[k].now.begin(), requests_[k].now.end(),
                       [&](const HostShare& share) { return share.host.value == static_cast<int32_t>(host); });
  }

  bool place(size_t k, bool split) {
    int left = requests_[k].gpus;
    while (left >= largest_ && largest_ > 0) {
      const size_t host = whole(k);
      if (host == free_.size()) break;
      take(k, host, largest_);
      left -= largest_;
    }
    if (left == 0) return true;
    if (left < largest_) {
      const size_t host = tightest(k, left);
      if (host < free_.size()) {
        take(k, host, left);
        return true;
      }
    }
    return split && scatter(k, left);
  }

  // An empty host of the largest kind, one it had before first; the number of hosts if there is none.
  size_t whole(size_t k) const {
    size_t found = free_.size();
    for (size_t h = 0; h < free_.size(); ++h) {
      if (free_[h] < largest_) continue;
      if (had(k, h)) return h;
      if (found == free_.size()) found = h;
    }
    return found;
  }

  // The host with the fewest free GPUs that has enough, one it had before first.
  size_t tightest(size_t k, int gpus) const {
    size_t found = free_.size();
    for (size_t h = 0; h < free_.size(); ++h) {
      if (free_[h] < gpus) continue;
      if (had(k, h)) return h;
      if (found == free_.size() || free_[h] < free_[found]) found = h;
    }
    return found;
  }

  bool scatter(size_t k, int left) {
    while (left > 0) {
      const auto most = std::max_element(free_.begin(), free_.end());
      if (*most == 0) return false;
      const int gpus = std::min(left, *most);
      const auto host = static_cast<size_t>(most - free_.begin());
      left -= gpus;
      const auto mine = std::find_if(shares_[k].begin(), shares_[k].end(), [&](const HostShare& share) {
        return share.host.value == static_cast<int32_t>(host);
      });
      if (mine == shares_[k].end()) {
        take(k, host, gpus);
      } else {
        mine->gpus += gpus;
        free_[host] -= gpus;
      }
    }
    return true;
  }

  // Those that stay must leave the host with the most GPUs free beside them. False: nobody stays anywhere.
  bool clear_a_host() {
    size_t found = capacity_.size();
    for (size_t h = 0; h < capacity_.size(); ++h) {
      if (cleared_[h] > 0 || kept_free_[h] == capacity_[h]) continue;
      if (found == capacity_.size() || kept_free_[h] > kept_free_[found]) found = h;
    }
    if (found == capacity_.size()) return false;
    cleared_[found] = 1;
    return true;
  }

  std::vector<int> capacity_;
  std::span<const PackRequest> requests_;
  std::vector<uint8_t> cleared_;  // by host: nobody stays because it was there
  int largest_ = 0;
  std::vector<size_t> order_;  // largest first
  std::vector<int> free_, kept_free_;
  std::vector<Shares> shares_;
};

}  // namespace

std::vector<std::vector<HostShare>> pack(std::span<const int> capacity, std::span<const PackRequest> requests) {
  return Packer(capacity, requests).go();
}

}  // namespace scalai::policy
