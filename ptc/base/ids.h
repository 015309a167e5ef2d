#pragma once
// Strong integer ids: the compiler refuses a DeviceId in place of a LogicalRank. Values fit in 32 bits.

#include <compare>
#include <cstdint>

namespace scalai {

template <class Tag>
struct Id {
  int32_t value = -1;  // -1 = none
  constexpr Id() = default;
  constexpr explicit Id(int64_t v) : value(static_cast<int32_t>(v)) {}
  constexpr bool valid() const { return value >= 0; }
  friend constexpr auto operator<=>(Id, Id) = default;
};

using DeviceId = Id<struct DeviceTag>;   // one GPU or emulated GPU, numbered from 0 over the cluster
using HostId = Id<struct HostTag>;       // the machine of some devices, numbered from 0 over the cluster
using LogicalRank = Id<struct RankTag>;  // a rank of a job, numbered from 0
using TensorId = Id<struct TensorTag>;   // index into a collection's tensors

}  // namespace scalai
