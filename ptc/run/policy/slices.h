#pragma once
// Slices of GPUs (NVIDIA's MIG): the profiles of GPUs with seven compute and eight memory slices (A100, H100, H200,
// B200), and where each may begin. Source: NVIDIA Multi-Instance GPU User Guide, "Supported MIG Profiles" and its
// figures of placements. A profile occupies memory slices [start, start + memory); two of one GPU do not overlap.
//
//   memory slice   0   1   2   3   4   5   6   7
//   1g             ×   ×   ×   ×   ×   ×   ×        one of seven
//   2g             ×───┘   ×───┘   ×───┘
//   3g             ×───────────┘   ×───────────┘
//   4g             ×───────────┘
//   7g             ×───────────────────────────┘

#include <cstdint>
#include <span>
#include <string>

namespace scalai::policy {

inline constexpr int kSlicesOfGpu = 7;  // compute slices

struct SliceProfile {
  const char* name;  // "3g"
  int compute;       // slices: its share of the GPU's speed is compute / 7
  int memory;        // slices, of 8
  std::span<const int> starts;
};

// By size; static storage.
std::span<const SliceProfile> slice_profiles();
// nullptr: there is none. `compute`: 1, 2, 3, 4, 7.
const SliceProfile* slice_profile(const std::string& name);
const SliceProfile* slice_profile(int compute);
// The smallest profile with at least this share of a GPU, in (0, 1]. Shares are written with two digits: 0.14 is 1/7,
// 0.43 is 3/7.
const SliceProfile& slice_profile_of_share(double share);
// Whether GPUs of a kind ("h100-80g") have these profiles, by the name of their chip.
bool has_slices(const std::string& gpu_kind);

// Memory slices that a profile occupies, a bit each.
inline uint8_t slice_bits(const SliceProfile& profile, int start) {
  return static_cast<uint8_t>(((1u << profile.memory) - 1) << start);
}

}  // namespace scalai::policy
