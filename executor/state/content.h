#pragma once
// Verifiable state: every element of a job's state is a function of (tensor name, global element index, training step),
// so that any box of it can be made and checked anywhere.
//
// With 32-bit words, i the global row-major index, b = i / 2^16 and (u, v) two words of a 64-bit mix of (key, step, b):
//   h = mix(u + 0x9e3779b9·(i mod 2^16), v)    mix: two rounds of shift, xor and multiply
// Floating types hold the float32 (int32)h·2^-31, in [−1, 1], rounded to nearest even; integer types hold bits of h. Thus
// neighbours, steps and tensors differ almost always: in all bits a type can show (two random BF16 agree in one of about
// 500 cases).
//
// "x.master" has the float32 values of "x". A parameter that is cast from its master has therefore the right content.
// All functions are pure: any thread.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "executor/state/view.h"
#include "ptc/tensor/box.h"
#include "ptc/tensor/dtype.h"

namespace scalai::executor {

// What tells a tensor of a job from all others.
struct ContentKey {
  uint64_t value = 0;
  // Of the logical tensor's name without ".master"; `job` keeps two jobs of one model apart.
  static ContentKey of(std::string_view tensor, std::string_view job = {});
  friend bool operator==(const ContentKey&, const ContentKey&) = default;
};

struct Content {
  ContentKey key;
  tensor::Shape shape;  // of the logical tensor: gives elements their global index
  int64_t step = 0;
  // The floating type a value was rounded to before it got the type asked for: BF16 when it travelled in BF16 and was
  // widened again. Absent: the type asked for. Means nothing for integer types.
  std::optional<DType> via = std::nullopt;
};

// Writes the content of `part` into its place in `dst`, whose dtype is the one asked for. `part` lies in dst.box and in
// the tensor (CHECK); an empty part is nothing to do.
void fill_box(const Content& content, const Box& part, const Target& dst);

// The first wrong element in row-major order.
struct Mismatch {
  int rank = 0;
  std::array<int64_t, tensor::kMaxRank> index{};  // in the tensor's coordinates
  std::string expected;                           // "-0.1875 (0xbe40)"
  std::string found;
  std::string str() const;  // "element [3, 17] is 0 (0x0000), expected -0.1875 (0xbe40)"
};
// Compares `part` of `src` bit by bit with its content; nullopt when all of it is right.
std::optional<Mismatch> check_box(const Content& content, const Box& part, const Source& src);

// XXH3 (64 bits) of the elements of `part` in row-major order, little endian: of what they should be …
uint64_t hash_box(const Content& content, const Box& part, DType dtype);
// … and of what is there. Equal for equal bytes, wherever they lie.
uint64_t hash_box(const Source& src, const Box& part);

}  // namespace scalai::executor
