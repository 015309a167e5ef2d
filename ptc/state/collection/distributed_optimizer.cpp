#include "ptc/state/collection/distributed_optimizer.h"

#include <numeric>

#include "ptc/base/round_up.h"
#include "ptc/base/status.h"

namespace scalai::collection {
namespace {

constexpr int64_t kStartAlignment = 64;
constexpr int64_t kEndAlignment = 128;

}  // namespace

std::vector<BucketPlace> place_in_buckets(std::span<const BufferParam> params, int ranks,
                                          const BucketOptions& options) {
  SCALAI_CHECK(ranks >= 1);
  const int64_t alignment =
      std::lcm(std::lcm(kEndAlignment, int64_t{ranks}), options.pad_to_64k ? int64_t{1} << 16 : 1);
  std::vector<BucketPlace> places(params.size());
  std::vector<size_t> open;  // parameters of the bucket that is being filled
  int64_t end = 0;           // of the last of them
  const auto close = [&] {
    for (const size_t i : open) places[i].bucket = round_up(end, alignment);
    open.clear();
    end = 0;
  };
  for (size_t i = params.size(); i-- > 0;) {
    if (params[i].own_bucket) close();
    places[i].start = round_up(end, kStartAlignment);
    end = places[i].start + params[i].elements;
    open.push_back(i);
    const bool full = options.bucket_elements > 0 && end >= options.bucket_elements;
    if (full || params[i].own_bucket) close();
  }
  close();
  return places;
}

tensor::Cut bucket_cut(const std::string& axis, const BucketPlace& place) {
  return {.axis = axis,
          .dim = tensor::Cut::kFlat,
          .rule = tensor::SplitRule::kBucket,
          .start = place.start,
          .bucket = place.bucket};
}

}  // namespace scalai::collection
