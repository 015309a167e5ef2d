#include "executor/state/content.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "executor/state/content_mix.h"
#include "executor/state/runs.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/codec.h"
#include "ptc/state/tensor/convert.h"

namespace scalai::executor::state {
namespace {
static_assert(std::endian::native == std::endian::little, "content and hashes are defined on little-endian bytes");

using internal::for_each_run;
using internal::kBlock;
using internal::kBlockBits;
using internal::Runs;
using internal::Words;

// Elements made at a time where they are compared, hashed or rounded twice: they stay in the first-level cache.
constexpr int64_t kChunk = 2048;
using Chunk = std::array<std::byte, kChunk * 8>;

// `count` elements of one block, from its element `first` on.
template <class Element>
void fill_block(Words words, uint32_t first, int64_t count, std::byte* __restrict dst) {
  using Stored = typename Element::Stored;
  const auto end = static_cast<uint32_t>(count);
  for (uint32_t i = 0; i < end; ++i)
    tensor::codec::store<Stored>(dst + i * sizeof(Stored), Element::of(words, first + i));
}

using FillBlock = void (*)(Words, uint32_t, int64_t, std::byte*);

// The same code for processors with wider vectors; without fused multiply-add the bits are the same.
#if defined(__x86_64__)
template <class Element>
[[gnu::target("avx2"), gnu::flatten]] void fill_block_avx2(Words words, uint32_t first, int64_t count, std::byte* dst) {
  fill_block<Element>(words, first, count, dst);
}
template <class Element>
FillBlock best_fill() {
  return __builtin_cpu_supports("avx2") ? fill_block_avx2<Element> : fill_block<Element>;
}
#else
template <class Element>
FillBlock best_fill() {
  return fill_block<Element>;
}
#endif

FillBlock filler_of(DType dtype) {
  FillBlock fill = nullptr;
  internal::with_element(dtype, [&](auto element) { fill = best_fill<decltype(element)>(); });
  return fill;
}

class Maker {
 public:
  Maker(const Content& content, DType dtype)
      : seed_(internal::seed_of(content.key.value, content.step)), dtype_(dtype), via_(dtype) {
    if (content.via && *content.via != dtype && convertible(*content.via, dtype)) via_ = *content.via;
    fill_ = filler_of(via_ == dtype ? dtype : DType::kF32);
  }
  int64_t element_bytes() const { return tensor::size_of(dtype_); }

  void make(int64_t index, int64_t count, std::byte* dst) const {
    if (via_ == dtype_) return make_blocks(index, count, dst);
    Chunk exact;
    Chunk rounded;
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t n = std::min(kChunk, count - done);
      make_blocks(index + done, n, exact.data());
      convert(DType::kF32, via_, n, exact.data(), rounded.data());
      convert(via_, dtype_, n, rounded.data(), dst + done * element_bytes());
    }
  }

 private:
  void make_blocks(int64_t index, int64_t count, std::byte* dst) const {
    const int64_t bytes = via_ == dtype_ ? element_bytes() : 4;
    while (count > 0) {
      const int64_t first = index & (kBlock - 1);
      const int64_t n = std::min(count, kBlock - first);
      fill_(internal::words_of(seed_, index >> kBlockBits), static_cast<uint32_t>(first), n, dst);
      index += n;
      count -= n;
      dst += n * bytes;
    }
  }

  uint64_t seed_;
  DType dtype_;
  DType via_;
  FillBlock fill_ = nullptr;
};

template <class T>
std::string text_of(const std::byte* at) {
  const T value = tensor::codec::load<T>(at);
  return fmt::format("{} (0x{:0{}x})", value, static_cast<std::make_unsigned_t<T>>(value), 2 * sizeof(T));
}

std::string element_text(DType dtype, const std::byte* at) {
  std::string text;
  const bool is_float = tensor::codec::with_codec(dtype, [&](auto) {
    double value = 0;
    convert(dtype, DType::kF64, 1, at, reinterpret_cast<std::byte*>(&value));
    uint64_t bits = 0;
    std::memcpy(&bits, at, static_cast<size_t>(tensor::size_of(dtype)));
    text = fmt::format("{:.9g} (0x{:0{}x})", value, bits, 2 * tensor::size_of(dtype));
  });
  if (is_float) return text;
  switch (dtype) {
    case DType::kI8: return text_of<int8_t>(at);
    case DType::kI16: return text_of<int16_t>(at);
    case DType::kI32: return text_of<int32_t>(at);
    case DType::kI64: return text_of<int64_t>(at);
    case DType::kU16: return text_of<uint16_t>(at);
    case DType::kU32: return text_of<uint32_t>(at);
    case DType::kU64: return text_of<uint64_t>(at);
    default: return text_of<uint8_t>(at);
  }
}

Mismatch mismatch_at(const tensor::Shape& shape, int64_t index, DType dtype, const std::byte* expected,
                     const std::byte* found) {
  Mismatch mismatch;
  mismatch.rank = shape.rank();
  const auto strides = shape.strides();
  for (int dim = 0; dim < shape.rank(); ++dim) {
    const auto d = static_cast<size_t>(dim);
    mismatch.index[d] = index / strides[d];
    index %= strides[d];
  }
  mismatch.expected = element_text(dtype, expected);
  mismatch.found = element_text(dtype, found);
  return mismatch;
}

int64_t first_difference(const std::byte* a, const std::byte* b, int64_t count, int64_t element_bytes) {
  const auto at = std::mismatch(a, a + count * element_bytes, b).first - a;
  return at / element_bytes;
}

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};
using HashState = std::unique_ptr<XXH3_state_t, FreeState>;
HashState new_hash() {
  HashState state(XXH3_createState());
  SCALAI_CHECK(state != nullptr);
  XXH3_64bits_reset(state.get());
  return state;
}
}  // namespace

ContentKey ContentKey::of(std::string_view tensor, std::string_view job) {
  constexpr std::string_view kMaster = ".master";
  if (tensor.ends_with(kMaster)) tensor.remove_suffix(kMaster.size());
  const uint64_t of_job = XXH3_64bits(job.data(), job.size());
  return {XXH3_64bits_withSeed(tensor.data(), tensor.size(), of_job)};
}

std::string Mismatch::str() const {
  return fmt::format("element [{}] is {}, expected {}", fmt::join(index.begin(), index.begin() + rank, ", "), found,
                     expected);
}

void fill_box(const Content& content, const Box& part, const Target& dst) {
  if (part.empty()) return;
  const Maker maker(content, dst.dtype);
  const Runs runs = internal::runs_of(part, Box::whole(content.shape), dst.box);
  for_each_run(runs, [&](int64_t index, int64_t offset) {
    maker.make(index, runs.length, dst.data + offset * maker.element_bytes());
    return true;
  });
}

std::optional<Mismatch> check_box(const Content& content, const Box& part, const Source& src) {
  if (part.empty()) return std::nullopt;
  const Maker maker(content, src.dtype);
  const int64_t bytes = maker.element_bytes();
  const Runs runs = internal::runs_of(part, Box::whole(content.shape), src.box);
  std::optional<Mismatch> mismatch;
  Chunk expected;
  for_each_run(runs, [&](int64_t index, int64_t offset) {
    for (int64_t done = 0; done < runs.length; done += kChunk) {
      const int64_t n = std::min(kChunk, runs.length - done);
      const std::byte* found = src.data + (offset + done) * bytes;
      maker.make(index + done, n, expected.data());
      if (std::memcmp(expected.data(), found, static_cast<size_t>(n * bytes)) == 0) continue;
      const int64_t at = first_difference(expected.data(), found, n, bytes);
      mismatch =
          mismatch_at(content.shape, index + done + at, src.dtype, expected.data() + at * bytes, found + at * bytes);
      return false;
    }
    return true;
  });
  return mismatch;
}

uint64_t hash_box(const Content& content, const Box& part, DType dtype) {
  const HashState state = new_hash();
  if (part.empty()) return XXH3_64bits_digest(state.get());
  const Maker maker(content, dtype);
  // Nothing is stored densely here: the part itself serves as the second array.
  const Runs runs = internal::runs_of(part, Box::whole(content.shape), part);
  Chunk expected;
  for_each_run(runs, [&](int64_t index, int64_t) {
    for (int64_t done = 0; done < runs.length; done += kChunk) {
      const int64_t n = std::min(kChunk, runs.length - done);
      maker.make(index + done, n, expected.data());
      XXH3_64bits_update(state.get(), expected.data(), static_cast<size_t>(n * maker.element_bytes()));
    }
    return true;
  });
  return XXH3_64bits_digest(state.get());
}

uint64_t hash_box(const Source& src, const Box& part) {
  const HashState state = new_hash();
  if (part.empty()) return XXH3_64bits_digest(state.get());
  const int64_t bytes = tensor::size_of(src.dtype);
  const Runs runs = internal::runs_of(part, src.box, src.box);
  for_each_run(runs, [&](int64_t offset, int64_t) {
    XXH3_64bits_update(state.get(), src.data + offset * bytes, static_cast<size_t>(runs.length * bytes));
    return true;
  });
  return XXH3_64bits_digest(state.get());
}

}  // namespace scalai::executor::state
