#include "labs/validation/policies/small/market_players.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace scalai::policy::small {
namespace {

enum class Where { kNowhere, kSpot, kDemand };

}  // namespace

SpotStay play_spot(SpotRule rule, const SpotCase& one) {
  SpotStay stay;
  Where where = Where::kNowhere;
  bool caught = false;
  int done = 0, pause = 0;
  const bool net = rule == SpotRule::kGreedy || rule == SpotRule::kUniform;
  for (int now = 0; done < one.work_s; ++now) {
    const bool offered = std::none_of(one.gone.begin(), one.gone.end(),
                                      [now](const auto& gap) { return gap.first <= now && now < gap.second; });
    if (where == Where::kSpot && !offered) where = Where::kNowhere;
    // Ahead of the even pace e(t) = t C0 / R0: done > e(t), in whole numbers.
    const auto ahead = [&](int at) {
      return static_cast<int64_t>(done) * one.deadline_s - static_cast<int64_t>(at) * one.work_s;
    };
    caught = caught || (net && one.deadline_s - now <= one.work_s - done + 2 * one.change_s);
    const bool uniform = rule == SpotRule::kUniform;
    const bool falls_behind = uniform && where == Where::kNowhere && !offered && ahead(now) <= 0;
    const bool can_return = where != Where::kDemand || (uniform && ahead(now + 2 * one.change_s) >= 0);
    Where next = where;
    if (rule == SpotRule::kOnDemandOnly || caught || falls_behind) {
      next = Where::kDemand;
    } else if (offered && can_return) {
      next = Where::kSpot;
    }
    if (next != where) pause = one.change_s;
    where = next;
    if (where == Where::kNowhere) continue;
    (where == Where::kSpot ? stay.spot_s : stay.demand_s) += 1;
    pause > 0 ? --pause : ++done;
    stay.end_s = now + 1;
  }
  return stay;
}

ChaserStay play_chaser(const ChaserCase& one) {
  ChaserStay stay;
  std::vector<double> price = one.price;
  const auto usd_per_work = [&](size_t type) { return price[type] / 3600 / one.per_s[type]; };
  const auto cheapest = [&] {
    size_t best = 0;
    for (size_t type = 1; type < price.size(); ++type) best = usd_per_work(type) < usd_per_work(best) ? type : best;
    return best;
  };
  size_t at = cheapest(), next = 0;
  double now = 0, pause = one.change_s, left = one.work, may_move_s = 0;
  while (true) {
    const double event = next < one.changes.size() ? one.changes[next].at_s : std::numeric_limits<double>::infinity();
    const double until = may_move_s > now ? std::min(event, may_move_s) : event;
    const double end = now + pause + left / one.per_s[at];
    stay.usd += price[at] / 3600 * (std::min(until, end) - now);
    if (end <= until) {
      stay.end_s = end;
      return stay;
    }
    const double paused = std::min(pause, until - now);
    left -= (until - now - paused) * one.per_s[at];
    pause -= paused;
    now = until;
    for (; next < one.changes.size() && one.changes[next].at_s <= now; ++next)
      price[static_cast<size_t>(one.changes[next].type)] = one.changes[next].price;
    const size_t to = cheapest();
    const double saved = std::min(left, one.per_s[to] * one.stay_s) * (usd_per_work(at) - usd_per_work(to)) -
                         one.move_usd - one.change_s / 3600 * price[to];
    if (usd_per_work(to) >= usd_per_work(at) || saved <= 0 || now < may_move_s) continue;
    at = to;
    pause = one.change_s;
    may_move_s = now + 86400 / one.moves_per_day;
    ++stay.moves;
  }
}

bool fills(const std::vector<DueJob>& jobs, int gpus) {
  std::vector<const DueJob*> queue;
  int slots = 0;
  for (const DueJob& job : jobs) {
    queue.push_back(&job);
    slots = std::max(slots, job.slots);
  }
  std::stable_sort(queue.begin(), queue.end(), [](const DueJob* a, const DueJob* b) { return a->slots < b->slots; });
  std::vector<int> free(static_cast<size_t>(slots), gpus);
  for (const DueJob* job : queue) {
    bool ends = false;
    for (size_t level = 0; level < job->per_slot.size() && !ends; ++level) {
      std::vector<int> left = free;
      double work = job->work;
      for (int slot = 0; slot < job->slots && !ends; ++slot) {
        int take = -1;
        for (int k = 0; k <= static_cast<int>(level); ++k)
          take = (1 << k) <= left[static_cast<size_t>(slot)] ? k : take;
        if (take < 0) continue;
        left[static_cast<size_t>(slot)] -= 1 << take;
        work -= job->per_slot[static_cast<size_t>(take)];
        ends = work <= 1e-9;
      }
      if (ends) free = left;
    }
    if (!ends) return false;
  }
  return true;
}

namespace {

// Job by job within a slot, then the next slot.
bool try_all(const std::vector<DueJob>& jobs, int gpus, std::vector<double>& left, int slot, size_t job, int free) {
  if (job == jobs.size()) {
    bool over = true;
    for (size_t m = 0; m < jobs.size(); ++m) {
      if (left[m] <= 1e-9) continue;
      if (slot + 1 >= jobs[m].slots) return false;
      over = false;
    }
    return over || try_all(jobs, gpus, left, slot + 1, 0, gpus);
  }
  const double before = left[job];
  for (size_t k = jobs[job].per_slot.size(); k-- > 0;) {
    if (before <= 1e-9 || (1 << k) > free) continue;
    left[job] = before - jobs[job].per_slot[k];
    if (try_all(jobs, gpus, left, slot, job + 1, free - (1 << k))) return true;
  }
  left[job] = before;
  return try_all(jobs, gpus, left, slot, job + 1, free);
}

}  // namespace

bool possible(const std::vector<DueJob>& jobs, int gpus) {
  std::vector<double> left;
  for (const DueJob& job : jobs) left.push_back(job.work);
  return try_all(jobs, gpus, left, 0, 0, gpus);
}

int play_hosts(const HostsCase& one) {
  std::vector<uint8_t> member(one.hosts.size(), 0);
  int samples = 0, pause = 0, saved = 0, trained_s = 0;
  for (int now = 0; now < one.until_s; ++now) {
    std::vector<uint8_t> there(one.hosts.size(), 0);
    bool lost = false, noticed = false;
    for (size_t h = 0; h < one.hosts.size(); ++h) {
      const HostsCase::Host& host = one.hosts[h];
      for (size_t k = 0; k < host.up.size(); ++k) {
        const auto [from, to] = host.up[k];
        const int notice_s = one.heeds_notice ? host.notice_s[k] : 0;
        if (from <= now && now < to - notice_s) there[h] = 1;
        lost = lost || (member[h] != 0 && now == to);
        noticed = noticed || (member[h] != 0 && notice_s > 0 && now == to - notice_s);
      }
    }
    const bool more = pause == 0 && there != member;
    if (lost) samples = one.checkpoint_s > 0 ? saved : samples - samples % one.step;
    if (lost || noticed || more) {
      saved = samples;  // a change begins with a checkpoint, or goes back to one
      trained_s = 0;
      member = there;
      pause = one.change_s + (lost ? one.detect_s : 0);
    }
    const int hosts = static_cast<int>(std::count(member.begin(), member.end(), 1));
    if (hosts == 0) pause = 0;
    if (pause > 0) {
      --pause;
    } else if (hosts > 0) {
      samples += hosts;
      if (one.checkpoint_s > 0 && ++trained_s % one.checkpoint_s == 0) saved = samples;
    }
  }
  return samples;
}

namespace {

std::vector<uint8_t> hosts_up(const HostsCase& one, int now) {
  std::vector<uint8_t> up(one.hosts.size(), 0);
  for (size_t h = 0; h < up.size(); ++h) {
    for (const auto& [from, to] : one.hosts[h].up) up[h] = up[h] != 0 || (from <= now && now < to) ? 1 : 0;
  }
  return up;
}

// The pipelines of one job, host by host; the places after the last whole one are of hosts that wait.
struct Pipelines {
  const PairsCase& one;
  std::vector<size_t> host = {};
  std::vector<uint8_t> dead = {};  // by place in a pipeline: the place before works for it
  bool due = false;                // formed anew at the end of the step
  double pause_end = 0;

  size_t whole(size_t hosts) const { return hosts - hosts % static_cast<size_t>(one.stages); }
  size_t lost() const { return static_cast<size_t>(std::count(dead.begin(), dead.end(), 1)); }
  bool works_for_nobody(size_t place) const {
    const size_t stages = static_cast<size_t>(one.stages), first = place - place % stages;
    return dead[place] != 0 && dead[first + (place - first + stages - 1) % stages] != 0;
  }
  void form(const std::vector<uint8_t>& up, double pause_until) {
    std::erase_if(host, [&up](size_t h) { return up[h] == 0; });
    for (size_t h = 0; h < up.size(); ++h) {
      if (up[h] != 0 && std::find(host.begin(), host.end(), h) == host.end()) host.push_back(h);
    }
    if (whole(host.size()) == 0) host.clear();
    dead.assign(whole(host.size()), 0);
    due = false;
    pause_end = host.empty() ? 0 : pause_until;
  }
  bool more(const std::vector<uint8_t>& up) const {
    return lost() == 0 && whole(static_cast<size_t>(std::count(up.begin(), up.end(), 1))) > dead.size();
  }
};

}  // namespace

double play_pairs(const PairsCase& one) {
  Pipelines row{.one = one};
  std::vector<uint8_t> was(one.row.hosts.size(), 0);
  double samples = 0, saved = 0, trained_s = 0;
  for (int now = 0; now < one.row.until_s; ++now) {
    const std::vector<uint8_t> up = hosts_up(one.row, now);
    bool lost = false, fatal = false;
    for (size_t place = 0; place < row.host.size(); ++place) {
      const bool working = place < row.dead.size() && row.dead[place] == 0;
      if (was[row.host[place]] == 0 || up[row.host[place]] != 0) continue;
      lost = lost || working || place >= row.dead.size();
      if (working) row.dead[place] = 1;
    }
    was = up;
    for (size_t place = 0; place < row.dead.size(); ++place) fatal = fatal || row.works_for_nobody(place);
    if (fatal) {
      samples = saved;
      trained_s = 0;
      row.form(up, now + one.row.detect_s + one.fatal_s);
    } else if (lost && row.pause_end > now) {
      row.form(up, now + one.row.detect_s + one.change_s);
    } else if (row.pause_end <= now && row.more(up)) {
      row.form(up, now + one.change_s);
    }
    const double alive = static_cast<double>(row.dead.size() - row.lost());
    const double wait = static_cast<double>(std::count(up.begin(), up.end(), 1)) - alive;
    const double pairs = static_cast<double>(row.lost());
    row.due = row.due || (pairs > 0 && (wait >= pairs || 2 * pairs > 0.05 * alive));
    for (double at = now; at < now + 1 && !row.host.empty();) {
      if (row.pause_end > at) {
        at = std::min<double>(row.pause_end, now + 1);
        if (row.pause_end <= at && at < now + 1 && row.more(up)) row.form(up, at + one.change_s);
        continue;
      }
      const double rate = static_cast<double>(row.dead.size()) / (row.lost() > 0 ? one.slow : 1);
      const double steps = samples / one.row.step, step_s = one.row.step / rate;
      const double left_s = std::max(0.0, std::ceil(steps - 1e-9) - steps) * step_s;
      if (row.due && left_s < 1e-9) {
        row.form(up, at + one.change_s);
        continue;
      }
      const double save_s = one.row.checkpoint_s - trained_s;
      const double part_s = std::min({now + 1 - at, save_s, row.due ? left_s : save_s});
      samples += rate * part_s;
      trained_s = part_s == save_s ? 0 : trained_s + part_s;
      if (part_s == save_s) saved = samples;
      at = part_s == now + 1 - at ? now + 1 : at + part_s;
    }
  }
  return samples;
}

}  // namespace scalai::policy::small
