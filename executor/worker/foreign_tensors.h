#pragma once
// ForeignTensors: what steps (ptc/state/transform) make of another run's tensors while receivers read them. A box of a
// result is made of boxes of one tensor there, its origin: of the place that the plan names, and of other holders where
// that has not all of it, as where a row lies on several devices. Chunk by chunk: in the host's memory, or, if the
// result goes to a GPU, there: what is read goes up, steps are computed, and what they give is copied to its place.
//
// Immutable; any thread.

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "executor/worker/places.h"
#include "ptc/state/collection/collection.h"
#include "ptc/state/transform/transform.h"

namespace scalai::proto {
class Foreign;
}

namespace scalai::executor::worker {

class ForeignTensors {
 public:
  // For these tensors of a plan. InvalidArgument: steps or a collection that are none, results that are not the plan's.
  // FailedPrecondition: other states that steps read are not those that `message` means. Errors of opening them.
  static absl::StatusOr<ForeignTensors> make(const proto::Foreign& message,
                                             const std::vector<plan::TensorInfo>& planned);

  // Whether a read has to go through steps; otherwise what lies there is what the plan reads.
  bool is_made(TensorId tensor) const { return !made_.empty() && made_[static_cast<size_t>(tensor.value)].has_value(); }
  // Reads from a device of the run, which has all of the box or nothing.
  using ReadPart =
      std::function<absl::Status(const Location& device, const tensor::Box& part, const state::Target& dst)>;
  // Makes a box of one of these. `device` is asked first. What a GPU has no room for is made by the host, with a
  // warning. Errors: of `part` and of steps; NotFound (no device has it); of the GPU.
  absl::Status read(device::Backend& backend, const Location& device, TensorId tensor, const tensor::Box& box,
                    const state::Target& dst, const ReadPart& part) const;

 private:
  struct Made {
    transform::Tensor tensor;
    TensorId origin;  // in side_
  };
  absl::Status read_origin(const Location& device, TensorId origin, const tensor::Box& box, std::span<std::byte> dst,
                           const ReadPart& part) const;

  // Null, with a warning for the first tensor: by the host.
  std::shared_ptr<transform::Device> steps_at(device::Backend& backend, const transform::Tensor& tensor,
                                              const std::byte* address) const;

  collection::Collection side_;
  std::vector<std::optional<Made>> made_;  // by tensor of the plan; empty: no steps
  std::shared_ptr<std::once_flag> warned_ = std::make_shared<std::once_flag>();
};

}  // namespace scalai::executor::worker
