#pragma once
// A digest of a box's elements, for GPUs at the speed of reading: unlike hash_box (content.h) it needs no order of
// work.
//
// The elements of the box, in row-major order, little endian, are cut into leaves of 128 bytes; the last one is padded
// with zeros. P1 … P4 are the primes of XXH64 (Collet, xxHash specification, 0.1.1), rotl is a rotation, w₀ … w₁₅ are a
// leaf's 64-bit words, i is its number, and lanes a₀ … a₃ begin at i·P2 + k·P3:
//   aₖ = rotl(aₖ + wⱼ·P2, 31)·P1   for j = k, k + 4, k + 8, k + 12        (XXH64's round)
//   leaf = avalanche(rotl(a₀, 1) + rotl(a₁, 7) + rotl(a₂, 12) + rotl(a₃, 18) + i·P4)
//   digest = avalanche(Σ leaf + bytes·P3)    modulo 2^64
// It finds corruption; it does not resist an adversary. Pure functions; any thread.

#include <cstdint>
#include <vector>

#include "executor/state/view.h"

namespace scalai::executor::state {

// CHECK: `part` lies in src.box.
uint64_t box_digest(const Source& src, const Box& part);

// The sum over the elements of `part`, modulo 2^64, of fold((i·P1 + bits·P2 + P3) · P4): i is the element's row-major
// index in a tensor of `shape`, bits are its bytes, little endian, and fold is the exclusive or of the halves of the
// product of 128 bits (the folded multiply of Yi, wyhash). Sums of disjoint boxes add up to the tensor's, however it is
// cut. Equal sums do not prove equal bits, but a random change passes about once in 2^64. CHECK: `part` lies in src.box
// and in the tensor.
uint64_t element_sum(const tensor::Shape& shape, const Source& src, const Box& part);

// The box in pieces of at most `bytes` (one element at least), in row-major order: runs of whole slices of one
// dimension, the first that can be cut. Both ends of a comparison cut alike. CHECK: bytes > 0.
std::vector<Box> digest_chunks(const Box& box, DType dtype, int64_t bytes);

}  // namespace scalai::executor::state
