#pragma once
// Floating element types as bits: exact widening to float32, and rounding to nearest even from it. Without branches and
// inline, so that compilers vectorise loops over it. Pure functions; any thread, host and GPU.

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "ptc/state/tensor/dtype.h"
#include "ptc/state/tensor/host_device.h"

namespace scalai::tensor::codec {

// condition ? yes : no, by masks: GCC compiles a conditional expression to a branch around the floating-point
// operation, and then does not vectorise.
SCALAI_HOST_DEVICE constexpr uint32_t choose(bool condition, uint32_t yes, uint32_t no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (yes & mask) | (no & ~mask);
}

// Widening and narrowing of a type with E exponent and M mantissa bits below one sign bit. kInfinity: the largest
// exponent encodes infinities and NaN (IEEE 754). Otherwise only the largest code is NaN, there is no infinity, and
// overflow gives NaN (the "FN" types of Micikevicius et al. 2022, FP8 Formats for Deep Learning).
template <int E, int M, bool kInfinity>
struct Format {
  static constexpr uint32_t kShift = 23 - M;
  static constexpr uint32_t kBias = (1u << (E - 1)) - 1;
  static constexpr uint32_t kRebias = (127 - kBias) << 23;
  static constexpr uint32_t kMinNormal = kRebias + (1u << 23);  // as float32 bits
  static constexpr uint32_t kTop = (1u << (E + M)) - 1;         // all bits below the sign
  static constexpr uint32_t kInf = kTop - ((1u << M) - 1);
  static constexpr uint32_t kNan = kInfinity ? kInf | (1u << (M - 1)) : kTop;
  static constexpr uint32_t kMaxFinite = kInfinity ? kInf - 1 : kTop - 1;
  static constexpr uint32_t kTooLarge = kInfinity ? kInf : kNan;
  // A float32 whose last bit equals the smallest subnormal of this type: adding it makes the hardware round at that
  // bit.
  static constexpr uint32_t kMagic = (127 - kBias + 1 + 23 - M) << 23;

  SCALAI_HOST_DEVICE static uint32_t narrow(uint32_t bits) {
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t half = (1u << (kShift - 1)) - 1 + ((magnitude >> kShift) & 1u);
    const uint32_t normal = (magnitude - kRebias + half) >> kShift;
    const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic);
    const uint32_t small = std::bit_cast<uint32_t>(shifted) - kMagic;
    uint32_t code = choose(magnitude < kMinNormal, small, normal);
    code = choose(code > kMaxFinite, kTooLarge, code);
    code = choose(magnitude > 0x7f800000u, kNan, code);
    return ((bits >> 31) << (E + M)) | code;
  }
  SCALAI_HOST_DEVICE static uint32_t widen(uint32_t code) {
    const uint32_t magnitude = code & kTop;
    const auto scale = std::bit_cast<float>((254u - kBias) << 23);  // 2^(127 − bias)
    const float value = std::bit_cast<float>(magnitude << kShift) * scale;
    const uint32_t special = kInfinity ? 0x7f800000u | (magnitude << kShift) : 0x7fc00000u;
    const bool is_special = kInfinity ? magnitude >= kInf : magnitude == kNan;
    return ((code >> (E + M)) << 31) | choose(is_special, special & 0x7fffffffu, std::bit_cast<uint32_t>(value));
  }
};

// The element in memory, with conversions to and from float32.
template <class StoredType, class FormatType>
struct SmallFloat {
  using Stored = StoredType;
  SCALAI_HOST_DEVICE static float widen(Stored code) { return std::bit_cast<float>(FormatType::widen(code)); }
  SCALAI_HOST_DEVICE static Stored narrow(float value) {
    return static_cast<Stored>(FormatType::narrow(std::bit_cast<uint32_t>(value)));
  }
};
using F8E4M3 = SmallFloat<uint8_t, Format<4, 3, false>>;
using F8E5M2 = SmallFloat<uint8_t, Format<5, 2, true>>;
using F16 = SmallFloat<uint16_t, Format<5, 10, true>>;

struct BF16 {
  using Stored = uint16_t;
  SCALAI_HOST_DEVICE static float widen(Stored code) { return std::bit_cast<float>(static_cast<uint32_t>(code) << 16); }
  SCALAI_HOST_DEVICE static Stored narrow(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16) | 0x40u;  // a NaN stays one
    return static_cast<Stored>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
};
struct F32 {
  using Stored = float;
  SCALAI_HOST_DEVICE static float widen(Stored value) { return value; }
  SCALAI_HOST_DEVICE static Stored narrow(float value) { return value; }
};

// The quiet NaN that a processor makes of a NaN when it changes the width: keeps the sign and the upper bits of the
// payload.
SCALAI_HOST_DEVICE inline float quiet_float(uint64_t nan) {
  const auto payload = static_cast<uint32_t>(nan >> 29) & 0x7fffffu;
  return std::bit_cast<float>((static_cast<uint32_t>(nan >> 32) & 0x80000000u) | 0x7fc00000u | payload);
}
SCALAI_HOST_DEVICE inline double quiet_double(uint32_t nan) {
  const uint64_t sign = uint64_t{nan & 0x80000000u} << 32;
  return std::bit_cast<double>(sign | 0x7ff8000000000000u | (uint64_t{nan & 0x7fffffu} << 29));
}
// Conversions to nearest, and exact. The explicit NaN case: a GPU returns one fixed NaN.
SCALAI_HOST_DEVICE inline float float_of(double value) {
#if defined(__CUDA_ARCH__)
  if (value != value) return quiet_float(std::bit_cast<uint64_t>(value));
#endif
  return static_cast<float>(value);
}
SCALAI_HOST_DEVICE inline double double_of(float value) {
#if defined(__CUDA_ARCH__)
  if (value != value) return quiet_double(std::bit_cast<uint32_t>(value));
#endif
  return value;
}

struct F64 {
  using Stored = double;
  SCALAI_HOST_DEVICE static Stored narrow(float value) { return double_of(value); }
};

// Rounds to odd: rounding the result again, to nearest in a type with at least two mantissa bits fewer, equals rounding
// once (Boldo and Melquiond 2008, Emulation of FMA and Correctly Rounded Sums).
SCALAI_HOST_DEVICE inline float to_odd(double value) {
  const float near = float_of(value);
  const auto bits = std::bit_cast<uint32_t>(near);
  const bool even_and_inexact = static_cast<double>(near) != value && (bits & 1u) == 0 && !std::isnan(value);
  if (!even_and_inexact) return near;
  const bool up = std::fabs(value) > std::fabs(static_cast<double>(near));
  return std::bit_cast<float>(up ? bits + 1 : bits - 1);
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(T));
}

// Calls visit with the codec of a floating type; returns false for any other type.
template <class Visit>
SCALAI_HOST_DEVICE SCALAI_ALWAYS_INLINE bool with_codec(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kF8E4M3: visit(F8E4M3{}); return true;
    case DType::kF8E5M2: visit(F8E5M2{}); return true;
    case DType::kF16: visit(F16{}); return true;
    case DType::kBF16: visit(BF16{}); return true;
    case DType::kF32: visit(F32{}); return true;
    case DType::kF64: visit(F64{}); return true;
    default: return false;
  }
}

}  // namespace scalai::tensor::codec
