#pragma once
// The extension module scalai._core: values of the planning core for Python. Every function that can fail raises
// scalai.Error with the message of the core.

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ptc/state/model/model.h"
#include "ptc/state/tensor/box.h"
#include "ptc/state/tensor/dtype.h"

namespace scalai::python {

void add_checkpoints(nanobind::module_& module);
void add_collections(nanobind::module_& module);
void add_gpu_memory(nanobind::module_& module);
void add_plans(nanobind::module_& module);
void add_samples(nanobind::module_& module);

using Range = std::tuple<int64_t, int64_t>;  // of a box in one dimension: begin, end

// {"name": "weight", "dtype": "BF16", "shape": (1024, 512), "kind": "param", "bytes": 1048576}
nanobind::dict tensor_dict(const std::string& name, tensor::DType dtype, const tensor::Shape& shape,
                           model::StateKind kind);

// Raises scalai.Error for a status that is not OK: InvalidError, MissingError or FailedError, by its exit code.
void check(const absl::Status& status);

template <class T>
T value_of(absl::StatusOr<T> result) {
  check(result.status());
  return *std::move(result);
}

}  // namespace scalai::python
