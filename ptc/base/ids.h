#pragma once
// Strong integer ids: a DeviceId cannot be passed where a LogicalRank is meant.

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

using DeviceId = Id<struct DeviceTag>;   // one GPU (or an emulated one), dense over the cluster
using HostId = Id<struct HostTag>;       // the machine holding it, dense over the cluster
using LogicalRank = Id<struct RankTag>;  // a job's rank, dense from 0
using TensorId = Id<struct TensorTag>;   // index in a collection's tensor table

}  // namespace scalai
