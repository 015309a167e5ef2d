#pragma once
// StateSource: the right content of a job's state, for any box and step. A real tensor has the content of its file at
// every step, because training is emulated. Any other tensor has the closed form (executor/state/content.h).
//
// A real state is a safetensors file, a folder of such files, or a checkpoint that ptc/store/views/checkpoint.h
// reads: a job's checkpoint, one written by `scalai checkpoint reshard` in any layout, a Hugging Face folder. Logical
// names match tensors. Shapes must be those of the job. Types are converted.
//
// Thread rules: immutable; any thread, several at once.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/device/backend.h"
#include "executor/state/view.h"
#include "ptc/state/collection/collection.h"

namespace scalai::executor::worker {

// A box of a logical tensor. `tensor` is a view: the name outlives the part.
struct StatePart {
  std::string_view tensor;
  tensor::Shape shape;
  tensor::Box part;
};

class StateSource {
 public:
  // Opens the real state at `path`. With an empty path every tensor has the closed form. `job` is the job's name, a
  // part of the closed form. Errors: NotFound (no such file or folder, or the folder has no such file), InvalidArgument
  // (a damaged file; a tensor in two files).
  static absl::StatusOr<std::shared_ptr<const StateSource>> open(const std::string& job, const std::string& path);
  ~StateSource();

  // Returns the number of the collection's real tensors. InvalidArgument: a real tensor has another shape, or a real
  // state has none of the collection's tensors.
  absl::StatusOr<size_t> match(const collection::Collection& collection) const;
  bool is_real(const std::string& tensor) const;

  // Writes the content of `step` into the back end's memory, cast to the targets' types. targets[i] is the place of
  // parts[i]. Errors: those of the files and of the back end.
  absl::Status fill(device::Backend& backend, int64_t step, std::span<const StatePart> parts,
                    std::span<const state::Target> targets) const;
  // Compares memory with the content of `step`, bit by bit. sources[i] is the place of parts[i]. Entry i of the result
  // describes the first wrong element of parts[i]; it is nothing if all are right. Errors: as of fill().
  absl::StatusOr<std::vector<std::optional<std::string>>> check(device::Backend& backend, int64_t step,
                                                                std::span<const StatePart> parts,
                                                                std::span<const state::Source> sources) const;

 private:
  struct Files;
  StateSource(std::string job, std::unique_ptr<Files> files);
  absl::StatusOr<std::optional<std::string>> check_real(device::Backend& backend, const StatePart& part,
                                                        const state::Source& src) const;
  const std::string job_;
  const std::unique_ptr<Files> files_;  // null: no real state
};

}  // namespace scalai::executor::worker
