#include "executor/cuda/kernels/testing/cases.h"

#include <algorithm>

#include "ptc/state/tensor/convert.h"

namespace scalai::executor::cuda::kernels {

using tensor::Box;
using tensor::DType;

namespace {
using tensor::Shape;

constexpr int64_t kGuard = 48;
constexpr DType kFloats[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

int64_t bytes_of(const Box& box, DType dtype) { return box.volume() * tensor::size_of(dtype); }

// The next place in an array, `skew` bytes behind a multiple of 16.
int64_t place(int64_t& used, int64_t bytes, int64_t skew) {
  const int64_t at = (used + kGuard + 15) / 16 * 16 + skew;
  used = at + bytes + kGuard;
  return at;
}

void add(CopyCases& to, CopyCase one, int64_t src_skew, int64_t dst_skew) {
  if (!one.zero) one.src_at = place(to.src_bytes, bytes_of(one.src_box, one.src_type), src_skew);
  one.dst_at = place(to.dst_bytes, bytes_of(one.dst_box, one.dst_type), dst_skew);
  to.cases.push_back(one);
}
void add(ContentCases& to, ContentCase one, int64_t skew) {
  one.at = place(to.bytes, bytes_of(one.box, one.dtype), skew);
  to.cases.push_back(one);
}

CopyCases every_conversion() {
  CopyCases cases{"every conversion", {}, 0, 0};
  for (const DType from : kFloats) {
    for (const DType to : kFloats) {
      const int64_t size = std::max(tensor::size_of(from), tensor::size_of(to));
      for (const int64_t count : {1, 4, 63, 4096, 70000}) {
        const Box box({0}, {count});
        add(cases, {box, box, box, from, to}, 0, 0);
        add(cases, {box, box, box, from, to}, size % 16, 0);
        add(cases, {box, box, box, from, to}, 1, 3);
      }
      const Box part({1, 4}, {9, 16});
      add(cases, {part, Box({0, 0}, {9, 20}), Box({1, 0}, {10, 16}), from, to}, 0, 0);
      add(cases, {part, Box({0, 1}, {9, 20}), Box({1, 2}, {10, 19}), from, to}, 0, 0);
    }
  }
  return cases;
}

CopyCases every_run_and_alignment() {
  CopyCases cases{"every run and alignment", {}, 0, 0};
  for (int64_t run = 1; run <= 300; run += run < 80 ? 1 : 7) {
    for (int64_t skew = 0; skew < 16; ++skew) {
      const Box part({0, 2}, {3, 2 + run});
      const Box wider({0, 0}, {3, run + 2 + run % 5});
      CopyCase one{part, wider, part, DType::kU8, DType::kU8};
      add(cases, one, skew, (skew * 7 + run) % 16);
      add(cases, {part, part, wider, DType::kU8, DType::kU8}, (skew * 5 + run) % 16, skew);
      one.zero = true;
      one.dst_box = wider;
      add(cases, one, 0, skew);
    }
  }
  return cases;
}

CopyCases every_alignment_of_long_runs() {
  CopyCases cases{"every alignment of long runs", {}, 0, 0};
  for (int64_t src = 0; src < 16; ++src) {
    for (int64_t dst = 0; dst < 16; ++dst) {
      const Box box({0}, {700 + src * 13 + dst});
      add(cases, {box, box, box, DType::kU8, DType::kU8}, src, dst);
    }
    // Rows of several tiles.
    const Box rows({0, 0}, {2, 70001 + src});
    add(cases, {rows, rows, Box({0, 0}, {2, 80000}), DType::kU8, DType::kU8}, src, 3);
    add(cases, {rows, rows, Box({0, 0}, {2, 80000}), DType::kU8, DType::kU8, true}, 0, src);
  }
  const Box aligned({0}, {200000});
  add(cases, {aligned, aligned, aligned, DType::kBF16, DType::kBF16}, 0, 0);
  return cases;
}

// Ranks 0 to 5; both arrays reach from somewhere before the part to somewhere after it.
CopyCases random_parts(uint64_t seed, int count) {
  CopyCases cases{"random parts, seed " + std::to_string(seed), {}, 0, 0};
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    CopyCase one;
    const auto rank = static_cast<int8_t>(random.between(0, tensor::kMaxRank));
    one.part.rank = one.src_box.rank = one.dst_box.rank = rank;
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      const int64_t most = rank > 3 ? 6 : rank == 1 ? 5000 : 40;
      one.part.lo[d] = random.between(2, 4);
      one.part.hi[d] = one.part.lo[d] + (random.below(4) == 0 ? 1 : random.between(1, most));
      for (Box* box : {&one.src_box, &one.dst_box}) {
        box->lo[d] = random.below(2) == 0 ? one.part.lo[d] : random.between(0, one.part.lo[d]);
        box->hi[d] = random.below(2) == 0 ? one.part.hi[d] : one.part.hi[d] + random.between(0, 4);
      }
    }
    one.src_type = static_cast<DType>(random.below(15));
    one.dst_type = one.src_type;
    if (convertible(one.src_type, DType::kF32) && random.below(2) == 0) one.dst_type = kFloats[random.below(6)];
    one.zero = random.below(8) == 0;
    const bool natural = random.below(2) == 0;
    const int64_t src_skew = random.between(0, 15);
    const int64_t dst_skew = random.between(0, 15);
    add(cases, one, natural ? src_skew / tensor::size_of(one.src_type) * tensor::size_of(one.src_type) : src_skew,
        natural ? dst_skew / tensor::size_of(one.dst_type) * tensor::size_of(one.dst_type) : dst_skew);
  }
  return cases;
}

// What reconfigurations do, with small sizes.
CopyCases real_layouts() {
  CopyCases cases{"real layouts", {}, 0, 0};
  constexpr DType kType = DType::kBF16;
  const int64_t hidden = 256;
  // QKV by group: heads of q, k and v of each group side by side; a tensor-parallel half of them.
  const Box qkv({0, 0, 0, 0}, {8, 6, 32, hidden});
  for (int64_t half = 0; half < 2; ++half) {
    const Box groups({half * 4, 0, 0, 0}, {half * 4 + 4, 4, 32, hidden});
    add(cases, {groups, qkv, Box({half * 4, 0, 0, 0}, {half * 4 + 4, 6, 32, hidden}), kType, kType}, 0, 0);
  }
  // SwiGLU: gate and up one after the other in one buffer, halves of both.
  const Box swiglu({0, 0, 0}, {2, 688, hidden});
  add(cases, {Box({0, 344, 0}, {2, 688, hidden}), swiglu, Box({0, 344, 0}, {2, 688, hidden}), kType, kType}, 0, 0);
  // Row-parallel: columns of a matrix. Column-parallel: rows.
  const Box matrix({0, 0}, {512, 688});
  for (int64_t part = 0; part < 4; ++part) {
    const Box columns({0, part * 172}, {512, part * 172 + 172});
    add(cases, {columns, matrix, columns, kType, kType}, 0, 0);
    add(cases, {columns, columns, matrix, kType, kType}, 0, 0);
    add(cases, {columns, matrix, columns, DType::kF32, kType}, 0, 0);
    const Box rows({part * 128, 0}, {part * 128 + 128, 688});
    add(cases, {rows, matrix, rows, kType, kType}, 0, 0);
  }
  // ZeRO: ranges of a flat buffer that begin and end anywhere.
  const Box flat({0}, {100003});
  for (int64_t part = 0; part < 3; ++part) {
    const Box range({part * 33334 + 1}, {std::min<int64_t>(100003, part * 33334 + 33335)});
    add(cases, {range, flat, range, DType::kF32, DType::kF32}, 0, 0);
    add(cases, {range, flat, range, kType, kType}, 0, 0);
    add(cases, {range, flat, range, DType::kF32, kType}, 0, 0);
    add(cases, {range, range, flat, kType, DType::kF32}, 0, 0);
  }
  // A transpose of experts: single elements.
  add(cases, {Box({0, 3}, {4000, 4}), Box({0, 0}, {4000, 8}), Box({0, 3}, {4000, 5}), kType, kType}, 0, 0);
  return cases;
}

ContentCases every_type_and_via() {
  ContentCases cases{"every type and via", {}, 0};
  const Shape shape{3, 70001};
  for (int i = 0; i <= static_cast<int>(DType::kU64); ++i) {
    const auto dtype = static_cast<DType>(i);
    std::vector<std::optional<DType>> vias = {std::nullopt, DType::kI32};
    for (const DType via : kFloats) vias.push_back(via);
    for (const auto& via : vias) {
      const state::Content content{state::ContentKey::of("w"), shape, 7, via};
      const Box part({1, 65400}, {3, 65600});
      add(cases, {content, part, part, dtype}, 0);
      if (via) continue;
      for (int64_t skew = 0; skew < 16; ++skew) {
        add(cases, {content, Box({0, 5}, {3, 5 + 40 + skew}), Box({0, 0}, {3, 70}), dtype}, skew);
      }
      add(cases, {content, Box::whole(shape), Box::whole(shape), dtype}, 0);
    }
  }
  return cases;
}

ContentCases random_contents(uint64_t seed, int count) {
  ContentCases cases{"random contents, seed " + std::to_string(seed), {}, 0};
  Random random(seed);
  for (int i = 0; i < count; ++i) {
    ContentCase one;
    one.content.key.value = random.next();
    one.content.step = random.between(0, 1000000);
    if (random.below(3) == 0) one.content.via = kFloats[random.below(6)];
    const auto rank = static_cast<int8_t>(random.between(0, tensor::kMaxRank));
    one.part.rank = one.box.rank = rank;
    std::vector<int64_t> extents;
    // Large tensors of which only a small box is here: indices above 2^32, too.
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      extents.push_back(random.between(20, random.below(2) == 0 ? 60 : 5000));
      one.part.lo[d] = random.between(0, extents.back() - 1);
      one.part.hi[d] = std::min(extents.back(), one.part.lo[d] + random.between(1, rank > 3 ? 6 : 40));
      one.box.lo[d] = random.below(2) == 0 ? one.part.lo[d] : std::max<int64_t>(0, one.part.lo[d] - 3);
      one.box.hi[d] = one.part.hi[d] + random.between(0, 2);
    }
    one.content.shape = Shape(extents);
    one.dtype = static_cast<DType>(random.below(15));
    add(cases, one, random.between(0, 15));
  }
  return cases;
}
}  // namespace

std::string CopyCase::str() const {
  return part.str() + " of " + src_box.str() + " " + std::string(name_of(src_type)) + " at " + std::to_string(src_at) +
         " to " + dst_box.str() + " " + std::string(name_of(dst_type)) + " at " + std::to_string(dst_at) +
         (zero ? " (zeros)" : "");
}
std::string ContentCase::str() const {
  return part.str() + " of " + box.str() + " " + std::string(name_of(dtype)) + " at " + std::to_string(at) + " of " +
         content.shape.str() + (content.via ? " via " + std::string(name_of(*content.via)) : "");
}

std::vector<device::BoxCopy> copies_of(const CopyCases& cases, const std::byte* src, std::byte* dst) {
  std::vector<device::BoxCopy> copies;
  for (const CopyCase& one : cases.cases) {
    if (one.zero) continue;
    copies.push_back(
        {one.part, {one.src_box, one.src_type, src + one.src_at}, {one.dst_box, one.dst_type, dst + one.dst_at}});
  }
  return copies;
}
std::vector<BoxZero> zeros_of(const CopyCases& cases, std::byte* dst) {
  std::vector<BoxZero> zeros;
  for (const CopyCase& one : cases.cases) {
    if (one.zero) zeros.push_back({one.part, {one.dst_box, one.dst_type, dst + one.dst_at}});
  }
  return zeros;
}

std::vector<CopyCases> copy_cases(uint64_t seed) {
  std::vector<CopyCases> all = {every_conversion(), every_run_and_alignment(), every_alignment_of_long_runs(),
                                real_layouts()};
  for (uint64_t i = 0; i < 4; ++i) all.push_back(random_parts(seed + i, 1500));
  return all;
}

std::vector<ContentCases> content_cases(uint64_t seed) {
  std::vector<ContentCases> all = {every_type_and_via()};
  for (uint64_t i = 0; i < 2; ++i) all.push_back(random_contents(seed + i, 1000));
  return all;
}

std::vector<std::byte> bytes_for_cases(Random& random, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>((count + 15) / 16 * 16));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

}  // namespace scalai::executor::cuda::kernels
