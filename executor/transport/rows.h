#pragma once
// How state in rows (a box inside a larger array) travels over the network: the one rule, which both ends of a read
// ask. Each end asks it for its own rows, so a box may be dense at one end and in rows at the other.
//
//                 answering end                                    asking end
//   kPacked       all rows are copied to one array, then sent      received in one array, then copied to the rows
//   kGathered     each chunk is copied just before it is sent,     received in the rows
//                 by a thread of its own
//   kInPlace      UCX gets a list of the rows (IOV)                received in the rows
//
// Both constants are from results/transport: `scalai exec calibrate --transport=ucx` measures the three ways on a
// machine and says where they cross there.

#include <cstdint>

namespace scalai::executor::transport {

enum class Rows { kPacked, kGathered, kInPlace };

inline constexpr int64_t kGatheredFrom_bytes = 256;
inline constexpr int64_t kInPlaceFrom_bytes = int64_t{16} << 10;

constexpr Rows rows_by(int64_t row_bytes) {
  if (row_bytes >= kInPlaceFrom_bytes) return Rows::kInPlace;
  return row_bytes >= kGatheredFrom_bytes ? Rows::kGathered : Rows::kPacked;
}

}  // namespace scalai::executor::transport
