#pragma once
// For tests: tensors in memory, which count what is read of them, and random boxes.

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/transform.h"

namespace scalai::transform {

struct Stored {
  std::vector<double> values;          // as they are in the tensor's type
  std::atomic<int64_t> most_read = 0;  // elements of the largest box that was asked for
};

// visit(flat position in the tensor) for each element of the box.
template <class Visit>
void for_each_element(const Shape& shape, const Box& box, const Visit& visit) {
  const auto strides = shape.strides();
  for (int64_t n = 0; n < box.volume(); ++n) {
    int64_t rest = n, at = 0;
    for (int dim = box.rank - 1; dim >= 0; --dim) {
      const auto d = static_cast<size_t>(dim);
      at += (box.lo[d] + rest % box.extent(dim)) * strides[d];
      rest /= box.extent(dim);
    }
    visit(at);
  }
}

inline double rounded(DType dtype, double value) {
  if (!tensor::convertible(DType::kF64, dtype)) return value;  // nobody reads it
  std::byte bytes[8];
  double back = 0;
  tensor::convert(DType::kF64, dtype, 1, reinterpret_cast<const std::byte*>(&value), bytes);
  tensor::convert(dtype, DType::kF64, 1, bytes, reinterpret_cast<std::byte*>(&back));
  return back;
}

// A tensor with random elements; `stored` outlives it.
inline Tensor in_memory(Random& random, std::string name, DType dtype, Shape shape,
                        const std::shared_ptr<Stored>& stored) {
  for (int64_t i = 0; i < shape.elements(); ++i)
    stored->values.push_back(rounded(dtype, static_cast<double>(random.between(-4000, 4000)) / 1000));
  return {.name = std::move(name),
          .dtype = dtype,
          .shape = shape,
          .read = [=](const Box& box, std::span<std::byte> dst, const Origin& origin) {
            if (origin) return origin(box, dst);
            SCALAI_CHECK(std::ssize(dst) == box.volume() * tensor::size_of(dtype), box.str());
            SCALAI_CHECK(Box::whole(shape).contains(box), box.str());
            stored->most_read = std::max<int64_t>(stored->most_read, box.volume());
            for_each_element(shape, box, [&](int64_t at) {
              tensor::convert(DType::kF64, dtype, 1,
                              reinterpret_cast<const std::byte*>(&stored->values[static_cast<size_t>(at)]), dst.data());
              dst = dst.subspan(static_cast<size_t>(tensor::size_of(dtype)));
            });
            return absl::OkStatus();
          }};
}

inline Box random_part(Random& random, const Shape& shape) {
  Box box = Box::whole(shape);
  for (size_t d = 0; d < static_cast<size_t>(box.rank); ++d) {
    box.lo[d] = random.between(0, box.hi[d] - 1);
    box.hi[d] = random.between(box.lo[d] + 1, box.hi[d]);
  }
  return box;
}

// The elements of a box as F64, read as a writer does.
inline std::vector<double> read(const Tensor& tensor, const Box& box) {
  std::vector<std::byte> bytes(static_cast<size_t>(box.volume() * tensor::size_of(tensor.dtype)));
  const absl::Status status = tensor.read(box, bytes, {});
  SCALAI_CHECK(status.ok(), message_of(status));
  std::vector<double> values(static_cast<size_t>(box.volume()));
  if (tensor.dtype == DType::kI8) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(static_cast<int8_t>(bytes[i]));
  } else {
    tensor::convert(tensor.dtype, DType::kF64, box.volume(), bytes.data(), reinterpret_cast<std::byte*>(values.data()));
  }
  return values;
}

inline std::vector<Step> steps_of(const std::vector<std::string>& texts) {
  auto steps = parse_steps(texts);
  SCALAI_CHECK(steps.ok(), message_of(steps.status()));
  return *std::move(steps);
}

inline absl::StatusOr<Other> opens_nothing(const std::string& path) { return missing(path + ": nothing is there"); }

// Random boxes and, at last, all of it: that every element of the output is `expected`, whatever box asks for it.
inline std::string difference(Random& random, const Tensor& tensor, const std::vector<double>& expected) {
  for (int round = 0; round < 12; ++round) {
    const Box box = round < 11 ? random_part(random, tensor.shape) : Box::whole(tensor.shape);
    const std::vector<double> got = read(tensor, box);
    size_t i = 0;
    std::string wrong;
    for_each_element(tensor.shape, box, [&](int64_t at) {
      if (wrong.empty() && got[i] != expected[static_cast<size_t>(at)])
        wrong = fmt::format("{} {}: element {} is {}, not {}", tensor.name, box.str(), at, got[i],
                            expected[static_cast<size_t>(at)]);
      ++i;
    });
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace scalai::transform
