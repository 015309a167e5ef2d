#pragma once
// What a job's state should be, anywhere and at any step: the closed form (executor/state/content.h), or for tensors that
// a real state has, what lies in its files. Training is emulated, so a real tensor stays what it is.
//
// A real state is a safetensors file, a folder of such files, or a checkpoint (ptc/checkpoint). Tensors are matched by
// name; their shapes must be the job's, their types are converted.
//
// Values behind const functions: safe from several threads.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/state/view.h"
#include "ptc/collection/collection.h"

namespace scalai::executor {

class StateSource {
 public:
  // Of a job; no path: the closed form alone. Errors: NotFound (no such file or folder, none in it), InvalidArgument (a
  // damaged one; a tensor that two files have).
  static absl::StatusOr<std::shared_ptr<const StateSource>> open(const std::string& job, const std::string& path);
  ~StateSource();

  // How many of the collection's tensors are real. InvalidArgument: one has another shape there, or none is there.
  absl::StatusOr<size_t> match(const collection::Collection& collection) const;
  bool is_real(const std::string& tensor) const;

  // Writes `part` of the tensor as it is at `step` into its place in `dst`, whose dtype is the one asked for. Errors: the
  // files'.
  absl::Status fill(const std::string& tensor, const tensor::Shape& shape, int64_t step, const Box& part,
                    const Target& dst) const;
  // Compares `part` of `src` with that, bit by bit; what is wrong first, if anything is.
  absl::StatusOr<std::optional<std::string>> check(const std::string& tensor, const tensor::Shape& shape, int64_t step,
                                                   const Box& part, const Source& src) const;

 private:
  struct Files;
  StateSource(std::string job, std::unique_ptr<Files> files);
  const std::string job_;
  const std::unique_ptr<Files> files_;  // null: no real state
};

}  // namespace scalai::executor
