#pragma once
// What a job's state should be, anywhere and at any step: the closed form (executor/state/content.h), or for tensors that
// a real state has, what lies in its files. Training is emulated, so a real tensor stays what it is.
//
// A real state is a safetensors file, a folder of such files, or any checkpoint that says what it is
// (ptc/checkpoint/checkpoint.h): a job's, one that `scalai reshard` wrote in whatever layout, a Hugging Face folder. Tensors
// are matched by their logical names; their shapes must be the job's, their types are converted.
//
// Values behind const functions: safe from several threads.

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
#include "ptc/collection/collection.h"

namespace scalai::executor {

// Of a logical tensor.
struct StatePart {
  std::string_view tensor;
  tensor::Shape shape;
  Box part;
};

class StateSource {
 public:
  // Of a job; no path: the closed form alone. Errors: NotFound (no such file or folder, none in it), InvalidArgument (a
  // damaged one; a tensor that two files have).
  static absl::StatusOr<std::shared_ptr<const StateSource>> open(const std::string& job, const std::string& path);
  ~StateSource();

  // How many of the collection's tensors are real. InvalidArgument: one has another shape there, or none is there.
  absl::StatusOr<size_t> match(const collection::Collection& collection) const;
  bool is_real(const std::string& tensor) const;

  // Writes parts as they are at `step` into their places in memory of the back end; the dtypes there are the ones asked
  // for. One target a part. Errors: the files', the back end's.
  absl::Status fill(Backend& backend, int64_t step, std::span<const StatePart> parts,
                    std::span<const Target> targets) const;
  // Compares what is there with that, bit by bit: what is wrong first, if anything is, an entry a part.
  absl::StatusOr<std::vector<std::optional<std::string>>> check(Backend& backend, int64_t step,
                                                                std::span<const StatePart> parts,
                                                                std::span<const Source> sources) const;

 private:
  struct Files;
  StateSource(std::string job, std::unique_ptr<Files> files);
  absl::StatusOr<std::optional<std::string>> check_real(Backend& backend, const StatePart& part,
                                                        const Source& src) const;
  const std::string job_;
  const std::unique_ptr<Files> files_;  // null: no real state
};

}  // namespace scalai::executor
