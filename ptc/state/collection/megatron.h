#pragma once
// Megatron's rules as data: builds the Collection of a model's state under a parallel configuration. Pure functions;
// any thread may call.
//
//   tp   column (dim 0), row (dim 1), vocabulary (dim 0, padded to 128·tp), replicated      Shoeybi et al. 2019
//        fused QKV rows are cut evenly: whole query groups, or inside a group if tp is a multiple of the groups
//   pp   layers to stages, balanced or explicit, interleaved with vpp; embeddings on the first stage, final norm and
//        head on the last; a tied embedding is on both                                      Narayanan et al. 2021
//   dp   replicas; zero >= 1 cuts optimizer state, zero = 3 also parameters and their previous versions, into flat
//        shards per tensor: over cp·dp, of experts over edp (zero_axes)
//   cp   replicas, but for what zero cuts
//   ep   experts by global id over the expert mesh; etp cuts inside an expert
//
// Job-wide state (rng, step, data cursor) is on tp 0, cp 0 of the first stage of each data-parallel replica. So each
// replica has it once, and it survives as the parameters do.

#include <cstdint>

#include "absl/status/statusor.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/collection/layout_name.h"
#include "ptc/state/collection/mesh.h"
#include "ptc/state/model/model.h"

namespace scalai::collection {

// Options that a layout name does not contain.
struct MegatronOptions {
  // With zero1 and zero2, optimizer state is shared by buckets over cp·dp (of experts over edp), as in Megatron's
  // distributed optimizer (distributed_optimizer.h), instead of per tensor. zero3 is refused, because it has no
  // such buckets.
  bool distributed_optimizer_buckets = false;
  bool pad_to_64k = false;      // the ends of buckets are also multiples of 2^16 elements
  int64_t bucket_elements = 0;  // a bucket is closed once it has so many elements; 0 = one bucket per buffer
};

// The two meshes of a job: tp, cp, dp, pp in the order of the configuration; etp, ep, edp and pp over the same ranks.
// Where pp is the slowest axis (Megatron's order), the ranks of a stage are contiguous.
Mesh dense_mesh(const ParallelConfig& config);
Mesh expert_mesh(const ParallelConfig& config);

// Who shares what ZeRO cuts, of a dense parameter or an expert's: the number of shards, and the axes as a cut names
// them. Ranks that differ in cp have the same parameters and add up their gradients, so they share the state as those
// that differ in dp do (Megatron-Core's data-parallel group "with context parallel"; dp_cp and expt_dp of its process
// groups). Collections, memory and step times use this rule.
int zero_shards(const ParallelConfig& config, bool expert);
std::string zero_axes(const ParallelConfig& config, bool expert);

// Builds the collection; its name is the canonical layout name. `devices` are in rank order, config.world() of them.
// InvalidArgument: the errors of check_fit(), another number of devices, or buckets with zero3.
absl::StatusOr<Collection> megatron_collection(const model::Model& model, const model::Recipe& recipe,
                                               const ParallelConfig& config, std::vector<DeviceId> devices,
                                               const MegatronOptions& options = {});

// Checks a configuration against a model without building anything. InvalidArgument has all problems, one a line: sizes
// that do not divide, more stages than layers, ep for a model without experts, … A parameter with an uneven cut is
// reported only if there is no other problem.
absl::Status check_fit(const model::Model& model, const ParallelConfig& config);

}  // namespace scalai::collection
