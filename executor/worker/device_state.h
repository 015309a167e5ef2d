#pragma once
// What the devices of a worker hold of a collection: made, and checked. Through the back end, a device's pieces at once.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/worker/places.h"
#include "executor/worker/state_source.h"
#include "ptc/collection/collection.h"

namespace scalai::executor {

// The rank of a device; nothing when the collection does not use it.
std::optional<LogicalRank> rank_of(const collection::Collection& side, DeviceId device);

// Writes the content of `step` into all that the store has of this version. Without `real` tensors that a real state has
// stay as they are: training does not change them. Errors: those of StateSource::fill.
absl::Status fill_version(Backend& backend, Store& store, const VersionKey& key, const StateSource& content,
                          const collection::Collection& side, int64_t step, bool real);

enum class CheckDepth { kThere, kSample, kFull };  // that it is there; a row of each piece; every element

struct Checked {
  int64_t bytes = 0;               // compared
  std::vector<std::string> wrong;  // a line a piece
};
// All that the collection puts on the device must be there, and right.
absl::StatusOr<Checked> check_version(const Places& places, DeviceId device, const VersionKey& key,
                                      const StateSource& content, const collection::Collection& side, int64_t step,
                                      CheckDepth depth);

}  // namespace scalai::executor
