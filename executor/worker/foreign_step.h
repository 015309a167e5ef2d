#pragma once
// ForeignStep: a live step of another run (executor/live), as the source of a plan that brings it to this worker's
// devices. The other run's hosts have the first numbers of the cluster that the plan is for. What is known to be the
// same in a version that the devices hold already is not read again. Steps may change its tensors while they are read.
//
// Any thread.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/worker/foreign_tensors.h"
#include "executor/worker/places.h"

namespace scalai::proto {
class Foreign;
}

namespace scalai::executor::worker {

class ForeignStep {
 public:
  // For the tensors of a plan. InvalidArgument: numbers of tensors that do not fit it, or boxes that are none; those of
  // ForeignTensors::make.
  static absl::StatusOr<ForeignStep> make(const proto::Foreign& message, const std::vector<plan::TensorInfo>& planned);

  bool holds(const Places& places, const Location& place) const {
    return places.in_cluster(place) && places.host_of(place).value < hosts_;
  }
  // As Places::read(), of a tensor of the plan: out of the device, or where training has gone on since, out of the copy
  // in its host's memory. With steps other devices are read, too, where one has not all that they need. `taken`: adds
  // the bytes that were read of each device, in the narrower type. DeadlineExceeded: its host is silent, and is not
  // asked again for this step.
  using Taken = std::map<Location, int64_t>;
  absl::Status read(Places& places, const Location& device, TensorId tensor, const tensor::Box& box,
                    const state::Target& dst, Taken& taken) const;
  // The parts of the box that are not as in the version before; nothing where that is not known.
  std::optional<std::vector<tensor::Box>> changes(TensorId tensor, const tensor::Box& box) const;

 private:
  absl::Status read_there(Places& places, const Location& device, TensorId there, const tensor::Box& box,
                          const state::Target& dst) const;

  int32_t hosts_ = 0;
  state::VersionKey key_;
  std::vector<TensorId> numbers_;  // there, by tensor of the plan
  bool has_changes_ = false;
  std::map<TensorId, std::vector<tensor::Box>> changes_;
  std::vector<tensor::DType> dtypes_;  // there
  ForeignTensors tensors_;
  struct Silent {
    std::mutex mutex;
    std::map<HostId, absl::Status> hosts;  // and what the first read of each gave
  };
  std::shared_ptr<Silent> silent_ = std::make_shared<Silent>();
};

}  // namespace scalai::executor::worker
