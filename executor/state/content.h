#pragma once
// Verifiable state: every element of a job's state is a function of (tensor name, global element index, training step),
// so any box of it can be computed and checked anywhere.
//
// With 32-bit words, i the global row-major index, b = i / 2^16 and (u, v) two words of a 64-bit mix of (key, step, b):
//   h = mix(u + 0x9e3779b9·(i mod 2^16), v)    mix: two rounds of shift, xor and multiply
// Floating types contain the float32 (int32)h·2^-31, in [−1, 1], rounded to nearest even; integer types contain bits of
// h. Thus neighbours, steps and tensors differ almost always, in all bits that a type has (two random BF16 are equal in
// about one of 500 cases).
//
// "x.master" has the float32 values of "x", so a parameter cast from its master has the right content. Pure functions;
// any thread.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "executor/state/view.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::executor::state {

// Identity of a tensor of a job.
struct ContentKey {
  uint64_t value = 0;
  // Hash of the logical tensor's name without ".master"; `job` distinguishes two jobs with the same model.
  static ContentKey of(std::string_view tensor, std::string_view job = {});
  friend bool operator==(const ContentKey&, const ContentKey&) = default;
};

struct Content {
  ContentKey key;
  tensor::Shape shape;  // of the logical tensor; defines the global index of elements
  int64_t step = 0;
  // The floating type to which a value was rounded before its conversion to the final type: BF16 if it travelled in
  // BF16 and was widened again. nullopt: the final type. Ignored for integer types.
  std::optional<DType> via = std::nullopt;
};

// Writes the content of `part` to its place in `dst`, in the type of `dst`. CHECK: `part` lies in dst.box and in the
// tensor. An empty part has no effect.
void fill_box(const Content& content, const Box& part, const Target& dst);

// The first wrong element in row-major order.
struct Mismatch {
  int rank = 0;
  std::array<int64_t, tensor::kMaxRank> index{};  // coordinates in the tensor
  std::string expected;                           // "-0.1875 (0xbe40)"
  std::string found;
  std::string str() const;  // "element [3, 17] is 0 (0x0000), expected -0.1875 (0xbe40)"
};
// Compares `part` of `src` bit by bit with its content; nullopt: all equal.
std::optional<Mismatch> check_box(const Content& content, const Box& part, const Source& src);

// 64-bit XXH3 of the elements of `part` in row-major order, little endian: of the expected elements …
uint64_t hash_box(const Content& content, const Box& part, DType dtype);
// … and of the present ones. Equal bytes give equal hashes at any place.
uint64_t hash_box(const Source& src, const Box& part);

}  // namespace scalai::executor::state
