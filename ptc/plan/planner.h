#pragma once
// The planner: the difference of two collections, with a source for every missing box.
//
// For each new piece on its device: what the device already holds as the same box is kept (0 bytes); what it holds as
// part of another box is copied on the device; what is missing is cut along the holders' boxes and fetched from the
// nearest class of holder (same host, NVLink domain, rack, group of racks, elsewhere, redundant copies alike; then
// storage), evenly over its members. In place, a box crosses to a host once and is passed on from there
// (internal/fan_out.h). A box that only storage has is read once and passed on, unless more reads take less time
// (internal/storage_reads.h). Neighbouring boxes that go the same way merge. Tensors alike are looked at once; each
// goes its own way, or, where boxes are millions, several go one way. Deterministic: integers, and predicted seconds by
// one order of additions; ties go to the fewest reads and the lowest id.
//
// The new collection's devices are taken as given: placement.h chooses them. Options are how strategies differ (DESIGN
// section 1: a strategy is data).

#include <set>

#include "absl/status/statusor.h"
#include "ptc/cluster/cluster.h"
#include "ptc/plan/plan.h"
#include "ptc/state/collection/collection.h"

namespace scalai::plan {

enum class SourceRule : uint8_t {
  kNearest,       // any replica: nearest class, then least loaded
  kFirstReplica,  // always the holder with the lowest rank (Tenplex: data-parallel rank 0)
  kStorage,       // everything from shared storage, which the residency must offer (checkpoint-restart)
};

// How a box that only storage has reaches the devices that want it.
enum class StorageReads : uint8_t {
  kOnce,       // one device reads it; it crosses to each other host once, and is passed on inside hosts
  kEachHost,   // one device of each host reads it and passes it on inside
  kEachDevice  // every device reads it for itself
};

struct PlannerOptions {
  std::string name = "reshard";
  // In place: what a device holds stays or is copied there, the rest comes straight from other devices. Otherwise every
  // byte of every new piece is pulled out of a host's memory, where the devices of that host have staged their state
  // (operations then have host-memory sources).
  bool in_place = true;
  SourceRule sources = SourceRule::kNearest;
  // In place, from the nearest holders: a device that has received a box passes it on. Otherwise each device fetches it
  // from one that held it before, however often the box crosses a link; from storage, each reads for itself.
  bool relay = true;
  HostId hub;               // valid: all devices stage their state in this host's memory (central)
  int64_t round_bytes = 0;  // a device receives at most so much per round (at least one box); 0 = one round
  // >= 0: no device ever holds more than this beyond the larger of what it held and will hold (DeviceMemory). Boxes are
  // cut, ordered into rounds and freed early for it. Only in place and not with kStorage; replaces round_bytes.
  int64_t memory_cap = -1;
  // A parameter box that is not on its device but whose fp32 master will be is cast from that instead of moved. For
  // parameters that have a master of the same name and shape and a wider type.
  bool derive_params = false;
};

struct PlannerInput {
  const collection::Collection& from;
  const collection::Collection& to;
  const cluster::Cluster& cluster;
  const collection::Residency& residency;
  PlannerOptions options;
  // Old devices that will soon be gone. In place, without a memory cap: a box is read from them only where nobody else
  // holds it, and these reads come first, in a round of their own where rounds have no limit.
  std::set<DeviceId> leaving = {};
};

// Errors (InvalidArgument): the collections do not hold the same tensors, a dtype change that is not between floating
// types, a device or a copy's host is outside the cluster, no order keeps the memory cap (with the smallest that
// works). State without a holder is not an error here: it is in Plan::missing, tensor by tensor, box by box.
absl::StatusOr<Plan> make_plan(const PlannerInput& input);

}  // namespace scalai::plan
