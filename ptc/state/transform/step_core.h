#pragma once
// The arithmetic of built-in steps over dense arrays, element by element: the cores of the kernels that compute chunks
// on a device (device.h). The host's own functions (functions.cpp, pairs.cpp) share with them no more than what an
// operation gives, and are their oracle.
//
// Same bits everywhere: each operation is rounded on its own, to nearest even. GPUs use intrinsics that no compiler
// contracts to a fused multiply-add, and this library is built with -ffp-contract=off. A NaN is made by integers,
// because processors disagree about its sign and payload.
//
// A work is plain data; addresses are of memory that the device reaches, arrays begin at multiples of their elements'
// size. Pure functions; any thread, host and GPU.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <variant>

#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/codec.h"

namespace scalai::transform::step_core {

using tensor::DType;

// --- operations ------------------------------------------------------------------------------------------------------
// What an operation on a and b gives: a NaN is the first of them that is one, made quiet, or else that of x86.
SCALAI_HOST_DEVICE inline double settled(double result, double a, double b) {
  if (result == result) return result;
  constexpr uint64_t kQuiet = 0x0008000000000000u, kMade = 0xfff8000000000000u;
  if (a != a) return std::bit_cast<double>(std::bit_cast<uint64_t>(a) | kQuiet);
  if (b != b) return std::bit_cast<double>(std::bit_cast<uint64_t>(b) | kQuiet);
  return std::bit_cast<double>(kMade);
}
#if defined(__CUDA_ARCH__)
__device__ inline double plain_times(double a, double b) { return __dmul_rn(a, b); }
__device__ inline double plain_plus(double a, double b) { return __dadd_rn(a, b); }
__device__ inline double plain_over(double a, double b) { return __ddiv_rn(a, b); }
#else
inline double plain_times(double a, double b) { return a * b; }
inline double plain_plus(double a, double b) { return a + b; }
inline double plain_over(double a, double b) { return a / b; }
#endif
SCALAI_HOST_DEVICE inline double times(double a, double b) { return settled(plain_times(a, b), a, b); }
SCALAI_HOST_DEVICE inline double plus(double a, double b) { return settled(plain_plus(a, b), a, b); }
SCALAI_HOST_DEVICE inline double over(double a, double b) { return settled(plain_over(a, b), a, b); }

// Σ a(k) b(k) for k < count, in this order.
template <class A, class B>
SCALAI_HOST_DEVICE inline double dot(int64_t count, const A& a, const B& b) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k) sum = plain_plus(sum, plain_times(a(k), b(k)));
  if (sum == sum) return sum;
  sum = 0;
  for (int64_t k = 0; k < count; ++k) sum = plus(sum, times(a(k), b(k)));
  return sum;
}

// What a code of 1 stands for in a row with this largest magnitude; infinity: beyond F32. Rows of zeros have 1. A
// factor of few bits, as those of the least numbers, is not rounded down: the largest element would have no code.
inline constexpr double kMostCode = 127;  // of I8; −128 is not used, so that codes are symmetric
SCALAI_HOST_DEVICE inline float factor_of(double largest) {
  constexpr double kMostFloat = 0x1.fffffep127;
  const double exact = plain_over(largest, kMostCode);
  if (exact > kMostFloat) return std::bit_cast<float>(0x7f800000u);
  const auto factor = static_cast<float>(exact);
  if (largest > plain_times(kMostCode + 0.5, factor))
    return std::bit_cast<float>(std::bit_cast<uint32_t>(factor) + 1);  // the next one
  return largest > 0 ? factor : 1.0F;
}
SCALAI_HOST_DEVICE inline int8_t code_of(double value, float factor) {
  const double code = std::rint(plain_over(value, factor));
  return static_cast<int8_t>(code > kMostCode ? kMostCode : code < -kMostCode ? -kMostCode : code);
}

// --- elements of arrays ----------------------------------------------------------------------------------------------
template <class T>
SCALAI_HOST_DEVICE inline T load(const std::byte* from, int64_t i) {
#if defined(__CUDA_ARCH__)
  return reinterpret_cast<const T*>(from)[i];
#else
  T value;
  std::memcpy(&value, from + i * int64_t{sizeof(T)}, sizeof(T));
  return value;
#endif
}
template <class T>
SCALAI_HOST_DEVICE inline void store(std::byte* to, int64_t i, T value) {
#if defined(__CUDA_ARCH__)
  reinterpret_cast<T*>(to)[i] = value;
#else
  std::memcpy(to + i * int64_t{sizeof(T)}, &value, sizeof(T));
#endif
}

SCALAI_HOST_DEVICE inline double load_f64(DType dtype, const std::byte* from, int64_t i) {
  double value = 0;
  tensor::codec::with_codec(dtype, [&](auto codec) {
    using Codec = decltype(codec);
    const auto stored = load<typename Codec::Stored>(from, i);
    if constexpr (sizeof(stored) == 8) {
      value = stored;
    } else {
      value = tensor::codec::double_of(Codec::widen(stored));
    }
  });
  return value;
}
// Rounds once, as tensor::convert does.
SCALAI_HOST_DEVICE inline void store_f64(DType dtype, std::byte* to, int64_t i, double value) {
  if (dtype == DType::kF64) return store(to, i, value);
  if (dtype == DType::kF32) return store(to, i, tensor::codec::float_of(value));
  tensor::codec::with_codec(dtype,
                            [&](auto codec) { store(to, i, decltype(codec)::narrow(tensor::codec::to_odd(value))); });
}

// --- works -----------------------------------------------------------------------------------------------------------
// What a thread calls: run(work, thread, threads) does its share, in any order and beside the others.

// out[i] = f(in[i]). kAdd: `out` is F64, and is added to. Different types with kCast, or F64 on one side.
struct Elements {
  enum class What : uint8_t { kCast, kScale, kAdd, kDivide };
  What what = What::kCast;
  DType from = DType::kF32, to = DType::kF32;
  int64_t count = 0;
  double number = 1;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
};
SCALAI_HOST_DEVICE inline void cast(const Elements& work, int64_t i) {
  if (work.from == DType::kF64) return store_f64(work.to, work.out, i, load<double>(work.in, i));
  float value = 0;
  tensor::codec::with_codec(work.from, [&](auto codec) {
    using From = decltype(codec);
    if constexpr (sizeof(typename From::Stored) < 8) value = From::widen(load<typename From::Stored>(work.in, i));
  });
  tensor::codec::with_codec(work.to, [&](auto codec) { store(work.out, i, decltype(codec)::narrow(value)); });
}
SCALAI_HOST_DEVICE inline void run(const Elements& work, int64_t thread, int64_t threads) {
  for (int64_t i = thread; i < work.count; i += threads) {
    if (work.what == Elements::What::kCast) {
      cast(work, i);
      continue;
    }
    const double value = load_f64(work.from, work.in, i);
    switch (work.what) {
      case Elements::What::kScale: store_f64(work.to, work.out, i, times(value, work.number)); break;
      case Elements::What::kDivide: store_f64(work.to, work.out, i, over(value, work.number)); break;
      default: store(work.out, i, plus(load<double>(work.out, i), value)); break;
    }
  }
}

// values += factor · B A for the elements of a box. Element (i, j, …) of it has its value `at` + Σ index · at_step, and
// its place in the matrix `place` + Σ index · place_step, in rows of `columns`.
struct LowRank {
  int64_t count = 0;  // elements of the box
  int32_t dims = 0;
  int64_t extent[tensor::kMaxRank] = {};
  int64_t at_step[tensor::kMaxRank] = {};
  int64_t place_step[tensor::kMaxRank] = {};
  int64_t at = 0, place = 0;
  int64_t columns = 1, first_row = 0;  // of the matrix; the row of it that `b` begins with
  int64_t rank = 1;
  double factor = 1;
  DType a_type = DType::kF32, b_type = DType::kF32;
  const std::byte* a = nullptr;  // [rank, columns]
  const std::byte* b = nullptr;  // [rows, rank]
  std::byte* values = nullptr;   // F64
};
SCALAI_HOST_DEVICE inline void run(const LowRank& work, int64_t thread, int64_t threads) {
  for (int64_t i = thread; i < work.count; i += threads) {
    int64_t rest = i, at = work.at, place = work.place;
    for (int32_t d = work.dims - 1; d >= 0; --d) {
      const int64_t index = rest % work.extent[d];
      rest /= work.extent[d];
      at += index * work.at_step[d];
      place += index * work.place_step[d];
    }
    const int64_t row = place / work.columns - work.first_row, column = place % work.columns;
    const double sum = dot(
        work.rank, [&](int64_t k) { return load_f64(work.b_type, work.b, row * work.rank + k); },
        [&](int64_t k) { return load_f64(work.a_type, work.a, k * work.columns + column); });
    store(work.values, at, plus(load<double>(work.values, at), times(work.factor, sum)));
  }
}

// The largest magnitude of each row as the bits of an F64, raised from what is there; at least kNotFinite if an element
// is not finite.
inline constexpr uint64_t kNotFinite = 0x7ff0000000000000u;
struct RowPeaks {
  DType dtype = DType::kF32;
  int64_t rows = 0, columns = 0;
  const std::byte* in = nullptr;
  std::byte* peaks = nullptr;  // 8 bytes a row
};
// Atomic on a GPU.
SCALAI_HOST_DEVICE inline void raise(std::byte* peaks, int64_t row, uint64_t bits) {
#if defined(__CUDA_ARCH__)
  atomicMax(reinterpret_cast<unsigned long long*>(peaks) + row, static_cast<unsigned long long>(bits));
#else
  const auto before = load<uint64_t>(peaks, row);
  store(peaks, row, before > bits ? before : bits);
#endif
}
SCALAI_HOST_DEVICE inline void run(const RowPeaks& work, int64_t thread, int64_t threads) {
  int64_t row = 0;
  uint64_t peak = 0;
  for (int64_t i = thread; i < work.rows * work.columns; i += threads) {
    const auto bits = std::bit_cast<uint64_t>(load_f64(work.dtype, work.in, i)) & 0x7fffffffffffffffu;
    if (i / work.columns != row) {
      if (peak > 0) raise(work.peaks, row, peak);
      row = i / work.columns;
      peak = 0;
    }
    peak = bits > peak ? bits : peak;
  }
  if (peak > 0) raise(work.peaks, row, peak);
}

// Codes in I8 of columns `first` to `last` − 1 of each row, or the factors of all rows in F32. Rows without a factor
// have any.
struct RowCodes {
  DType dtype = DType::kF32;
  bool factors = false;
  int64_t rows = 0, columns = 0, first = 0, last = 0;
  const std::byte* in = nullptr;
  const std::byte* peaks = nullptr;
  std::byte* out = nullptr;
};
SCALAI_HOST_DEVICE inline float factor_of(const std::byte* peaks, int64_t row) {
  const auto bits = load<uint64_t>(peaks, row);
  return bits < kNotFinite ? factor_of(std::bit_cast<double>(bits)) : std::bit_cast<float>(0x7f800000u);
}
SCALAI_HOST_DEVICE inline void run(const RowCodes& work, int64_t thread, int64_t threads) {
  const int64_t each = work.factors ? 1 : work.last - work.first;
  for (int64_t i = thread; i < work.rows * each; i += threads) {
    const int64_t row = i / each;
    const float factor = factor_of(work.peaks, row);
    if (work.factors) {
      store(work.out, i, factor);
    } else if (std::bit_cast<uint32_t>(factor) < 0x7f800000u) {
      const double value = load_f64(work.dtype, work.in, row * work.columns + work.first + i % each);
      store(work.out, i, code_of(value, factor));
    }
  }
}

SCALAI_HOST_DEVICE inline int64_t size_of(const Elements& work) { return work.count; }
SCALAI_HOST_DEVICE inline int64_t size_of(const LowRank& work) { return work.count; }
SCALAI_HOST_DEVICE inline int64_t size_of(const RowPeaks& work) { return work.rows * work.columns; }
SCALAI_HOST_DEVICE inline int64_t size_of(const RowCodes& work) {
  return work.rows * (work.factors ? 1 : work.last - work.first);
}

using Work = std::variant<Elements, LowRank, RowPeaks, RowCodes>;

}  // namespace scalai::transform::step_core
