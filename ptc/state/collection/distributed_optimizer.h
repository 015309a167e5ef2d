#pragma once
// Megatron's distributed optimizer as data: the place of each parameter in the flat buckets that data-parallel ranks
// share. Pure functions; any thread may call.
//
// One buffer holds the parameters of one model chunk of a pipeline stage on one tensor-parallel rank, in reverse
// forward order. Each parameter begins at a multiple of 64 elements. The buffer is a sequence of buckets. The end of a
// bucket is padded to a multiple of lcm(128, D), or of lcm(128, D, 2^16). Each of the D ranks owns an equal share of
// every bucket, regardless of the parameter boundaries inside. D is cp·dp for dense parameters and edp for experts,
// which have their own buffer. (Megatron-Core, class _ParamAndGradBuffer.)

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ptc/state/tensor/layout.h"

namespace scalai::collection {

struct BucketOptions {
  bool pad_to_64k = false;      // the ends of buckets are also multiples of 2^16 elements (for bus bandwidth)
  int64_t bucket_elements = 0;  // a bucket is closed once it has so many elements; 0 = one bucket per buffer
};

struct BufferParam {
  int64_t elements = 0;     // on one rank, padding included
  bool own_bucket = false;  // alone in its bucket: an embedding on two stages
};

struct BucketPlace {
  int64_t start = 0;   // first element of the parameter in its bucket
  int64_t bucket = 0;  // elements of the bucket, padding included
  friend bool operator==(const BucketPlace&, const BucketPlace&) = default;
};

// The places of the parameters of one buffer. `params` and the result are in forward order. `ranks` is D (CHECK: >= 1).
std::vector<BucketPlace> place_in_buckets(std::span<const BufferParam> params, int ranks,
                                          const BucketOptions& options = {});

// The cut of a parameter's optimizer state over D ranks; `axis` is their mesh axis, e.g. "cp+dp".
tensor::Cut bucket_cut(const std::string& axis, const BucketPlace& place);

}  // namespace scalai::collection
