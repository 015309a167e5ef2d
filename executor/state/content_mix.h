#pragma once
// The arithmetic of content.h, identical on host and GPU. Pure functions; any thread.

#include <cstdint>

#include "ptc/state/tensor/codec.h"
#include "ptc/state/tensor/dtype.h"
#include "ptc/state/tensor/host_device.h"

namespace scalai::executor::state::internal {

// Number of elements that share (u, v).
inline constexpr int64_t kBlockBits = 16;
inline constexpr int64_t kBlock = int64_t{1} << kBlockBits;

// The finaliser of SplitMix64 (Steele, Lea and Flood 2014).
SCALAI_HOST_DEVICE inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// From key and step.
inline uint64_t seed_of(uint64_t key, int64_t step) {
  return mix64(key ^ mix64(static_cast<uint64_t>(step) + 0x632be59bd9b4e019u));
}

// The pair (u, v) of a block.
struct Words {
  uint32_t first;
  uint32_t second;
};
SCALAI_HOST_DEVICE inline Words words_of(uint64_t seed, int64_t block) {
  const uint64_t z = mix64(seed + static_cast<uint64_t>(block) * 0x9e3779b97f4a7c15u);
  return {static_cast<uint32_t>(z), static_cast<uint32_t>(z >> 32)};
}

// Multipliers and shifts of the integer hash "lowbias32" (Wellons 2018), with v added between its rounds.
SCALAI_HOST_DEVICE inline uint32_t mix32(Words words, uint32_t i) {
  uint32_t x = words.first + i * 0x9e3779b9u;
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = ((x ^ (x >> 15)) + words.second) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Element i of a block, for each stored type.
template <class CodecType>
struct FloatElement {
  using Codec = CodecType;
  using Stored = typename Codec::Stored;
  SCALAI_HOST_DEVICE static float exact(Words words, uint32_t i) {
    return static_cast<float>(static_cast<int32_t>(mix32(words, i))) * 0x1p-31f;
  }
  SCALAI_HOST_DEVICE static Stored of(Words words, uint32_t i) { return Codec::narrow(exact(words, i)); }
};
template <class StoredType>
struct WordElement {
  using Stored = StoredType;
  SCALAI_HOST_DEVICE static Stored of(Words words, uint32_t i) { return static_cast<Stored>(mix32(words, i)); }
};
struct BoolElement {
  using Stored = uint8_t;
  SCALAI_HOST_DEVICE static Stored of(Words words, uint32_t i) { return static_cast<Stored>(mix32(words, i) >> 31); }
};
struct LongElement {
  using Stored = uint64_t;
  SCALAI_HOST_DEVICE static Stored of(Words words, uint32_t i) {
    return (uint64_t{mix32(words, i)} << 32) | mix32({words.second, words.first}, i);
  }
};

// Calls visit with the element class of a type.
template <class Visit>
SCALAI_HOST_DEVICE SCALAI_ALWAYS_INLINE void with_element(tensor::DType dtype, Visit visit) {
  using tensor::DType;
  switch (dtype) {
    case DType::kF8E4M3: return visit(FloatElement<tensor::codec::F8E4M3>{});
    case DType::kF8E5M2: return visit(FloatElement<tensor::codec::F8E5M2>{});
    case DType::kF16: return visit(FloatElement<tensor::codec::F16>{});
    case DType::kBF16: return visit(FloatElement<tensor::codec::BF16>{});
    case DType::kF32: return visit(FloatElement<tensor::codec::F32>{});
    case DType::kF64: return visit(FloatElement<tensor::codec::F64>{});
    case DType::kBool: return visit(BoolElement{});
    case DType::kU8:
    case DType::kI8: return visit(WordElement<uint8_t>{});
    case DType::kI16:
    case DType::kU16: return visit(WordElement<uint16_t>{});
    case DType::kI32:
    case DType::kU32: return visit(WordElement<uint32_t>{});
    case DType::kI64:
    case DType::kU64: return visit(LongElement{});
  }
}

}  // namespace scalai::executor::state::internal
