#pragma once
// For tests of devices: random states of any bits, random steps over them, and the comparison of what a device gives
// with what the host gives, bit by bit.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "ptc/base/random.h"
#include "ptc/base/status.h"
#include "ptc/state/tensor/convert.h"
#include "ptc/state/transform/device.h"
#include "ptc/state/transform/testing/memory_state.h"

namespace scalai::transform {

inline constexpr std::array kFloats = {DType::kF64, DType::kF32,    DType::kBF16,
                                       DType::kF16, DType::kF8E4M3, DType::kF8E5M2};

// Bits of all kinds: plain numbers, those near a type's limits, and, unless `finite`, infinities and NaN with any
// payload.
inline std::vector<std::byte> random_elements(Random& random, DType dtype, int64_t count, bool finite) {
  const int64_t size = tensor::size_of(dtype);
  std::vector<std::byte> bytes(static_cast<size_t>(count * size));
  for (int64_t i = 0; i < count; ++i) {
    std::byte* const at = bytes.data() + i * size;
    double back = 0;
    do {
      uint64_t bits = random.next();
      if (random.below(4) == 0) bits |= ~uint64_t{0} << 52 >> 1;  // an F64 that is not finite
      if (random.below(2) == 0) {
        const double value = static_cast<double>(random.between(-4000, 4000)) / 1000;
        tensor::convert(DType::kF64, dtype, 1, reinterpret_cast<const std::byte*>(&value), at);
      } else if (random.below(2) == 0) {
        std::memcpy(at, &bits, static_cast<size_t>(size));
      } else {
        tensor::convert(DType::kF64, dtype, 1, reinterpret_cast<const std::byte*>(&bits), at);
      }
      tensor::convert(dtype, DType::kF64, 1, at, reinterpret_cast<std::byte*>(&back));
    } while (finite && !(std::abs(back) <= std::numeric_limits<float>::max()));
  }
  return bytes;
}

inline Tensor of_bytes(std::string name, DType dtype, Shape shape, std::vector<std::byte> bytes) {
  const auto held = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {.name = std::move(name),
          .dtype = dtype,
          .shape = shape,
          .read = [=](const Box& box, std::span<std::byte> dst, const Origin& origin) {
            if (origin) return origin(box, dst);
            const auto size = static_cast<size_t>(tensor::size_of(dtype));
            SCALAI_CHECK(dst.size() == static_cast<size_t>(box.volume()) * size, box.str());
            for_each_element(shape, box, [&](int64_t at) {
              std::memcpy(dst.data(), held->data() + static_cast<size_t>(at) * size, size);
              dst = dst.subspan(size);
            });
            return absl::OkStatus();
          }};
}

struct DeviceCase {
  std::vector<std::string> steps;
  std::vector<Tensor> tensors;  // after them, read by the host
  std::string str() const { return fmt::format("{}", fmt::join(steps, " ")); }
};

// "w.weight" with averages, adapters, casts and scales in any order, and at last codes for most.
inline DeviceCase device_case(uint64_t seed) {
  Random random(seed);
  const auto any = [&] { return kFloats[static_cast<size_t>(random.below(std::ssize(kFloats)))]; };
  const int64_t rows = random.between(1, 60), columns = random.between(1, 90), rank = random.between(1, 5);
  const bool as_matrix = random.below(2) == 0, finite = random.below(4) != 0;
  const Shape shape = as_matrix ? Shape{rows, columns} : Shape{random.between(1, 3), rows, columns};
  const auto state = [&](const std::string& name, Shape of) {
    const DType dtype = any();
    return of_bytes(name, dtype, of, random_elements(random, dtype, of.elements(), finite));
  };
  Tensor base = state("w.weight", shape);
  if (!as_matrix)  // the first plane is some rows of a matrix, transposed
    base.parts = {{"w.weight", columns, rows + 3, {Box({0, 0, 0}, {1, rows, columns}), 1, {0, 1, rows + 3}}}};
  Other adapter{.tensors = {}, .alpha = 3, .identity = "a"};
  const int64_t of_rows = as_matrix ? rows : columns, of_columns = as_matrix ? columns : rows + 3;
  adapter.tensors = {state("w.lora_A.weight", Shape{rank, of_columns}), state("w.lora_B.weight", Shape{of_rows, rank})};
  const std::vector<Tensor> others = {state("w.weight", shape), state("w.weight", shape)};
  const auto open = [&](const std::string& path) -> absl::StatusOr<Other> {
    if (path == "adapter") return adapter;
    return Other{.tensors = {others[path == "b" ? 0 : 1]}, .alpha = {}, .identity = path};
  };
  DeviceCase made;
  for (int64_t left = random.between(0, 3); left > 0; --left) {
    switch (random.below(5)) {
      case 0:
        made.steps.push_back(fmt::format("cast({})", name_of(kFloats[static_cast<size_t>(random.below(4))])));
        break;
      case 1: made.steps.push_back(fmt::format("scale({})", std::array{0.3, -3.0, 0.0, 1e300}[seed % 4])); break;
      case 2: made.steps.emplace_back("average(b)"); break;
      case 3: made.steps.emplace_back("average(b, c)"); break;
      default: made.steps.emplace_back("lora(adapter)"); break;
    }
  }
  if (made.steps.empty() || random.below(2) == 0) {
    made.steps.emplace_back("quantise(i8)");
    if (random.below(2) == 0) made.steps.emplace_back("scale(0.7, tensors=w.weight_scale)");
    if (random.below(4) == 0 && rows > 1) made.steps.emplace_back("quantise(i8, tensors=w.weight_scale)");
  }
  auto tensors = transform(steps_of(made.steps), {base}, open);
  if (!tensors.ok()) {  // scales of a matrix have no rows
    made.steps.pop_back();
    tensors = transform(steps_of(made.steps), {base}, open);
  }
  SCALAI_CHECK(tensors.ok(), message_of(tensors.status()));
  made.tensors = *std::move(tensors);
  return made;
}

struct DeviceDifferences {
  std::string wrong;  // the first; empty: none
  int compared = 0;   // boxes with equal bytes
  int errors = 0;     // boxes with equal errors
};

// Boxes of all tensors of a case, which are computed on the device where they fit.
inline DeviceDifferences differences(const std::shared_ptr<Device>& device, uint64_t seed, const DeviceCase& one) {
  DeviceDifferences found;
  Random random(seed);
  std::vector<Tensor> there = one.tensors;
  (void)compute_on(device, there);
  for (size_t i = 0; i < there.size(); ++i) {
    const Tensor& host = one.tensors[i];
    if (!check_fits(host, device->chunk_bytes()).ok()) continue;
    for (int round = 0; round < 3 && found.wrong.empty(); ++round) {
      const Box box = round < 2 ? random_part(random, host.shape) : Box::whole(host.shape);
      const auto bytes = static_cast<size_t>(box.volume() * tensor::size_of(host.dtype));
      std::vector<std::byte> expected(bytes), got(bytes, std::byte{0x5a});
      const absl::Status of_host = host.read(box, expected, {}), of_device = there[i].read(box, got, {});
      const std::string where = fmt::format("{}: {} {}", one.str(), host.name, box.str());
      if (of_host.ok() != of_device.ok()) {
        found.wrong = fmt::format("{}: {} and not {}", where, message_of(of_device), message_of(of_host));
      } else if (!of_host.ok()) {
        ++found.errors;
      } else if (expected != got) {
        const auto at = std::mismatch(expected.begin(), expected.end(), got.begin()).first - expected.begin();
        const auto size = static_cast<size_t>(tensor::size_of(host.dtype)), element = static_cast<size_t>(at) / size;
        std::string bits;
        for (size_t b = 0; b < size; ++b)
          bits = fmt::format("{:02x}", static_cast<int>(got[element * size + b])) + bits;
        std::string wanted;
        for (size_t b = 0; b < size; ++b)
          wanted = fmt::format("{:02x}", static_cast<int>(expected[element * size + b])) + wanted;
        found.wrong = fmt::format("{}: element {} has the bits {}, not {}", where, element, bits, wanted);
      } else {
        ++found.compared;
      }
    }
  }
  return found;
}

}  // namespace scalai::transform
