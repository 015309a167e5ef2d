#include "executor/controller/live_holders.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace scalai::executor::controller {

void LiveHolders::note_reader(uint64_t reader, Reader where, const std::set<int64_t>& versions) {
  readers_[reader] = std::move(where);
  for (auto& [number, version] : versions_) {
    if (!versions.contains(number)) remove(version, reader);
  }
}

void LiveHolders::remove(uint64_t reader) {
  readers_.erase(reader);
  for (auto& [number, version] : versions_) remove(version, reader);
}

void LiveHolders::remove(Version& version, uint64_t reader) {
  if (version.given_bytes.erase(reader) == 0) return;  // it holds nothing of it
  for (auto& [block, holders] : version.holders) std::erase(holders, reader);
}

void LiveHolders::forget(int64_t version) { versions_.erase(version); }

void LiveHolders::expect(int64_t version, int64_t hosts, int64_t readers) {
  Version& of = versions_[version];
  of.hosts = hosts;
  of.readers = readers;
}

// Whether workers give these bytes, and not a reader that has given so many.
bool LiveHolders::Version::workers_again(int64_t given, int64_t bytes) const {
  if (hosts <= 0) return false;
  const auto first = static_cast<double>(first_bytes),
             of_host = static_cast<double>(first_bytes + again_bytes + bytes) / static_cast<double>(hosts);
  const double share = first * static_cast<double>(readers) / static_cast<double>(readers + hosts);
  const auto after = static_cast<double>(given + bytes);
  return after > kHot * share && after > of_host && static_cast<double>(again_bytes + bytes) <= kMostAgain * first;
}

std::vector<LiveHolders::Source> LiveHolders::touch(uint64_t reader, const Block& block,
                                                    std::span<const int64_t> dropped,
                                                    std::span<const uint64_t> unreached) {
  const auto asker = readers_.find(reader);
  if (asker == readers_.end()) return {};
  Version& of = versions_[block.version];
  for (const int64_t one : dropped) {
    const auto found = of.holders.find(one);
    if (found == of.holders.end()) continue;
    std::erase(found->second, reader);
    if (found->second.empty()) of.holders.erase(found);
  }
  const auto known_block = of.holders.find(block.number);
  const std::vector<uint64_t> holders = known_block == of.holders.end() ? std::vector<uint64_t>() : known_block->second;
  std::vector<uint64_t> order;
  for (const uint64_t one : holders) {
    if (one != reader && std::find(unreached.begin(), unreached.end(), one) == unreached.end()) order.push_back(one);
  }
  const auto rank = [&](uint64_t one) {
    return std::tuple(readers_.at(one).machine != asker->second.machine, of.given_bytes.at(one));
  };
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) { return rank(a) < rank(b); });
  order.resize(std::min(order.size(), kMostSources));
  const bool far = !order.empty() && readers_.at(order.front()).machine != asker->second.machine;
  if (order.empty()) {
    of.first_bytes += block.bytes;
  } else if (far && of.workers_again(of.given_bytes.at(order.front()), block.bytes)) {
    of.again_bytes += block.bytes;
    order.clear();
  }
  std::vector<Source> sources;
  for (const uint64_t one : order) sources.push_back({one, readers_.at(one).address});
  const auto least = std::min_element(of.given_bytes.begin(), of.given_bytes.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  const int64_t least_bytes = least == of.given_bytes.end() ? 0 : least->second;
  if (!order.empty()) of.given_bytes.at(order.front()) += block.bytes;
  const bool known = std::find(holders.begin(), holders.end(), reader) != holders.end();
  const bool room = known_block != of.holders.end() || of.holders.size() < kMostBlocks;
  if (!asker->second.address.empty() && !known && holders.size() < kMostHolders && room) {
    of.holders[block.number].push_back(reader);
    of.given_bytes.try_emplace(reader, least_bytes);  // who comes late does not make up for what others have given
  }
  return sources;
}

}  // namespace scalai::executor::controller
