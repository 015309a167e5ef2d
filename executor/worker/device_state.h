#pragma once
// Makes and checks the state of a collection on a worker's devices. The back end works on all pieces of a device at
// once.
//
// Thread rules: any thread, several at once for different devices.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "executor/worker/places.h"
#include "executor/worker/state_source.h"
#include "ptc/state/collection/collection.h"

namespace scalai::executor::worker {

// The rank of a device; nothing if the collection does not use the device.
std::optional<LogicalRank> rank_of(const collection::Collection& side, DeviceId device);

// Writes the content of `step` into all pieces that the store has of the version. With real = false, real tensors (see
// StateSource) stay unchanged, as in emulated training. Errors: those of StateSource::fill.
absl::Status fill_version(device::Backend& backend, state::Store& store, const state::VersionKey& key,
                          const StateSource& content, const collection::Collection& side, int64_t step, bool real);

// kThere compares no element, kSample one row of each piece, kFull every element.
enum class CheckDepth { kThere, kSample, kFull };

struct Checked {
  int64_t bytes = 0;               // bytes compared
  std::vector<std::string> wrong;  // one line for each missing or wrong piece
};
// Checks that the device holds every piece that the collection puts on it, with the content of `step`. A wrong piece is
// a line of the result, no error. Errors: those of StateSource::check.
absl::StatusOr<Checked> check_version(const Places& places, DeviceId device, const state::VersionKey& key,
                                      const StateSource& content, const collection::Collection& side, int64_t step,
                                      CheckDepth depth);

// What a device holds of a version: the element sum (executor/state/digest.h) of each piece that the collection puts on
// it.
struct PieceSum {
  TensorId tensor;
  tensor::Box box;
  uint64_t sum = 0;
};
// Nothing of a device that holds nothing of the version. Errors: NotFound (it does not hold all that it should), those
// of the back end.
absl::StatusOr<std::vector<PieceSum>> sums_of(Places& places, DeviceId device, const state::VersionKey& key,
                                              const collection::Collection& side);

}  // namespace scalai::executor::worker
