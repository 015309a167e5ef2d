#include "executor/cuda/routes.h"

namespace scalai::executor::cuda {

std::set<int> Routes::gpus() const {
  std::set<int> all;
  for (const auto* route : {&direct, &up, &down}) {
    for (const auto& [gpu, copies] : *route) all.insert(gpu);
  }
  for (const auto& [ends, copies] : far) all.insert({ends.first, ends.second});
  return all;
}

Routes sort_copies(std::span<const device::BoxCopy> copies, const PlaceOf& place_of, const Reaches& reaches,
                   bool stage_all) {
  Routes routes;
  const auto seen_from_gpu = [&](int place) { return stage_all && place == kPinned ? kPageable : place; };
  for (const device::BoxCopy& copy : copies) {
    if (copy.part.empty()) continue;
    const int from = seen_from_gpu(place_of(copy.src.data));
    const int to = seen_from_gpu(place_of(copy.dst.data));
    const bool from_gpu = from >= 0;
    const bool to_gpu = to >= 0;
    if (!from_gpu && !to_gpu) {
      routes.host.push_back(copy);
    } else if (from == kPageable) {
      routes.up[to].push_back(copy);
    } else if (to == kPageable) {
      routes.down[from].push_back(copy);
    } else if (!to_gpu) {
      routes.direct[from].push_back(copy);
    } else if (!from_gpu || (!stage_all && (from == to || reaches(to, from)))) {
      routes.direct[to].push_back(copy);
    } else {
      routes.far[{from, to}].push_back(copy);
    }
  }
  return routes;
}

std::map<int, std::vector<size_t>> sort_by_place(size_t count, const std::function<int(size_t)>& place) {
  std::map<int, std::vector<size_t>> sorted;
  for (size_t i = 0; i < count; ++i) {
    const int at = place(i);
    sorted[at >= 0 ? at : kPageable].push_back(i);
  }
  return sorted;
}

}  // namespace scalai::executor::cuda
