#include "executor/state/digest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "executor/state/digest_mix.h"
#include "executor/state/runs.h"
#include "ptc/base/status.h"

namespace scalai::executor::state {
namespace {
static_assert(std::endian::native == std::endian::little, "digests are defined on little-endian bytes");

using internal::kLeafBytes;
using internal::Leaf;

class Digest {
 public:
  void take(const std::byte* data, int64_t count) {
    bytes_ += static_cast<uint64_t>(count);
    while (count > 0) {
      if (held_ == 0 && count >= kLeafBytes) {
        add_leaf(data);
        data += kLeafBytes;
        count -= kLeafBytes;
        continue;
      }
      const auto n = std::min<int64_t>(count, kLeafBytes - held_);
      std::memcpy(leaf_.data() + held_, data, static_cast<size_t>(n));
      held_ += n;
      data += n;
      count -= n;
      if (held_ == kLeafBytes) flush();
    }
  }
  uint64_t finish() {
    if (held_ > 0) flush();
    return internal::digest_of_leaves(sum_, bytes_);
  }

 private:
  void flush() {
    std::fill(leaf_.begin() + held_, leaf_.end(), std::byte{0});
    add_leaf(leaf_.data());
    held_ = 0;
  }
  void add_leaf(const std::byte* data) {
    Leaf leaf(leaves_++);
    std::array<uint64_t, kLeafBytes / 8> words;
    std::memcpy(words.data(), data, kLeafBytes);
    for (uint32_t j = 0; j < words.size(); ++j) leaf.take(j % 4, words[j]);
    sum_ += leaf.end();
  }

  std::array<std::byte, kLeafBytes> leaf_{};
  int64_t held_ = 0;
  uint64_t leaves_ = 0;
  uint64_t bytes_ = 0;
  uint64_t sum_ = 0;
};
}  // namespace

uint64_t box_digest(const Source& src, const Box& part) {
  Digest digest;
  if (part.empty()) return digest.finish();
  const int64_t bytes = tensor::size_of(src.dtype);
  const internal::Runs runs = internal::runs_of(part, src.box, src.box);
  internal::for_each_run(runs, [&](int64_t offset, int64_t) {
    digest.take(src.data + offset * bytes, runs.length * bytes);
    return true;
  });
  return digest.finish();
}

namespace {
__extension__ using Wide = unsigned __int128;

template <class Bits>
uint64_t sum_of_run(const std::byte* data, int64_t count, uint64_t index) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, data + static_cast<size_t>(i) * sizeof bits, sizeof bits);
    const uint64_t mixed =
        (index + static_cast<uint64_t>(i)) * internal::kPrime1 + bits * internal::kPrime2 + internal::kPrime3;
    const auto product = static_cast<Wide>(mixed) * internal::kPrime4;
    sum += static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  return sum;
}
}  // namespace

uint64_t element_sum(const tensor::Shape& shape, const Source& src, const Box& part) {
  if (part.empty()) return 0;
  const int64_t bytes = tensor::size_of(src.dtype);
  const internal::Runs runs = internal::runs_of(part, src.box, Box::whole(shape));
  uint64_t sum = 0;
  internal::for_each_run(runs, [&](int64_t offset, int64_t index) {
    const std::byte* const data = src.data + offset * bytes;
    const auto at = static_cast<uint64_t>(index);
    switch (bytes) {
      case 1: sum += sum_of_run<uint8_t>(data, runs.length, at); break;
      case 2: sum += sum_of_run<uint16_t>(data, runs.length, at); break;
      case 4: sum += sum_of_run<uint32_t>(data, runs.length, at); break;
      default: sum += sum_of_run<uint64_t>(data, runs.length, at); break;
    }
    return true;
  });
  return sum;
}

std::vector<Box> digest_chunks(const Box& box, DType dtype, int64_t bytes) {
  SCALAI_CHECK(bytes > 0);
  std::vector<Box> chunks;
  if (box.empty()) return chunks;
  const int64_t most = std::max<int64_t>(1, bytes / tensor::size_of(dtype));
  const auto cut = [&](const auto& self, const Box& whole, size_t dim) -> void {
    while (dim < static_cast<size_t>(whole.rank) && whole.hi[dim] - whole.lo[dim] == 1) ++dim;
    if (whole.volume() <= most) {
      chunks.push_back(whole);
      return;
    }
    const int64_t slice = whole.volume() / (whole.hi[dim] - whole.lo[dim]);
    const int64_t slices = std::max<int64_t>(1, most / slice);
    for (int64_t at = whole.lo[dim]; at < whole.hi[dim]; at += slices) {
      Box part = whole;
      part.lo[dim] = at;
      part.hi[dim] = std::min(whole.hi[dim], at + slices);
      self(self, part, dim);
    }
  };
  cut(cut, box, 0);
  return chunks;
}

}  // namespace scalai::executor::state
