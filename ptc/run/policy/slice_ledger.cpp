#include "ptc/run/policy/slice_ledger.h"

#include <algorithm>

#include "ptc/base/status.h"
#include "ptc/run/policy/slices.h"

namespace scalai::policy {
namespace {

bool has_room(uint8_t taken, const SliceProfile& profile) {
  return std::any_of(profile.starts.begin(), profile.starts.end(),
                     [&](int start) { return (taken & slice_bits(profile, start)) == 0; });
}

// Places that are left to any profile.
int options(uint8_t taken) {
  int count = 0;
  for (const SliceProfile& one : slice_profiles()) {
    for (const int start : one.starts) count += (taken & slice_bits(one, start)) == 0;
  }
  return count;
}

int best_start(uint8_t taken, const SliceProfile& profile) {
  int best = -1, most = -1;
  for (const int start : profile.starts) {
    const uint8_t bits = slice_bits(profile, start);
    if ((taken & bits) != 0) continue;
    if (const int left = options(taken | bits); left > most) {
      best = start;
      most = left;
    }
  }
  return best;
}

}  // namespace

SliceLedger::SliceLedger(const Fleet& fleet) {
  SCALAI_CHECK(fleet.per_gpu == kSlicesOfGpu);
  for (const HostSpec& spec : fleet.hosts) {
    const size_t gpus = static_cast<size_t>(spec.gpus / kSlicesOfGpu);
    const HostId host(static_cast<int64_t>(hosts_.size()));
    hosts_.push_back({.first = gpus_.size(), .gpus = gpus, .whole = static_cast<int>(gpus)});
    gpus_.resize(gpus_.size() + gpus, Gpu{.host = host});
  }
}

// In the sets of open hosts, or out of them; `whole` of its host is of now.
void SliceLedger::list(size_t gpu, bool in) {
  std::set<size_t>& alike = by_taken_[gpus_[gpu].taken];
  if (in)
    alike.insert(gpu);
  else
    alike.erase(gpu);
}

void SliceLedger::open(HostId id) {
  Host& host = host_of(id);
  if (host.open) return;
  host.open = true;
  for (size_t gpu = host.first; gpu < host.first + host.gpus; ++gpu) list(gpu, true);
  if (host.whole > 0) by_whole_[host.whole].insert(id);
  whole_ += host.whole;
}

void SliceLedger::close(HostId id) {
  Host& host = host_of(id);
  if (!host.open) return;
  host.open = false;
  for (size_t gpu = host.first; gpu < host.first + host.gpus; ++gpu) list(gpu, false);
  if (host.whole > 0) by_whole_[host.whole].erase(id);
  whole_ -= host.whole;
}

void SliceLedger::set(size_t gpu, uint8_t taken, int used) {
  Gpu& entry = gpus_[gpu];
  const HostId id = entry.host;
  Host& host = host_of(id);
  if (host.open) list(gpu, false);
  if (const int more = (taken == 0) - (entry.taken == 0); more != 0) {
    if (host.open && host.whole > 0) by_whole_[host.whole].erase(id);
    host.whole += more;
    if (host.open && host.whole > 0) by_whole_[host.whole].insert(id);
    if (host.open) whole_ += more;
  }
  entry.taken = taken;
  entry.used = used;
  if (host.open) list(gpu, true);
}

bool SliceLedger::fits(int slices) const {
  if (slices % kSlicesOfGpu == 0) return slices / kSlicesOfGpu <= whole_;
  const SliceProfile* profile = slice_profile(slices);
  SCALAI_CHECK(profile != nullptr);
  for (size_t taken = 0; taken < by_taken_.size(); ++taken) {
    if (!by_taken_[taken].empty() && has_room(static_cast<uint8_t>(taken), *profile)) return true;
  }
  return false;
}

Slice SliceLedger::place_part(int slices) {
  const SliceProfile& profile = *slice_profile(slices);
  size_t best = gpus_.size();
  for (size_t taken = 0; taken < by_taken_.size(); ++taken) {
    if (!has_room(static_cast<uint8_t>(taken), profile)) continue;
    for (const size_t gpu : by_taken_[taken]) {
      const bool fuller = best == gpus_.size() || gpus_[gpu].used > gpus_[best].used ||
                          (gpus_[gpu].used == gpus_[best].used && gpu < best);
      if (fuller) best = gpu;
      if (taken == 0) break;  // all alike; of others the compute slices may differ
    }
  }
  SCALAI_CHECK(best < gpus_.size(), "a placement was asked for that fits() does not cover");
  const Gpu gpu = gpus_[best];
  const int start = best_start(gpu.taken, profile);
  set(best, gpu.taken | slice_bits(profile, start), gpu.used + slices);
  return {gpu.host, static_cast<int>(best - host_of(gpu.host).first), start, slices};
}

void SliceLedger::place_whole(int gpus, std::vector<Slice>* placed) {
  while (gpus > 0) {
    auto enough = by_whole_.lower_bound(gpus);
    while (enough != by_whole_.end() && enough->second.empty()) ++enough;
    if (enough == by_whole_.end()) {
      while (enough == by_whole_.end() || enough->second.empty()) {
        SCALAI_CHECK(enough != by_whole_.begin(), "a placement was asked for that fits() does not cover");
        --enough;
      }
    }
    const HostId id = *enough->second.begin();
    const Host host = host_of(id);
    for (size_t gpu = host.first; gpu < host.first + host.gpus && gpus > 0; ++gpu) {
      if (gpus_[gpu].taken != 0) continue;
      set(gpu, slice_bits(*slice_profile(kSlicesOfGpu), 0), kSlicesOfGpu);
      placed->push_back({id, static_cast<int>(gpu - host.first), 0, kSlicesOfGpu});
      --gpus;
    }
  }
}

std::vector<Slice> SliceLedger::place(int slices) {
  std::vector<Slice> placed;
  if (slices % kSlicesOfGpu != 0) {
    placed.push_back(place_part(slices));
  } else {
    place_whole(slices / kSlicesOfGpu, &placed);
  }
  std::sort(placed.begin(), placed.end());
  return placed;
}

void SliceLedger::give(std::span<const Slice> slices) {
  for (const Slice& slice : slices) {
    const size_t gpu = host_of(slice.host).first + static_cast<size_t>(slice.gpu);
    const uint8_t bits = slice_bits(*slice_profile(slice.slices), slice.start);
    SCALAI_CHECK((gpus_[gpu].taken & bits) == bits);
    set(gpu, gpus_[gpu].taken & static_cast<uint8_t>(~bits), gpus_[gpu].used - slice.slices);
  }
}

}  // namespace scalai::policy
