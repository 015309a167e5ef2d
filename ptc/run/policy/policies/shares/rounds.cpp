#include "ptc/run/policy/policies/shares/rounds.h"

#include <algorithm>
#include <tuple>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

// Order of arrival of jobs and pairs: a pair arrives with its later job, after it.
std::tuple<int32_t, int32_t, int32_t> arrival(JobId first, JobId second) {
  if (!second.valid()) return {first.value, 0, 0};
  return {std::max(first.value, second.value), 1, std::min(first.value, second.value)};
}

}  // namespace

std::vector<Rounds::Item> Rounds::items_of(const ShareProblem& problem, std::vector<Account>& accounts,
                                           const Shares& shares) const {
  struct Slot {
    Item item;
    size_t type = 0;
    double share = 0;
  };
  std::vector<Slot> slots;
  const size_t types = problem.gpus.size();
  for (size_t m = 0; m < problem.jobs.size(); ++m) {
    for (size_t j = 0; j < types; ++j) {
      slots.push_back({{problem.jobs[m].id, JobId(), problem.jobs[m].gpus}, j, shares.alone[m][j]});
    }
  }
  for (size_t p = 0; p < problem.pairs.size(); ++p) {
    const SharePair& pair = problem.pairs[p];
    const ShareJob& first = problem.jobs[static_cast<size_t>(pair.first)];
    const ShareJob& second = problem.jobs[static_cast<size_t>(pair.second)];
    slots.push_back({{first.id, second.id, first.gpus}, static_cast<size_t>(pair.type.value), shares.paired[p]});
  }
  const auto key = [](const Slot& slot) { return arrival(slot.item.first, slot.item.second); };
  std::stable_sort(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) { return key(a) < key(b); });
  std::vector<Item> items;
  for (const Slot& slot : slots) {
    if (items.empty() || items.back().first != slot.item.first || items.back().second != slot.item.second) {
      items.push_back(slot.item);
      accounts.resize(items.size() * types);
    }
    accounts[(items.size() - 1) * types + slot.type].share = slot.share;
    accounts[(items.size() - 1) * types + slot.type].carried = true;
  }
  for (size_t m = 0, k = 0; k < items.size(); ++k) {
    if (items[k].second.valid()) continue;
    for (size_t j = 0; j < types; ++j) accounts[k * types + j].carried = problem.jobs[m].rates[j] > 0;
    ++m;
  }
  return items;
}

void Rounds::adopt(const ShareProblem& problem, const Shares& shares, double now_s) {
  SCALAI_CHECK(shares.alone.size() == problem.jobs.size() && shares.paired.size() == problem.pairs.size(),
               "shares of this problem");
  std::vector<Account> accounts;
  const std::vector<Item> items = items_of(problem, accounts, shares);
  const size_t types = problem.gpus.size();
  const double elapsed_s = now_s - adopted_s_;
  for (size_t k = 0, old = 0; k < items.size(); ++k) {
    const auto key = arrival(items[k].first, items[k].second);
    while (old < items_.size() && arrival(items_[old].first, items_[old].second) < key) ++old;
    const bool known = types == types_ && old < items_.size() && items_[old].first == items[k].first &&
                       items_[old].second == items[k].second;
    for (size_t j = 0; j < types; ++j) {
      Account& account = accounts[k * types + j];
      if (known) {
        const Account& before = accounts_[old * types + j];
        account.deficit = before.deficit + before.share * elapsed_s - (before.time - round_s_ / 2);
      } else if (items[k].second.valid()) {
        account.deficit = round_s_ / 2;  // as in Gavel, where a new pair starts with no time rather than half a round
      }
      account.time = round_s_ / 2;
    }
  }
  items_ = items;
  accounts_ = std::move(accounts);
  types_ = types;
  adopted_s_ = now_s;
}

void Rounds::finished(JobId job) {
  size_t kept = 0;
  for (size_t k = 0; k < items_.size(); ++k) {
    if (items_[k].first == job || items_[k].second == job) continue;
    items_[kept] = items_[k];
    std::copy_n(accounts_.begin() + static_cast<std::ptrdiff_t>(k * types_), types_,
                accounts_.begin() + static_cast<std::ptrdiff_t>(kept * types_));
    ++kept;
  }
  items_.resize(kept);
  accounts_.resize(kept * types_);
}

std::vector<Rounds::Entry> Rounds::entries(size_t type, bool with_share_only) const {
  std::vector<Entry> result;
  for (size_t k = 0; k < items_.size(); ++k) {
    const Account& account = accounts_[k * types_ + type];
    if (account.carried && (account.share > 0 || !with_share_only)) {
      result.push_back({account.share / account.time, account.deficit, account.share, k});
    }
  }
  std::sort(result.begin(), result.end(), [](const Entry& a, const Entry& b) {
    return std::tie(b.priority, b.deficit, b.share, a.item) < std::tie(a.priority, a.deficit, a.share, b.item);
  });
  return result;
}

std::vector<Pick> Rounds::pick(std::span<const int> gpus, std::span<const GpuType> order, bool with_share_only) const {
  std::vector<Pick> picks;
  // By job id: the last item has the latest job.
  std::vector<uint8_t> taken(items_.empty() ? 0 : static_cast<size_t>(items_.back().first.value) + 1);
  if (!items_.empty() && items_.back().second.valid()) {
    taken.resize(std::max(taken.size(), static_cast<size_t>(items_.back().second.value) + 1));
  }
  const auto busy = [&](JobId job) { return job.valid() && taken[static_cast<size_t>(job.value)] != 0; };
  for (GpuType type : order) {
    const auto j = static_cast<size_t>(type.value);
    int left = types_ == 0 ? 0 : gpus[j];
    if (left == 0) continue;
    for (const Entry& entry : entries(j, with_share_only)) {
      const Item& item = items_[entry.item];
      if (item.gpus > left || busy(item.first) || busy(item.second)) continue;
      left -= item.gpus;
      taken[static_cast<size_t>(item.first.value)] = 1;
      if (item.second.valid()) taken[static_cast<size_t>(item.second.value)] = 1;
      picks.push_back({item.first, item.second, type, item.gpus});
      if (left == 0) break;
    }
  }
  return picks;
}

void Rounds::ran(const Pick& pick, double seconds) {
  if (const size_t item = find(pick.first, pick.second); item < items_.size()) {
    accounts_[item * types_ + static_cast<size_t>(pick.type.value)].time += seconds;
  }
}

size_t Rounds::find(JobId first, JobId second) const {
  const auto key = arrival(first, second);
  const auto found = std::lower_bound(items_.begin(), items_.end(), key, [](const Item& item, const auto& wanted) {
    return arrival(item.first, item.second) < wanted;
  });
  const bool there = found != items_.end() && arrival(found->first, found->second) == key;
  return there ? static_cast<size_t>(found - items_.begin()) : items_.size();
}

}  // namespace scalai::policy
