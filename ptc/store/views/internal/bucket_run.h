#pragma once
// Which parameters lie in a bucket of Megatron-Core's distributed optimizer, and where. A bucket says nothing of that:
// it is a flat tensor, and its order follows from that in which modules were made. But a master rounds to its
// parameter, so a guess can be checked by values, and the one that is right everywhere is the order.
//
//   parameters in the order of a buffer: … fc1 norm qkv proj norm | fc2 fc1 norm qkv …
//   bucket                                        [ qkv · proj ·· norm · fc2 · fc1 ]     · gaps to multiples of 64
//
// A buffer has the parameters of a rank in reverse order of registration
// (ptc/state/collection/distributed_optimizer.h); a bucket has a stretch of it. Where the embedding is the head, too,
// it also comes first, on the last stage: the order is a circle. Pure functions.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace scalai::store::internal {

// Some elements of a parameter as they are stored; padding among them is not known.
struct Sample {
  std::vector<std::byte> bytes;
  std::vector<bool> known;  // by element
};

struct BucketParam {
  int64_t elements = 0;  // on one rank, padding included
  Sample first, last;    // of its elements; both have at most `elements`
};

// Whether the bucket's elements from `begin` on are masters of these.
using AreMasters = std::function<absl::StatusOr<bool>(const Sample& sample, int64_t begin)>;

struct InBucket {
  size_t param = 0;   // index in `params`
  int64_t begin = 0;  // of its first element in the bucket
  friend bool operator==(const InBucket&, const InBucket&) = default;
};
// The buckets of a buffer each for itself, or one after the other without the padding at their ends, as in a file.
enum class Joined : uint8_t { kNo, kYes };
// The stretch of `params`, which are in the order of the buffer, that is the bucket of this many elements. Empty: none
// is. FailedPrecondition: several are, so that nobody can tell which. Errors of `are_masters`.
absl::StatusOr<std::vector<InBucket>> find_in_bucket(std::span<const BucketParam> params, int64_t elements,
                                                     Joined joined, const AreMasters& are_masters);

// Which comes first: what one expert has, or what all have of a layer.
enum class Experts : uint8_t { kSequential, kGrouped };
// Where a parameter comes in a rank's order of registration, by its name in the rank's file; to be compared with
// others.
std::vector<int64_t> registration_order(const std::string& name, Experts experts);

}  // namespace scalai::store::internal
