#pragma once
// Routes: the GPU, or the CPU, that executes each copy of a batch. Pure functions; any thread.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "executor/device/backend.h"

namespace scalai::executor::cuda {

// Place of an address: a GPU's number, pageable host memory (CPU only), or pinned host memory (CPU and all GPUs).
inline constexpr int kPageable = -1;
inline constexpr int kPinned = -2;
using PlaceOf = std::function<int(const std::byte*)>;
// True if kernels on `gpu` can access the memory of GPU `other`.
using Reaches = std::function<bool(int gpu, int other)>;

struct Routes {
  std::map<int, std::vector<device::BoxCopy>> direct;               // by a kernel on this GPU
  std::map<int, std::vector<device::BoxCopy>> up;                   // from pageable memory to this GPU
  std::map<int, std::vector<device::BoxCopy>> down;                 // from this GPU to pageable memory
  std::map<std::pair<int, int>, std::vector<device::BoxCopy>> far;  // by (from, to): GPUs without access to each other
  std::vector<device::BoxCopy> host;                                // by the CPU
  std::set<int> gpus() const;                                       // all GPUs with work
};

// Copies between GPUs are the work of the destination, if it has access to the source. Drops empty parts; keeps the
// order of the batch within a route. `stage_all`: kernels access their own GPU only, not pinned memory, and copies
// inside a GPU go to `far`, too.
Routes sort_copies(std::span<const device::BoxCopy> copies, const PlaceOf& place_of, const Reaches& reaches,
                   bool stage_all = false);

// Indices of the elements of a batch, by the value of `place`; host memory under kPageable.
std::map<int, std::vector<size_t>> sort_by_place(size_t count, const std::function<int(size_t)>& place);

}  // namespace scalai::executor::cuda
