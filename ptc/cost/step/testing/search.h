#pragma once
// What tests of the search share.

#include <string>

#include "ptc/cluster/catalogue.h"
#include "ptc/cost/step/search.h"
#include "ptc/state/model/catalogue.h"

namespace scalai::step::testing {

inline constexpr int64_t kGiB = int64_t{1} << 30;

inline cluster::Host host_of(int gpus, const std::string& kind = "h100-80g") {
  const cluster::GpuKind& gpu = *cluster::find_gpu_kind(kind);
  return {.gpus = gpus,
          .gpu = gpu,
          .gpu_link_bytes_per_s = gpu.link_bytes_per_s,
          .pcie_bytes_per_s = gpu.pcie_bytes_per_s,
          .nics = gpus,
          .nic_bytes_per_s = 50e9};
}

inline SearchSpace space_of(int gpus, int batch, int sequence) {
  SearchSpace space;
  space.gpus = gpus;
  space.host = host_of(8);
  space.base.global_batch = batch;
  space.base.sequence = sequence;
  return space;
}

inline ModelShape named(const std::string& name) { return shape_of(model::find_model(name).value()); }

}  // namespace scalai::step::testing
