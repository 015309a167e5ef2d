#include "labs/validation/policies/small/players.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace scalai::policy::small {
namespace {

constexpr int kNotYet = -1;
constexpr double kNow = 1e-9;  // s: sums of times round

bool all_over(const std::vector<int>& end_s) {
  return std::none_of(end_s.begin(), end_s.end(), [](int end) { return end == kNotYet; });
}

// Each second every job in turn that fits, by a key of the job and of the seconds that it has left.
template <typename Key>
std::vector<int> play_in_order(const std::vector<RigidJob>& jobs, int gpus, Key key_of) {
  std::vector<int> end_s(jobs.size(), kNotYet), left;
  for (const RigidJob& job : jobs) left.push_back(job.seconds);
  for (int now = 0; !all_over(end_s); ++now) {
    std::vector<std::pair<int, size_t>> queue;
    for (size_t m = 0; m < jobs.size(); ++m) {
      if (jobs[m].submit_s <= now && left[m] > 0) queue.emplace_back(key_of(jobs[m], left[m]), m);
    }
    std::sort(queue.begin(), queue.end());
    int free = gpus;
    for (const auto& [key, m] : queue) {
      if (jobs[m].gpus > free) continue;
      free -= jobs[m].gpus;
      if (--left[m] == 0) end_s[m] = now + 1;
    }
  }
  return end_s;
}

}  // namespace

std::vector<int> play_srsf(const std::vector<RigidJob>& jobs, int gpus) {
  return play_in_order(jobs, gpus, [](const RigidJob& job, int left) { return left * job.gpus; });
}

std::vector<int> play_priority(const std::vector<RigidJob>& jobs, int gpus) {
  return play_in_order(jobs, gpus, [](const RigidJob& job, int) { return -job.weight; });
}

std::vector<int> play_themis(const std::vector<RigidJob>& jobs, int gpus, int lease_s) {
  const size_t count = jobs.size();
  std::vector<int> end_s(count, kNotYet), left, lease_until(count, 0);
  std::vector<double> job_seconds(count, 0);  // since its submission, of all jobs there
  std::vector<uint8_t> runs(count, 0);
  for (const RigidJob& job : jobs) left.push_back(job.seconds);
  for (int now = 0; !all_over(end_s); ++now) {
    std::vector<size_t> here;
    bool auction = false, waits = false;
    for (size_t m = 0; m < count; ++m) {
      if (end_s[m] == now || jobs[m].submit_s == now) auction = true;
      if (jobs[m].submit_s > now || left[m] == 0) continue;
      here.push_back(m);
      waits = waits || runs[m] == 0;
    }
    for (const size_t m : here) auction = auction || (runs[m] != 0 && lease_until[m] == now && waits);
    if (auction) {
      int free = gpus;
      std::vector<std::pair<double, size_t>> queue;
      for (const size_t m : here) {
        if (runs[m] != 0 && lease_until[m] > now) {
          free -= jobs[m].gpus;
          continue;
        }
        const int age = now - jobs[m].submit_s;
        const double there = age > 0 ? job_seconds[m] / age : static_cast<double>(here.size());
        const double alone = jobs[m].seconds * std::max(1.0, jobs[m].gpus * there / gpus);
        queue.emplace_back(-(age + left[m]) / alone, m);
      }
      std::sort(queue.begin(), queue.end());
      for (const auto& [key, m] : queue) {
        runs[m] = jobs[m].gpus <= free ? 1 : 0;
        free -= runs[m] != 0 ? jobs[m].gpus : 0;
        lease_until[m] = now + lease_s;
      }
    }
    for (const size_t m : here) {
      job_seconds[m] += static_cast<double>(here.size());
      if (runs[m] != 0 && --left[m] == 0) end_s[m] = now + 1, runs[m] = 0;
    }
  }
  return end_s;
}

namespace {

// Both AFS: who is the shorter of two differs.
class Afs {
 public:
  Afs(const std::vector<ElasticJob>& jobs, int gpus, double epoch_s)
      : jobs_(jobs), gpus_(gpus), epoch_s_(epoch_s), end_s_(jobs.size(), -1), share_(jobs.size(), 0) {
    for (const ElasticJob& job : jobs) left_.push_back(job.work);
    ran_s_.assign(jobs.size(), 0);
  }

  std::vector<double> play() {
    double now = 0;
    while (std::any_of(end_s_.begin(), end_s_.end(), [](double end) { return end < 0; })) {
      decide(now);
      double step = std::numeric_limits<double>::infinity();
      for (size_t m = 0; m < jobs_.size(); ++m) {
        if (jobs_[m].submit_s > now + kNow) step = std::min(step, jobs_[m].submit_s - now);
        if (share_[m] == 0) continue;
        step = std::min(step, seconds(m, share_[m]));
        if (epoch_s_ > 0) step = std::min(step, (epochs(m) + 1) * epoch_s_ - ran_s_[m]);
      }
      now += step;
      for (size_t m = 0; m < jobs_.size(); ++m) {
        if (share_[m] == 0) continue;
        const bool ends = seconds(m, share_[m]) <= step + kNow;
        ran_s_[m] += step;
        left_[m] -= step * rate(m, share_[m]);
        if (ends) end_s_[m] = now, share_[m] = 0;
      }
    }
    return end_s_;
  }

 private:
  double rate(size_t m, int gpus) const { return jobs_[m].per_s[static_cast<size_t>(gpus - 1)]; }
  double seconds(size_t m, int gpus) const { return left_[m] / rate(m, gpus); }
  double epochs(size_t m) const { return std::floor(ran_s_[m] / epoch_s_ + 1e-9); }
  double length(size_t m) const { return epoch_s_ > 0 ? epochs(m) : seconds(m, std::max(share_[m], 1)); }

  bool first_wins(size_t a, size_t b) const {
    const bool a_shorter = length(a) < length(b);
    const size_t l = a_shorter ? a : b, h = a_shorter ? b : a;
    const double worth =
        seconds(l, share_[l]) / seconds(l, share_[l] + 1) + seconds(h, share_[h] + 1) / seconds(h, share_[h]);
    return a_shorter == (worth > 2);
  }

  void decide(double now) {
    std::vector<size_t> here;
    for (size_t m = 0; m < jobs_.size(); ++m) {
      share_[m] = 0;
      if (jobs_[m].submit_s <= now + kNow && end_s_[m] < 0) here.push_back(m);
    }
    int free = gpus_;
    std::vector<size_t> queue = here;
    std::stable_sort(queue.begin(), queue.end(), [this](size_t a, size_t b) { return length(a) < length(b); });
    for (const size_t m : queue) {
      if (free == 0) return;
      share_[m] = 1;
      --free;
    }
    for (; free > 0; --free) {
      int winner = -1;
      for (const size_t m : here) {
        if (share_[m] == static_cast<int>(jobs_[m].per_s.size())) continue;
        if (winner < 0 || first_wins(m, static_cast<size_t>(winner))) winner = static_cast<int>(m);
      }
      if (winner < 0) return;
      ++share_[static_cast<size_t>(winner)];
    }
  }

  const std::vector<ElasticJob>& jobs_;
  int gpus_;
  double epoch_s_;
  std::vector<double> end_s_, left_, ran_s_;
  std::vector<int> share_;
};

// The least sum of completion times of `queue` from job `next` on, with each job at any place of any GPU's queue.
class Queues {
 public:
  Queues(const std::vector<MatchedJob>& jobs, std::vector<size_t> queue, std::vector<size_t> free)
      : jobs_(jobs), queue_(std::move(queue)), free_(std::move(free)), lines_(free_.size()) {
    place(0);
  }
  // By free GPU: the job at the head of its line; -1: none.
  const std::vector<int>& heads() const { return heads_; }

 private:
  void place(size_t next) {
    if (next == queue_.size()) {
      int sum = 0;
      for (size_t f = 0; f < free_.size(); ++f) {
        int at = 0;
        for (const size_t m : lines_[f]) sum += at += jobs_[m].seconds[free_[f]];
      }
      if (sum >= least_) return;
      least_ = sum;
      heads_.clear();
      for (const auto& line : lines_) heads_.push_back(line.empty() ? -1 : static_cast<int>(line.front()));
      return;
    }
    for (auto& line : lines_) {
      for (size_t at = 0; at <= line.size(); ++at) {
        line.insert(line.begin() + static_cast<std::ptrdiff_t>(at), queue_[next]);
        place(next + 1);
        line.erase(line.begin() + static_cast<std::ptrdiff_t>(at));
      }
    }
  }

  const std::vector<MatchedJob>& jobs_;
  std::vector<size_t> queue_, free_;
  std::vector<std::vector<size_t>> lines_;
  int least_ = std::numeric_limits<int>::max();
  std::vector<int> heads_;
};

}  // namespace

std::vector<double> play_afs_l(const std::vector<ElasticJob>& jobs, int gpus) { return Afs(jobs, gpus, 0).play(); }
std::vector<double> play_afs_p(const std::vector<ElasticJob>& jobs, int gpus, double epoch_s) {
  return Afs(jobs, gpus, epoch_s).play();
}

std::vector<int> play_allox(const std::vector<MatchedJob>& jobs) {
  std::vector<int> end_s(jobs.size(), kNotYet);
  const size_t gpus = jobs.front().seconds.size();
  std::vector<int> busy_until(gpus, 0);
  for (int now = 0; !all_over(end_s); ++now) {
    bool event = false;
    std::vector<size_t> queue, free;
    for (size_t m = 0; m < jobs.size(); ++m) {
      event = event || jobs[m].submit_s == now || end_s[m] == now;
      if (jobs[m].submit_s <= now && end_s[m] == kNotYet) queue.push_back(m);
    }
    for (size_t g = 0; g < gpus; ++g) {
      if (busy_until[g] <= now) free.push_back(g);
    }
    if (!event || queue.empty() || free.empty()) continue;
    const std::vector<int> heads = Queues(jobs, queue, free).heads();
    for (size_t f = 0; f < free.size(); ++f) {
      if (heads[f] < 0) continue;
      const auto m = static_cast<size_t>(heads[f]);
      end_s[m] = busy_until[free[f]] = now + jobs[m].seconds[free[f]];
    }
  }
  return end_s;
}

}  // namespace scalai::policy::small
