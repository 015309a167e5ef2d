#pragma once
// Routes: who carries out each copy of a batch. Pure functions: any thread.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor::cuda {

// Where an address lies: a GPU's number, or host memory that the CPU alone reaches, or all GPUs too.
inline constexpr int kPageable = -1;
inline constexpr int kPinned = -2;
using PlaceOf = std::function<int(const std::byte*)>;
// Whether a kernel on `gpu` reads and writes the memory of `other`, another one.
using Reaches = std::function<bool(int gpu, int other)>;

struct Routes {
  std::map<int, std::vector<BoxCopy>> direct;               // by a kernel on this GPU
  std::map<int, std::vector<BoxCopy>> up;                   // from pageable memory to this GPU
  std::map<int, std::vector<BoxCopy>> down;                 // from this GPU to pageable memory
  std::map<std::pair<int, int>, std::vector<BoxCopy>> far;  // from, to: GPUs that do not reach each other
  std::vector<BoxCopy> host;                                // by the CPU
  std::set<int> gpus() const;                               // all that have work
};

// Copies between GPUs are the destination's work when it reaches the source. Empty parts are left out; the order within
// a route is that of the batch. `stage_all`: no kernel reaches another place than its own GPU, nor pinned memory, and
// also copies inside a GPU go the way of `far`.
Routes sort_copies(std::span<const BoxCopy> copies, const PlaceOf& place_of, const Reaches& reaches,
                   bool stage_all = false);

// Indices of the elements of a batch by the place that `place` names for each, those in host memory under kPageable.
std::map<int, std::vector<size_t>> sort_by_place(size_t count, const std::function<int(size_t)>& place);

}  // namespace scalai::executor::cuda
