#pragma once
// Megatron's distributed optimizer as data: where each parameter lies in the flat buckets that data parallelism shares.
//
// The parameters that one model chunk of a pipeline stage has on a tensor-parallel rank lie in one buffer, in reverse
// forward order; each begins at a multiple of 64 elements. The buffer is a row of buckets. A bucket's end is padded to
// a multiple of lcm(128, D), or of lcm(128, D, 2^16), and each of the D ranks owns an equal share of every bucket,
// whatever parameters begin or end inside it. D is cp·dp for dense parameters and edp for experts, which have a buffer
// of their own. (Megatron-Core, class _ParamAndGradBuffer.)

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ptc/tensor/layout.h"

namespace scalai::collection {

struct BucketOptions {
  bool pad_to_64k = false;      // bucket ends also at multiples of 2^16 elements (for bus bandwidth)
  int64_t bucket_elements = 0;  // a bucket is closed when it has so many; 0 = one bucket a buffer
};

struct BufferParam {
  int64_t elements = 0;     // on one rank, padding included
  bool own_bucket = false;  // alone in its bucket: an embedding that two stages share
};

struct BucketPlace {
  int64_t start = 0;   // of the parameter in its bucket
  int64_t bucket = 0;  // elements of the bucket, padding included
  friend bool operator==(const BucketPlace&, const BucketPlace&) = default;
};

// The place of each of one buffer's parameters, which come in forward order. ranks >= 1: D.
std::vector<BucketPlace> place_in_buckets(std::span<const BufferParam> params, int ranks,
                                          const BucketOptions& options = {});

// The cut of a parameter's optimizer state over D ranks; `axis` is e.g. "cp+dp".
tensor::Cut bucket_cut(const std::string& axis, const BucketPlace& place);

}  // namespace scalai::collection
