#include "ptc/run/policy/slices.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ptc/base/status.h"

namespace scalai::policy {
namespace {

constexpr std::array k1g{0, 1, 2, 3, 4, 5, 6};
constexpr std::array k2g{0, 2, 4};
constexpr std::array k3g{0, 4};
constexpr std::array kWholeWidth{0};
constexpr std::array kProfiles{SliceProfile{"1g", 1, 1, k1g}, SliceProfile{"2g", 2, 2, k2g},
                               SliceProfile{"3g", 3, 4, k3g}, SliceProfile{"4g", 4, 4, kWholeWidth},
                               SliceProfile{"7g", 7, 8, kWholeWidth}};
constexpr double kTwoDigits = 0.05;  // 7 x 0.005 and some more: 0.14, 0.29, 0.43 and 0.57 are 1, 2, 3 and 4 slices

const SliceProfile* first(const auto& is) {
  const auto at = std::find_if(kProfiles.begin(), kProfiles.end(), is);
  return at == kProfiles.end() ? nullptr : &*at;
}

}  // namespace

std::span<const SliceProfile> slice_profiles() { return kProfiles; }

const SliceProfile* slice_profile(const std::string& name) {
  return first([&](const SliceProfile& one) { return name == one.name; });
}

const SliceProfile* slice_profile(int compute) {
  return first([&](const SliceProfile& one) { return compute == one.compute; });
}

const SliceProfile& slice_profile_of_share(double share) {
  SCALAI_CHECK(share > 0 && share <= 1);
  return *first([&](const SliceProfile& one) { return one.compute >= share * kSlicesOfGpu - kTwoDigits; });
}

bool has_slices(const std::string& gpu_kind) {
  constexpr std::array kChips{"a100", "h100", "h200", "gh200", "b200", "gb200"};
  const std::string chip = gpu_kind.substr(0, gpu_kind.find('-'));
  return std::find(kChips.begin(), kChips.end(), chip) != kChips.end();
}

}  // namespace scalai::policy
