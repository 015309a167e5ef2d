#include "ptc/state/tensor/element_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "ptc/state/tensor/convert.h"

namespace scalai::tensor {
namespace {

constexpr int64_t kBlock = 4096;  // elements that are widened at a time
constexpr int kLanes = 8;         // sums beside each other, so that they need not wait for one another

template <class Value>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Type = uint32_t;
  static constexpr int kMantissa = 23, kExponents = 255, kBias = 127;
};
template <>
struct FloatBits<double> {
  using Type = uint64_t;
  static constexpr int kMantissa = 52, kExponents = 2047, kBias = 1023;
};

template <class From>
void widen_integers(int64_t count, const std::byte* data, double* out) {
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, data + i * int64_t{sizeof(From)}, sizeof(From));
    out[i] = static_cast<double>(value);
  }
}

bool narrow_float(DType dtype) { return dtype != DType::kF64 && convertible(dtype, DType::kF32); }

// All but narrow floats.
void to_doubles(DType dtype, int64_t count, const std::byte* data, double* out) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8: return widen_integers<uint8_t>(count, data, out);
    case DType::kI8: return widen_integers<int8_t>(count, data, out);
    case DType::kI16: return widen_integers<int16_t>(count, data, out);
    case DType::kU16: return widen_integers<uint16_t>(count, data, out);
    case DType::kI32: return widen_integers<int32_t>(count, data, out);
    case DType::kU32: return widen_integers<uint32_t>(count, data, out);
    case DType::kI64: return widen_integers<int64_t>(count, data, out);
    case DType::kU64: return widen_integers<uint64_t>(count, data, out);
    default: std::memcpy(out, data, static_cast<size_t>(count) * sizeof(double));
  }
}

// Sums of a whole chunk while it is gone through.
template <class Value>
class Gathering {
 public:
  // At most kBlock values.
  void take(const Value* values, int64_t count) {
    int64_t at = 0;
    for (; at + kLanes <= count; at += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) take(values[at + lane], static_cast<size_t>(lane));
    }
    for (int lane = 0; at < count; ++at, ++lane) take(values[at], static_cast<size_t>(lane));
    count_ += count;
  }
  ElementStats stats() const {
    using Bits = FloatBits<Value>;
    ElementStats all;
    all.elements = count_;
    for (const Lane& lane : lanes_) {
      all.nans += lane.nans;
      all.zeros += lane.zeros;
      all.sum += lane.sum;
      all.squares += lane.squares;
      all.min = std::min(all.min, static_cast<double>(lane.min));
      all.max = std::max(all.max, static_cast<double>(lane.max));
    }
    all.infinities = count_at(Bits::kExponents) - all.nans;
    for (int exponent = 0; exponent < Bits::kExponents; ++exponent) {
      const int at = exponent - Bits::kBias + ElementStats::kBias;
      all.magnitudes[static_cast<size_t>(std::clamp(at, 0, ElementStats::kMagnitudes - 1))] += count_at(exponent);
    }
    all.magnitudes[0] -= all.zeros;
    return all;
  }

 private:
  struct Lane {
    double sum = 0, squares = 0;
    Value min = std::numeric_limits<Value>::infinity(), max = -std::numeric_limits<Value>::infinity();
    int64_t nans = 0, zeros = 0;
  };
  // Most numbers of a tensor have a few exponents: counts of neighbours are apart, so that none waits for the one
  // before.
  static constexpr size_t kCounts = sizeof(Value) == 4 ? 4 : 1;

  void take(Value value, size_t lane_number) {
    using Bits = FloatBits<Value>;
    Lane& lane = lanes_[lane_number];
    const auto bits = std::bit_cast<typename Bits::Type>(value);
    const auto exponent = static_cast<size_t>((bits >> Bits::kMantissa) & Bits::kExponents);
    ++by_exponent_[lane_number % kCounts][exponent];
    lane.nans += value != value ? 1 : 0;
    lane.zeros += value == 0 ? 1 : 0;
    const bool finite = exponent != Bits::kExponents;
    const auto number = finite ? static_cast<double>(value) : 0;
    lane.sum += number;
    lane.squares += number * number;
    lane.min = finite && value < lane.min ? value : lane.min;
    lane.max = finite && value > lane.max ? value : lane.max;
  }
  int64_t count_at(int exponent) const {
    int64_t sum = 0;
    for (const auto& counts : by_exponent_) sum += counts[static_cast<size_t>(exponent)];
    return sum;
  }

  std::array<std::array<int64_t, FloatBits<Value>::kExponents + 1>, kCounts> by_exponent_{};
  std::array<Lane, kLanes> lanes_;
  int64_t count_ = 0;
};

template <class Value, class Widen>
ElementStats gathered(DType dtype, int64_t count, const std::byte* data, const Widen& widen) {
  Gathering<Value> gathering;
  std::vector<Value> block(static_cast<size_t>(std::min(count, kBlock)));
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t some = std::min(kBlock, count - at);
    widen(some, data + at * size_of(dtype), block.data());
    gathering.take(block.data(), some);
  }
  return gathering.stats();
}

void widen(DType dtype, int64_t count, const std::byte* data, double* out) {
  narrow_float(dtype) ? convert(dtype, DType::kF64, count, data, reinterpret_cast<std::byte*>(out))
                      : to_doubles(dtype, count, data, out);
}

}  // namespace

double ElementStats::mean() const { return finite() > 0 ? sum / static_cast<double>(finite()) : 0; }
double ElementStats::norm() const { return std::sqrt(squares); }
double ElementChange::norm() const { return std::sqrt(squares); }

void ElementStats::add(const ElementStats& later) {
  elements += later.elements;
  nans += later.nans;
  infinities += later.infinities;
  zeros += later.zeros;
  min = std::min(min, later.min);
  max = std::max(max, later.max);
  sum += later.sum;
  squares += later.squares;
  for (size_t i = 0; i < magnitudes.size(); ++i) magnitudes[i] += later.magnitudes[i];
}

void ElementChange::add(const ElementChange& later) {
  elements += later.elements;
  changed += later.changed;
  no_number += later.no_number;
  squares += later.squares;
  largest = std::max(largest, later.largest);
}

ElementStats stats_of(DType dtype, int64_t count, const std::byte* data) {
  if (narrow_float(dtype)) {
    return gathered<float>(dtype, count, data, [&](int64_t some, const std::byte* from, float* to) {
      convert(dtype, DType::kF32, some, from, reinterpret_cast<std::byte*>(to));
    });
  }
  return gathered<double>(dtype, count, data,
                          [&](int64_t some, const std::byte* from, double* to) { to_doubles(dtype, some, from, to); });
}

ElementChange change_of(int64_t count, DType now_type, const std::byte* now, DType before_type,
                        const std::byte* before) {
  ElementChange change{.elements = count};
  std::vector<double> a(static_cast<size_t>(std::min(count, kBlock))), b(a.size());
  for (int64_t at = 0; at < count; at += kBlock) {
    const int64_t some = std::min(kBlock, count - at);
    widen(now_type, some, now + at * size_of(now_type), a.data());
    widen(before_type, some, before + at * size_of(before_type), b.data());
    for (size_t i = 0; i < static_cast<size_t>(some); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      ++change.changed;
      if (!std::isfinite(a[i]) || !std::isfinite(b[i])) {
        ++change.no_number;
        continue;
      }
      const double difference = std::abs(a[i] - b[i]);
      change.squares += difference * difference;
      change.largest = std::max(change.largest, difference);
    }
  }
  return change;
}

}  // namespace scalai::tensor
