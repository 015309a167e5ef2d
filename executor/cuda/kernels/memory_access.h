#pragma once
// Loads, stores and sums of the kernels, identical on host and GPU. Addresses may be in the GPU's memory, in another
// GPU's or in pinned host memory.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ptc/state/tensor/host_device.h"

#if defined(__CUDA_ARCH__)
#define SCALAI_UNROLL _Pragma("unroll")
#define SCALAI_NO_UNROLL _Pragma("unroll 1")
#else
#define SCALAI_UNROLL
#define SCALAI_NO_UNROLL
#endif

namespace scalai::executor::cuda::kernels {

// 16 bytes, the least significant first: the largest unit of one thread's load or store.
struct alignas(16) Quad {
  uint32_t word[4];
};

template <uint32_t kBytes>
struct UnitOf;
template <>
struct UnitOf<1> {
  using Type = uint8_t;
};
template <>
struct UnitOf<2> {
  using Type = uint16_t;
};
template <>
struct UnitOf<4> {
  using Type = uint32_t;
};
template <>
struct UnitOf<8> {
  using Type = uint64_t;
};
template <>
struct UnitOf<16> {
  using Type = Quad;
};

SCALAI_HOST_DEVICE inline uint64_t address_of(const std::byte* at) { return reinterpret_cast<uint64_t>(at); }

// `at` is a multiple of the unit's size.
template <class Unit>
SCALAI_HOST_DEVICE inline Unit load_unit(const std::byte* at) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(Unit) == 16) {
    const uint4 seen = __ldg(reinterpret_cast<const uint4*>(at));
    return {{seen.x, seen.y, seen.z, seen.w}};
  } else if constexpr (sizeof(Unit) == 8) {
    const uint2 seen = __ldg(reinterpret_cast<const uint2*>(at));
    return std::bit_cast<Unit>(seen);
  } else if constexpr (sizeof(Unit) == 4) {
    return __ldg(reinterpret_cast<const unsigned int*>(at));
  } else if constexpr (sizeof(Unit) == 2) {
    return __ldg(reinterpret_cast<const unsigned short*>(at));
  } else {
    return __ldg(reinterpret_cast<const unsigned char*>(at));
  }
#else
  Unit unit;
  std::memcpy(&unit, at, sizeof(Unit));
  return unit;
#endif
}
// The same for bytes that no thread reads again: they leave the caches first.
SCALAI_HOST_DEVICE inline Quad load_once(const std::byte* at) {
#if defined(__CUDA_ARCH__)
  const uint4 seen = __ldcs(reinterpret_cast<const uint4*>(at));
  return {{seen.x, seen.y, seen.z, seen.w}};
#else
  return load_unit<Quad>(at);
#endif
}
template <class Unit>
SCALAI_HOST_DEVICE inline void store_unit(std::byte* at, Unit unit) {
#if defined(__CUDA_ARCH__)
  // A store to global memory, as plain assignment through a pointer of unknown origin is not.
  if constexpr (sizeof(Unit) == 16) {
    __stwb(reinterpret_cast<uint4*>(at), make_uint4(unit.word[0], unit.word[1], unit.word[2], unit.word[3]));
  } else if constexpr (sizeof(Unit) == 8) {
    __stwb(reinterpret_cast<uint2*>(at), std::bit_cast<uint2>(unit));
  } else if constexpr (sizeof(Unit) == 4) {
    __stwb(reinterpret_cast<unsigned int*>(at), unit);
  } else if constexpr (sizeof(Unit) == 2) {
    __stwb(reinterpret_cast<unsigned short*>(at), unit);
  } else {
    __stwb(reinterpret_cast<unsigned char*>(at), unit);
  }
#else
  std::memcpy(at, &unit, sizeof(Unit));
#endif
}
// The same for bytes that nobody reads before they would have left the caches.
SCALAI_HOST_DEVICE inline void store_once(std::byte* at, const Quad& quad) {
#if defined(__CUDA_ARCH__)
  __stcs(reinterpret_cast<uint4*>(at), make_uint4(quad.word[0], quad.word[1], quad.word[2], quad.word[3]));
#else
  store_unit(at, quad);
#endif
}

// Any address, byte by byte.
template <class Unit>
SCALAI_HOST_DEVICE inline Unit load_bytes(const std::byte* at) {
  uint64_t unit = 0;
  SCALAI_UNROLL
  for (uint32_t i = 0; i < sizeof(Unit); ++i) unit |= uint64_t{load_unit<uint8_t>(at + i)} << (8 * i);
  return static_cast<Unit>(unit);
}
template <class Unit>
SCALAI_HOST_DEVICE inline void store_bytes(std::byte* at, Unit unit) {
  SCALAI_UNROLL
  for (uint32_t i = 0; i < sizeof(Unit); ++i) store_unit(at + i, static_cast<uint8_t>(uint64_t{unit} >> (8 * i)));
}

// The upper word of (high, low) shifted right by `bits` < 32.
SCALAI_HOST_DEVICE inline uint32_t funnel(uint32_t low, uint32_t high, uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<uint32_t>(((uint64_t{high} << 32) | low) >> bits);
#endif
}

// The 16 bytes that begin `skip` < 16 bytes after the start of `a`, followed by `b`. All choices are between registers:
// an index unknown to the compiler would put them into memory.
SCALAI_HOST_DEVICE inline Quad shifted(const Quad& a, const Quad& b, uint32_t skip) {
  uint32_t word[8] = {a.word[0], a.word[1], a.word[2], a.word[3], b.word[0], b.word[1], b.word[2], b.word[3]};
  const bool two = (skip & 8) != 0;
  SCALAI_UNROLL
  for (int i = 0; i < 6; ++i) word[i] = two ? word[i + 2] : word[i];
  const bool one = (skip & 4) != 0;
  SCALAI_UNROLL
  for (int i = 0; i < 5; ++i) word[i] = one ? word[i + 1] : word[i];
  const uint32_t bits = (skip & 3) * 8;
  Quad out;
  SCALAI_UNROLL
  for (int i = 0; i < 4; ++i) out.word[i] = funnel(word[i], word[i + 1], bits);
  return out;
}

// Bytes `lo` to `hi` − 1 of the 16 at `at`, at any alignment; the others are undefined. Reads only aligned granules
// with one of these bytes. 0 <= lo < hi <= 16.
SCALAI_HOST_DEVICE inline Quad load_any(const std::byte* at, uint32_t lo, uint32_t hi) {
  const uint32_t skip = static_cast<uint32_t>(address_of(at)) & 15;
  const std::byte* granule = at - skip;
  Quad a{};
  Quad b{};
  if (skip + lo < 16) a = load_unit<Quad>(granule);
  if (skip + hi > 16) b = load_unit<Quad>(granule + 16);
  return shifted(a, b, skip);
}

// Stores bytes `lo` to `hi` − 1 of `quad` to their places in the granule at `at`, by at most seven stores.
SCALAI_HOST_DEVICE inline void store_part(std::byte* at, const Quad& quad, uint32_t lo, uint32_t hi) {
  const uint64_t low = quad.word[0] | (uint64_t{quad.word[1]} << 32);
  const uint64_t high = quad.word[2] | (uint64_t{quad.word[3]} << 32);
  while (lo < hi) {
    const uint64_t rest = (lo < 8 ? low : high) >> ((lo & 7) * 8);
    uint32_t bytes = lo == 0 ? 8 : lo & (0u - lo);  // the largest unit that may begin here
    while (bytes > hi - lo) bytes >>= 1;
    switch (bytes) {
      case 8: store_unit<uint64_t>(at + lo, rest); break;
      case 4: store_unit(at + lo, static_cast<uint32_t>(rest)); break;
      case 2: store_unit(at + lo, static_cast<uint16_t>(rest)); break;
      default: store_unit(at + lo, static_cast<uint8_t>(rest)); break;
    }
    lo += bytes;
  }
}

// Atomic on the GPU: other threads add to the same memory.
SCALAI_HOST_DEVICE inline void add_to(uint64_t* at, uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicAdd(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
#else
  *at += value;
#endif
}
SCALAI_HOST_DEVICE inline void lower_to(uint64_t* at, uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicMin(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(value));
#else
  *at = value < *at ? value : *at;
#endif
}
// add_to of one value per thread of a warp. All its threads call it together.
SCALAI_HOST_DEVICE inline void add_warp_to(uint64_t* at, uint64_t value) {
#if defined(__CUDA_ARCH__)
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  if ((threadIdx.x & 31) == 0) add_to(at, value);
#else
  add_to(at, value);
#endif
}

}  // namespace scalai::executor::cuda::kernels
