#pragma once
// The computation graph of the red-blue pebble game (Hong and Kung, "I/O complexity: the red-blue pebble game", STOC
// 1981), with values of any size. Plain values; one thread per object, const calls from any.
//
// A value is computed once from its operands, by an operation that needs all of them in fast memory. Fast memory holds
// `capacity` units; slow memory has no limit. A load copies a value from slow to fast memory, a store the other way;
// each costs the value's size. Fast memory may forget a value at any time. Recomputation is excluded: what an
// operation made is loaded again or kept. A value may take the room of operands that are forgotten at that moment.

#include <cstdint>
#include <span>
#include <vector>

namespace scalai::bounds {

// Where a value comes from and where it has to go.
enum class Role : uint8_t {
  kComputed,  // made by its operation; nobody asks for it after the last use. Without operands: generated for nothing
  kInput,     // lies in slow memory from the beginning: loads cost, stores are not needed; never computed
  kResult     // as kComputed, and has to lie in slow memory at the end
};

class ComputationGraph {
 public:
  // Each returns the number of the new value, from 0. Operands exist already, so numbers are an order of evaluation.
  // A value that is named twice as an operand counts once. `after`: operations that come earlier in any order without
  // being used, as when one operation makes two values. CHECK: size > 0, operands and `after` are numbers of this
  // graph, `after` of no inputs.
  int32_t input(int64_t size);
  int32_t computed(int64_t size, std::span<const int32_t> operands, std::span<const int32_t> after = {});
  int32_t result(int64_t size, std::span<const int32_t> operands);

  int32_t values() const { return static_cast<int32_t>(sizes_.size()); }
  int32_t operations() const { return operations_; }  // values that are not inputs
  int64_t size(int32_t value) const { return sizes_[static_cast<size_t>(value)]; }
  Role role(int32_t value) const { return roles_[static_cast<size_t>(value)]; }
  std::span<const int32_t> operands(int32_t value) const { return operands_[static_cast<size_t>(value)]; }
  std::span<const int32_t> after(int32_t value) const { return after_[static_cast<size_t>(value)]; }
  std::span<const int32_t> users(int32_t value) const { return users_[static_cast<size_t>(value)]; }

  // The largest sum of an operation's operands, or size of a value: with less fast memory nothing can be computed.
  int64_t least_capacity() const;
  // Loads of inputs that are used, and stores of results: each at least once, whatever the order.
  int64_t total() const;  // of all sizes: with so much fast memory nothing has to leave it
  int64_t used_inputs() const;
  int64_t results() const;

 private:
  int32_t add(int64_t size, Role role, std::span<const int32_t> operands, std::span<const int32_t> after);

  std::vector<int64_t> sizes_;
  std::vector<Role> roles_;
  std::vector<std::vector<int32_t>> operands_, users_, after_;
  int32_t operations_ = 0;
};

}  // namespace scalai::bounds
