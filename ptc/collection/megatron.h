#pragma once
// Megatron's rules as data: builds the Collection of a model's state under a parallel configuration.
//
//   tp   column (dim 0), row (dim 1), vocabulary (dim 0, padded to 128·tp), replicated      Shoeybi et al. 2019
//        fused QKV rows are cut evenly: whole query groups, or inside a group when tp is a multiple of them
//   pp   layers to stages, balanced or explicit, interleaved with vpp; embeddings on the first stage, final norm and
//        head on the last; a tied embedding lives on both                                  Narayanan et al. 2021
//   dp   replicas; with zero >= 1 optimizer state, zero = 3 also parameters, are flat shards over dp (per tensor)
//   cp   replicas; ep experts by global id over the expert mesh; etp cuts inside an expert
// Job-wide state (rng, step, data cursor) lives on tp 0, cp 0 of the first stage of each data-parallel replica, so that
// it is in the job once and survives as the parameters do.

#include <cstdint>

#include "absl/status/statusor.h"
#include "ptc/collection/collection.h"
#include "ptc/collection/layout_name.h"
#include "ptc/collection/mesh.h"
#include "ptc/model/model.h"

namespace scalai::collection {

// What a layout name does not say.
struct MegatronOptions {
  // With zero1 and zero2, optimizer state is shared out by buckets over cp·dp, as Megatron's distributed optimizer
  // does it (distributed_optimizer.h), instead of per tensor over dp. zero3 is refused: it has no such buckets.
  bool distributed_optimizer_buckets = false;
  bool pad_to_64k = false;      // bucket ends also at multiples of 2^16 elements
  int64_t bucket_elements = 0;  // a bucket is closed when it has so many; 0 = one bucket a buffer
};

// The two meshes of a job's ranks: tp, cp, dp, pp in the configuration's order, and etp, ep, edp and pp over the same
// ranks: where pp is slowest (Megatron's order) a stage's ranks are contiguous.
Mesh dense_mesh(const ParallelConfig& config);
Mesh expert_mesh(const ParallelConfig& config);

// Devices in rank order; as many as config.world(). Errors: what does not divide, more stages than layers, ep for a
// model without experts.
absl::StatusOr<Collection> megatron_collection(const model::Model& model, const model::Recipe& recipe,
                                               const ParallelConfig& config, std::vector<DeviceId> devices,
                                               const MegatronOptions& options = {});

// Checks a configuration against a model without building anything; all problems, one a line.
absl::Status check_fit(const model::Model& model, const ParallelConfig& config);

}  // namespace scalai::collection
